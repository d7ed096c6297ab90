// The list of documents: filters, pages, live status, and uploads by button or by dropping files anywhere.
import { ago, api, byId, bytes, capital, data, el, empty, events, explain, icon, keys, may, moment, money, notice, number, rowKeys, t, toast } from "./base.js";
import { saying } from "./sentences.js";
import { progress, status, verdict } from "./states.js";
import { start } from "./uploads.js";

const form = byId("filters"), body = byId("rows"), pager = byId("pager"), nothing = byId("nothing");
const LIMIT = 50;
const rows = new Map();
let next = null, question = "", turn = 0;

function filters() {
  return Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));
}

function address(cursor, limit = LIMIT) {
  const query = new URLSearchParams(filters());
  query.set("limit", limit);
  if (cursor) query.set("cursor", cursor);
  return `/api/documents?${query}`;
}

// -- rows --------------------------------------------------------------------------------------------------------

function cells(one) {
  const name = el("a", { href: `/documents/${one.id}`, class: "cut", title: one.name }, one.name);
  const wrong = one.error && capital(saying(one.error.message));
  const under = wrong ? el("span", { class: "small text-bad cut", title: wrong }, wrong)
    : one.duplicate_of ? el("span", { class: "small muted" }, t("documents.follows")) : null;
  return [
    el("td", { class: "name" }, el("div", {}, icon("file"), el("div", {}, name, under))),
    el("td", {}, el("div", { class: "row tight" }, status(one.status), progress(one))),
    el("td", {}, verdict(one.verdict)),
    el("td", { class: "wide-only" }, one.type ? data.types[one.type] ?? one.type : ""),
    el("td", { class: "number wide-only" }, number(one.pages)),
    el("td", { class: "number wide-only nowrap" }, bytes(one.bytes)),
    el("td", { class: "number wide-only" }, one.cost ? money(one.cost, "USD") : ""),
    el("td", { class: "right nowrap muted", title: moment(one.created_at), dataset: { at: one.created_at } }, ago(one.created_at)),
  ];
}

function draw(one) {
  const known = rows.get(one.id);
  if (!known) {
    const row = el("tr", { dataset: { row: one.id } }, cells(one));
    rows.set(one.id, { row, one });
    return row;
  }
  if (JSON.stringify(known.one) !== JSON.stringify(one)) {
    const held = known.row.contains(document.activeElement);
    known.row.replaceChildren(...cells(one));
    if (held) known.row.querySelector("a").focus({ preventScroll: true });
    known.one = one;
  }
  return known.row;
}

function told() {
  const filtered = Object.keys(filters()).length > 0;
  byId("clear").hidden = !filtered;
  pager.hidden = !next;
  body.closest(".table-wrap").hidden = rows.size === 0;
  nothing.hidden = rows.size > 0;
  if (rows.size > 0) return;
  const clear = el("button", { type: "button", onclick: () => { form.reset(); byId("clear").click(); } }, t("documents.clear"));
  const send = may("operator") && el("button", { type: "button", class: "primary", onclick: () => byId("files").click() }, icon("upload"), t("documents.upload"));
  nothing.replaceChildren(filtered
    ? empty("search", t("documents.none_found"), t("documents.none_found_text"), clear)
    : empty("file", t("documents.none"), may("operator") ? t("documents.none_text") : "", send));
}

async function load() {
  const mine = (turn += 1);
  question = JSON.stringify(filters());
  const shown = new URLSearchParams(filters()).toString();
  history.replaceState(null, "", shown ? `?${shown}` : location.pathname);
  body.setAttribute("aria-busy", "true");
  try {
    const { data: got } = await api("GET", address());
    if (mine !== turn) return;
    rows.clear();
    body.replaceChildren(...got.documents.map(draw));
    next = got.next;
    told();
  } catch (error) {
    if (mine !== turn) return;
    rows.clear();
    body.replaceChildren();
    told();
    nothing.replaceChildren(el("div", { class: "pad" }, notice("bad", "stop", explain(error), " ", el("button", { type: "button", class: "small-button", onclick: load }, t("documents.try_again")))));
  } finally {
    body.removeAttribute("aria-busy");
  }
}

async function more() {
  const button = byId("more");
  button.setAttribute("aria-busy", "true");
  try {
    const asked = question;
    const { data: got } = await api("GET", address(next));
    if (asked !== JSON.stringify(filters())) return;
    body.append(...got.documents.map(draw));
    next = got.next;
    told();
  } catch (error) {
    toast(explain(error), "bad");
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// -- live --------------------------------------------------------------------------------------------------------

let due = 0, busy = false;

/** Asks for the first page again, at most once a second however many documents move. */
function refresh() {
  if (due) return;
  due = setTimeout(async () => {
    due = 0;
    if (busy) return refresh();
    busy = true;
    const mine = turn;
    try {
      const { data: got } = await api("GET", address());
      if (mine === turn) merge(got.documents);
    } catch {
      // The list stays as it is; the next news tries again.
    } finally {
      busy = false;
    }
  }, 700);
}

function merge(list) {
  const wasEmpty = rows.size === 0;
  const fresh = list.filter((one) => !rows.has(one.id));
  list.forEach(draw);
  for (const one of fresh.reverse()) {
    const { row } = rows.get(one.id);
    const after = [...body.children].find((other) => other.dataset.row < one.id);
    body.insertBefore(row, after ?? null);
    if (!wasEmpty) row.classList.add("new");
  }
  const wanted = filters().status;
  if (wanted) {
    const there = new Set(list.map((one) => one.id));
    for (const [id, { row, one }] of rows) if (!there.has(id) && one.status !== wanted) { row.remove(); rows.delete(id); }
  }
  told();
}

function news(one) {
  const known = rows.get(one.id);
  if (known) {
    const before = known.one.status;
    draw({ ...known.one, status: one.status, progress: one.progress });
    if (before === one.status) return;
  }
  refresh();
}

// -- the page ----------------------------------------------------------------------------------------------------

let typed = 0;
form.addEventListener("input", (event) => {
  clearTimeout(typed);
  typed = setTimeout(load, event.target.id === "q" ? 200 : 0);
});
form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
byId("clear").addEventListener("click", (event) => {
  event.preventDefault();
  for (const control of form.querySelectorAll("input, select")) control.value = "";
  load();
});
byId("more").addEventListener("click", more);

const live = byId("live");
events("/api/documents/events", { document: news }, {
  onopen() { if (!live.hidden) { live.hidden = true; refresh(); } },
  ondown() { live.hidden = false; live.textContent = t("documents.not_live"); },
});
setInterval(() => { for (const cell of body.querySelectorAll("[data-at]")) cell.textContent = ago(cell.dataset.at); }, 20000);

rowKeys(body);
keys([{ key: "/", does: t("documents.key_search"), run: () => byId("q").select() }]);
byId("q").addEventListener("keydown", (event) => { if (event.key === "Escape") event.target.blur(); });
if (may("operator")) {
  start(refresh);
  keys([{ key: "u", does: t("documents.upload"), run: () => byId("files").click() }]);
}
load();
