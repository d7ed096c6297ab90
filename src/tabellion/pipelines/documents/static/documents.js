// The list of documents: filters, pages, live status, and uploads by button or by dropping files anywhere.
import { ago, api, byId, bytes, capital, data, drawRow, el, empty, events, explain, icon, keys, liveMark, may, moment, money, notice, number, placeBefore, rememberPlace, rowKeys, t, toast } from "./base.js";
import { localized } from "./messages.js";
import { progress, review, status, verdict } from "./states.js";
import { start } from "./uploads.js";

const form = byId("filters"), body = byId("rows"), pager = byId("pager"), nothing = byId("nothing"), trouble = byId("trouble");
const LIMIT = 50, MOST = 200; // documents in the first request, and at most in one
const rows = new Map();
let next = null, shownFilters = "", turn = 0, failed = false;

function filters() {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]).filter(([, value]) => value));
}

function address(cursor, limit = LIMIT) {
  const query = new URLSearchParams(filters());
  query.set("limit", String(limit));
  if (cursor) query.set("cursor", cursor);
  return `/api/documents?${query}`;
}

// -- rows --------------------------------------------------------------------------------------------------------

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

const draw = (doc) => drawRow(rows, doc, cells);

function updateControls() {
  const filtered = Object.keys(filters()).length > 0;
  byId("clear").hidden = !filtered;
  pager.hidden = !next;
  body.closest(".table-wrap").hidden = rows.size === 0;
  nothing.hidden = rows.size > 0;
  if (rows.size > 0) return;
  const clear = el("button", { type: "button", onclick: () => { form.reset(); byId("clear").click(); } }, t("base.clear_filters"));
  const send = may("operator") && el("button", { type: "button", class: "primary", onclick: () => byId("files").click() }, icon("upload"), t("documents.upload"));
  nothing.replaceChildren(filtered
    ? empty("search", t("documents.none_found"), t("documents.none_found_text"), clear)
    : empty("file", t("documents.none"), may("operator") ? t("documents.none_text") : "", send));
}

/** Loads so many documents, newest first. The current rows stay until the response arrives. */
async function load({ count = LIMIT } = {}) {
  const mine = (turn += 1);
  shownFilters = JSON.stringify(filters());
  const shown = new URLSearchParams(filters()).toString();
  history.replaceState(null, "", shown ? `?${shown}` : location.pathname);
  body.setAttribute("aria-busy", "true");
  try {
    const found = [];
    let cursor = null;
    do {
      const { data: got } = await api("GET", address(cursor, Math.min(MOST, count - found.length)));
      if (mine !== turn) return;
      found.push(...got.documents);
      cursor = got.next;
    } while (cursor && found.length < count);
    rows.clear();
    body.replaceChildren(...found.map(draw));
    next = cursor;
    failed = false;
    trouble.hidden = true;
    updateControls();
  } catch (error) {
    if (mine !== turn) return;
    failed = true;
    pager.hidden = true;
    for (const row of body.querySelectorAll("[aria-hidden]")) row.remove(); // placeholder rows
    trouble.hidden = false;
    trouble.replaceChildren(notice("bad", "stop", explain(error), " ", el("button", { type: "button", class: "small-button", onclick: () => load() }, t("base.try_again"))));
  } finally {
    body.removeAttribute("aria-busy");
  }
}

async function more() {
  const button = byId("more");
  button.setAttribute("aria-busy", "true");
  try {
    const requested = shownFilters;
    const { data: got } = await api("GET", address(next));
    if (requested !== JSON.stringify(filters())) return;
    const before = body.children.length;
    body.append(...got.documents.map(draw));
    next = got.next;
    updateControls();
    body.children[before]?.querySelector("a").focus();
  } catch (error) {
    toast(explain(error), "bad");
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// -- live --------------------------------------------------------------------------------------------------------

let due = 0, busy = false;

/** Loads the shown documents again, at most about once a second however many change. */
function refresh() {
  if (due) return;
  due = setTimeout(async () => {
    due = 0;
    if (busy) return refresh();
    if (failed) return void load();
    busy = true;
    const mine = turn;
    try {
      const { data: got } = await api("GET", address(null, Math.min(MOST, Math.max(LIMIT, rows.size))));
      if (mine === turn) merge(got.documents, got.next === null);
    } catch {
      // The list stays as it is; the next update tries again.
    } finally {
      busy = false;
    }
  }, 700);
}

function merge(list, isComplete) {
  const wasEmpty = rows.size === 0;
  const fresh = list.filter((doc) => !rows.has(doc.id));
  list.forEach(draw);
  for (const doc of fresh.reverse()) {
    const { row } = rows.get(doc.id);
    const after = [...body.children].find((other) => other.dataset.row < doc.id);
    body.insertBefore(row, after ?? null);
    if (!wasEmpty) row.classList.add("new");
  }
  const present = new Set(list.map((doc) => doc.id)), last = list.at(-1)?.id ?? "";
  for (const [id, { row }] of rows) if (!present.has(id) && (isComplete || id > last)) { row.remove(); rows.delete(id); }
  updateControls();
}

function handleUpdate(update) {
  const known = rows.get(update.id);
  if (known) {
    const before = known.item.status;
    draw({ ...known.item, status: update.status, progress: update.progress });
    if (before === update.status) return;
  }
  refresh();
}

// -- the page ----------------------------------------------------------------------------------------------------

let inputTimer = 0;
form.addEventListener("input", (event) => {
  clearTimeout(inputTimer);
  inputTimer = setTimeout(() => load(), event.target.id === "q" ? 200 : 0);
});
form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
byId("clear").addEventListener("click", (event) => {
  event.preventDefault();
  for (const control of form.querySelectorAll("input, select")) control.value = "";
  load();
});
byId("more").addEventListener("click", more);

events("/api/documents/events", { document: handleUpdate }, liveMark(refresh));
events("/api/review/events", { review: refresh });
addEventListener("online", refresh);
setInterval(() => { for (const cell of body.querySelectorAll("[data-at]")) cell.textContent = ago(cell.dataset.at); }, 20000);

rowKeys(body);
keys([{ key: "/", does: t("documents.key_search"), run: () => byId("q").select() }]);
byId("q").addEventListener("keydown", (event) => { if (event.key === "Escape") event.target.blur(); });
if (may("operator")) {
  start(refresh);
  keys([{ key: "u", does: t("documents.upload"), run: () => byId("files").click() }]);
}

async function openList() {
  const before = placeBefore();
  rememberPlace(() => rows.size);
  await load({ count: Math.max(LIMIT, before?.shown ?? 0) });
  if (before) scrollTo(0, before.y);
}

openList();
