// One company: its data, the names to choose from, and what the register of rights has under each.
import { api, byId, data, el, empty, events, explain, liveMark, may, notice, t, tell, toast } from "./base.js";
import { state } from "./registry_states.js";

const where = `/api/search-sessions/${encodeURIComponent(data.id)}`;
const form = /** @type {HTMLFormElement} */ (byId("names-form"));
let due = 0, drawn = "";

const chosen = () => new FormData(form).getAll("name").map(String);

function drawNames(one) {
  const searched = new Set(one.rights.map((search) => search.name));
  const shape = JSON.stringify([one.names, [...searched]]);
  if (shape === drawn) return;
  const kept = new Set(chosen());
  drawn = shape;
  byId("names").replaceChildren(...one.names.map(({ name, state: said }) => el("label", {},
    el("input", { type: "checkbox", name: "name", value: name, checked: kept.has(name) && !searched.has(name), disabled: searched.has(name) || !may("reviewer") }),
    el("span", {}, name), said ? el("span", { class: "small muted" }, said) : null)));
}

function line(one) {
  return el("tr", {},
    el("td", {}, one.name ?? one.id),
    el("td", {}, state(one.status), one.status === "failed" && one.error ? el("div", { class: "small text-bad" }, one.error) : null),
    el("td", {}, one.is_empty ? t("company.nothing") : el("ul", { class: "plain" }, one.registrations.map((found) => el("li", {}, Object.values(found).join(" · "))))),
    el("td", { class: "right" }, one.file ? el("a", { href: one.file, download: "" }, t("company.download")) : ""));
}

function draw(one) {
  byId("status").replaceChildren(state(one.status));
  byId("notices").replaceChildren(...(one.status === "failed" && one.error ? [notice("bad", "stop", one.error)] : []));
  byId("facts-list").replaceChildren(...Object.entries(one.found ?? {}).flatMap(([name, value]) => [el("dt", {}, tell(`company.fact_${name}`, name)), el("dd", {}, value)]));
  drawNames(one);
  byId("rows").replaceChildren(...one.rights.map(line));
  byId("nothing").hidden = one.rights.length > 0;
  byId("nothing").replaceChildren(empty("search", t("company.no_rights")));
  enable();
}

function enable() {
  const button = /** @type {HTMLButtonElement | null} */ (byId("choose"));
  if (button) button.disabled = chosen().length === 0;
}

async function load() {
  try {
    draw((await api("GET", where)).data);
  } catch (error) {
    byId("notices").replaceChildren(notice("bad", "stop", explain(error)));
  }
}

function refresh() {
  due ||= setTimeout(async () => { await load(); due = 0; }, 500);
}

form.addEventListener("change", enable);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await api("POST", `${where}/names`, { names: chosen() });
    form.reset();
    await load();
  } catch (error) {
    toast(explain(error), "bad");
  }
});
events("/api/overview/events", { overview: refresh }, liveMark(load));
load();
