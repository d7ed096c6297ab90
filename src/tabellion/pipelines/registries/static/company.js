// One company: its data, the names to choose from, and what is registered under each of them.
import { api, badge, byId, data, el, empty, events, explain, icon, liveMark, may, notice, t, textOr, toast } from "./base.js";
import { localized } from "./messages.js";
import { state } from "./registry_states.js";

const where = `/api/search-sessions/${encodeURIComponent(data.id)}`;
const form = /** @type {HTMLFormElement} */ (byId("names-form"));
let due = 0, drawnNames = "";

const chosenNames = () => new FormData(form).getAll("name").map(String);

function drawNames(session) {
  const searched = new Set(session.rights.map((search) => search.name));
  const shape = JSON.stringify([session.names, [...searched]]);
  if (shape === drawnNames) return;
  const checked = new Set(chosenNames());
  drawnNames = shape;
  byId("names").replaceChildren(...session.names.map(({ name, state: usage }) => el("label", {},
    el("input", { type: "checkbox", name: "name", value: name, checked: checked.has(name) || searched.has(name), disabled: searched.has(name) || !may("reviewer") }),
    el("span", {}, name), usage ? el("span", { class: "small muted" }, usage) : null, searched.has(name) ? badge("good", "check", t("company.chosen")) : null)));
}

/** A button that queues a failed search again; null for people who may not. */
const retryButton = (queue, id) => (may("operator") ? el("button", { type: "button", class: "small-button", onclick: () => retry(queue, id) }, icon("again"), t("base.try_again")) : null);

async function retry(queue, id) {
  try {
    await api("POST", `/api/queues/${queue}/retry`, { keys: [id] });
    toast(t("company.is_queued"), "good");
    await load();
  } catch (error) {
    toast(explain(error), "bad");
  }
}

function drawRow(search) {
  return el("tr", {},
    el("td", {}, search.name ?? search.id),
    el("td", {}, state(search.status), search.status === "failed" && search.error ? el("div", { class: "small text-bad" }, localized(search, "error")) : null, search.status === "failed" ? retryButton("rights", search.id) : null),
    el("td", {}, search.is_empty ? t("company.nothing") : el("ul", { class: "plain" }, search.registrations.map((registration) => el("li", {}, Object.values(registration).join(" · "))))),
    el("td", { class: "right" }, search.file ? el("a", { href: search.file, download: "" }, t("base.download")) : ""));
}

function draw(session) {
  byId("status").replaceChildren(state(session.status));
  byId("notices").replaceChildren(...(session.status === "failed" ? [notice("bad", "stop", ...[localized(session, "error"), " ", retryButton("companies", session.id)].filter(Boolean))] : []));
  byId("facts-list").replaceChildren(...Object.entries(session.found ?? {}).flatMap(([name, value]) => [el("dt", {}, textOr(`company.fact_${name}`, name)), el("dd", {}, value)]));
  drawNames(session);
  byId("rows").replaceChildren(...session.rights.map(drawRow));
  byId("nothing").hidden = session.rights.length > 0;
  byId("nothing").replaceChildren(empty("search", t("company.no_rights")));
  updateButton();
}

function updateButton() {
  const button = /** @type {HTMLButtonElement | null} */ (byId("choose"));
  if (button) button.disabled = chosenNames().length === 0;
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

form.addEventListener("change", updateButton);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await api("POST", `${where}/names`, { names: chosenNames() });
    form.reset();
    await load();
  } catch (error) {
    toast(explain(error), "bad");
  }
});
events("/api/overview/events", { overview: refresh }, liveMark(load));
load();
