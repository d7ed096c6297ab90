// Registries: forms that submit searches, and the companies that were looked up, kept up to date.
import { ago, api, byId, data, el, empty, events, explain, liveMark, moment, notice, t, toast } from "./base.js";
import { state } from "./registry_states.js";

const documents = /** @type {HTMLFormElement | null} */ (byId("document-form"));
const companies = /** @type {HTMLFormElement | null} */ (byId("company-form"));
let due = 0;

const filled = (form) => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]).filter(([, value]) => value));

/** Shows the fields that the chosen type of document has. */
function choose() {
  const kind = /** @type {HTMLSelectElement} */ (byId("document-type")).value;
  for (const label of documents.querySelectorAll("[data-field]")) {
    const name = /** @type {HTMLElement} */ (label).dataset.field;
    const input = label.querySelector("input");
    const has = data.fields[kind].includes(name);
    /** @type {HTMLElement} */ (label).hidden = !has;
    input.disabled = !has;
    input.required = data.needed[kind].includes(name);
  }
}

function line(one) {
  return el("tr", {},
    el("td", {}, el("a", { href: `/registries/${encodeURIComponent(one.id)}` }, one.company ?? one.id)),
    el("td", {}, state(one.status), one.error && one.status === "failed" ? el("div", { class: "small text-bad" }, one.error) : one.status === "scraping_company_data" && one.note ? el("div", { class: "small muted" }, one.note) : null),
    el("td", { class: "not-narrow" }, one.found ? `${one.found.name ?? ""} ${one.found.neq ? `(${one.found.neq})` : ""}` : ""),
    el("td", { class: "number wide-only" }, one.names.length || ""),
    el("td", { class: "right nowrap muted", title: moment(one.created_at) }, ago(one.created_at)));
}

async function load() {
  try {
    const { data: got } = await api("GET", "/api/search-sessions");
    byId("trouble").hidden = true;
    byId("rows").replaceChildren(...got.search_sessions.map(line));
    byId("rows").setAttribute("aria-busy", "false");
    byId("nothing").hidden = got.search_sessions.length > 0;
    byId("nothing").replaceChildren(empty("search", t("registries.none"), t("registries.none_note")));
  } catch (error) {
    byId("trouble").hidden = false;
    byId("trouble").replaceChildren(notice("bad", "stop", explain(error)));
  }
}

function refresh() {
  due ||= setTimeout(async () => { await load(); due = 0; }, 500);
}

async function send(form, path, then) {
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const { data: made } = await api("POST", path, filled(form));
    then(made);
  } catch (error) {
    toast(explain(error), "bad");
  } finally {
    button.disabled = false;
  }
}

if (documents) {
  byId("document-type").addEventListener("change", choose);
  choose();
  documents.addEventListener("submit", (event) => {
    event.preventDefault();
    send(documents, "/api/extractions", (made) => byId("document-sent").replaceChildren(
      el("a", { href: `/extractions/${encodeURIComponent(made.id)}` }, t("registries.submitted"))));
  });
}
if (companies) {
  companies.addEventListener("submit", (event) => {
    event.preventDefault();
    send(companies, "/api/search-sessions", () => { companies.reset(); load(); });
  });
}
events("/api/overview/events", { overview: refresh }, liveMark(load));
load();
