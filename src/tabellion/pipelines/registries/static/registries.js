// Registries: forms that submit searches, and a live list of the companies that were looked up.
import { ago, api, byId, data, el, empty, events, explain, liveMark, moment, t, toast } from "./base.js";
import { liveList } from "./live_list.js";
import { localized } from "./messages.js";
import { state } from "./registry_states.js";

const documents = /** @type {HTMLFormElement | null} */ (byId("document-form"));
const companies = /** @type {HTMLFormElement | null} */ (byId("company-form"));

const filledValues = (form) => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]).filter(([, value]) => value));

/** Shows the fields of the chosen document type. */
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

function cells(session) {
  const under = session.status === "failed" && session.error ? el("div", { class: "small text-bad" }, localized(session, "error"))
    : session.status === "scraping_company_data" && session.note ? el("div", { class: "small muted" }, localized(session, "note")) : null;
  return [
    el("td", {}, el("a", { href: `/registries/${encodeURIComponent(session.id)}` }, session.company ?? session.id)),
    el("td", {}, state(session.status), under),
    el("td", { class: "not-narrow" }, session.found ? `${session.found.name ?? ""} ${session.found.neq ? `(${session.found.neq})` : ""}` : ""),
    el("td", { class: "number wide-only" }, session.names.length || ""),
    el("td", { class: "right nowrap muted", title: moment(session.created_at), dataset: { at: session.created_at ?? "" } }, ago(session.created_at)),
  ];
}

const list = liveList({
  name: "search_sessions", path: "search-sessions", cells,
  nothing: () => empty("search", t("registries.none"), t("registries.none_note")),
});

async function send(form, path, then) {
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const { data: row } = await api("POST", path, filledValues(form));
    then(row);
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
    send(documents, "/api/extractions", (row) => byId("document-sent").replaceChildren(
      el("a", { href: `/extractions/${encodeURIComponent(row.id)}` }, t("registries.submitted"))));
  });
}
if (companies) {
  companies.addEventListener("submit", (event) => {
    event.preventDefault();
    send(companies, "/api/search-sessions", () => { companies.reset(); list.refresh(); });
  });
}
events("/api/overview/events", { overview: list.refresh }, liveMark(list.refresh));
