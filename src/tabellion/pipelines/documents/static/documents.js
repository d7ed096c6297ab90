// The list of documents: filters, pages, live status, and uploads by button or by dropping files anywhere.
import { ago, byId, bytes, capital, data, el, empty, events, icon, keys, liveMark, may, moment, money, number, t } from "./base.js";
import { liveList } from "./live_list.js";
import { localized } from "./messages.js";
import { progress, review, status, verdict } from "./states.js";
import { start } from "./uploads.js";

function cells(doc) {
  const name = el("a", { href: `/documents/${doc.id}`, class: "cut", title: doc.name }, doc.name);
  const wrong = doc.error && capital(localized(doc.error));
  const under = wrong ? el("span", { class: "small text-bad cut", title: wrong }, wrong)
    : doc.duplicate_of ? el("span", { class: "small muted" }, t("documents.follows")) : null;
  return [
    el("td", { class: "name" }, el("div", {}, icon("file"), el("div", {}, name, under))),
    el("td", {}, el("div", { class: "row tight" }, status(doc.status), progress(doc))),
    el("td", { class: "not-narrow" }, verdict(doc.verdict)),
    el("td", {}, review(doc.review)),
    el("td", { class: "wide-only" }, doc.type ? data.types[doc.type] ?? doc.type : ""),
    el("td", { class: "number wide-only" }, number(doc.pages)),
    el("td", { class: "number wide-only nowrap" }, bytes(doc.bytes)),
    el("td", { class: "number wide-only" }, doc.cost ? money(doc.cost, "USD") : ""),
    el("td", { class: "right nowrap muted", title: moment(doc.created_at), dataset: { at: doc.created_at } }, ago(doc.created_at)),
  ];
}

function nothing(filtered) {
  const clear = el("button", { type: "button", onclick: () => byId("clear").click() }, t("base.clear_filters"));
  const send = may("operator") && el("button", { type: "button", class: "primary", onclick: () => byId("files").click() }, icon("upload"), t("documents.upload"));
  return filtered
    ? empty("search", t("documents.none_found"), t("documents.none_found_text"), clear)
    : empty("file", t("documents.none"), may("operator") ? t("documents.none_text") : "", send);
}

const list = liveList({ name: "documents", cells, nothing });

/** Shows the progress of a document at once; what else has changed with its status is loaded. */
function handleUpdate(update) {
  const before = list.change(update.id, { status: update.status, progress: update.progress });
  if (before?.status !== update.status) list.refresh();
}

events("/api/documents/events", { document: handleUpdate }, liveMark(list.refresh));
events("/api/review/events", { review: list.refresh });

keys([{ key: "/", does: t("documents.key_search"), run: () => byId("q").select() }]);
byId("q").addEventListener("keydown", (event) => { if (event.key === "Escape") event.target.blur(); });
if (may("operator")) {
  start(list.refresh);
  keys([{ key: "u", does: t("documents.upload"), run: () => byId("files").click() }]);
}
