// The list of documents: filters, pages, live status, and uploads by button or by dropping files anywhere.
import { ago, api, byId, bytes, capital, data, el, empty, events, explain, icon, keys, liveMark, may, moment, money, notice, number, placeBefore, rememberPlace, rowKeys, t, toast } from "./base.js";
import { localized } from "./messages.js";
import { progress, review, status, verdict } from "./states.js";
import { start } from "./uploads.js";

const form = byId("filters"), body = byId("rows"), pager = byId("pager"), nothing = byId("nothing"), trouble = byId("trouble");
const LIMIT = 50, MOST = 200; // documents asked for at first, and at most at once
const rows = new Map();
let next = null, question = "", turn = 0, failed = false;

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

function cells(one) {
  const name = el("a", { href: `/documents/${one.id}`, class: "cut", title: one.name }, one.name);
  const wrong = one.error && capital(localized(one.error));
  const under = wrong ? el("span", { class: "small text-bad cut", title: wrong }, wrong)
    : one.duplicate_of ? el("span", { class: "small muted" }, t("documents.follows")) : null;
  return [
    el("td", { class: "name" }, el("div", {}, icon("file"), el("div", {}, name, under))),
    el("td", {}, el("div", { class: "row tight" }, status(one.status), progress(one))),
    el("td", { class: "not-narrow" }, verdict(one.verdict)),
    el("td", {}, review(one.review)),
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

/** Asks for so many documents, the newest first. What is there stays until the answer is. */
async function load({ count = LIMIT } = {}) {
  const mine = (turn += 1);
  question = JSON.stringify(filters());
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
    told();
  } catch (error) {
    if (mine !== turn) return;
    failed = true;
    pager.hidden = true;
    for (const row of body.querySelectorAll("[aria-hidden]")) row.remove(); // what stood for rows to come
    trouble.hidden = false;
    trouble.replaceChildren(notice("bad", "stop", explain(error), " ", el("button", { type: "button", class: "small-button", onclick: () => load() }, t("documents.try_again"))));
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
    const before = body.children.length;
    body.append(...got.documents.map(draw));
    next = got.next;
    told();
    body.children[before]?.querySelector("a").focus();
  } catch (error) {
    toast(explain(error), "bad");
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// -- live --------------------------------------------------------------------------------------------------------

let due = 0, busy = false;

/** Asks for what is shown again, at most once a second however many documents move. */
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
      // The list stays as it is; the next news tries again.
    } finally {
      busy = false;
    }
  }, 700);
}

function merge(list, whole) {
  const wasEmpty = rows.size === 0;
  const fresh = list.filter((one) => !rows.has(one.id));
  list.forEach(draw);
  for (const one of fresh.reverse()) {
    const { row } = rows.get(one.id);
    const after = [...body.children].find((other) => other.dataset.row < one.id);
    body.insertBefore(row, after ?? null);
    if (!wasEmpty) row.classList.add("new");
  }
  const there = new Set(list.map((one) => one.id)), last = list.at(-1)?.id ?? "";
  for (const [id, { row }] of rows) if (!there.has(id) && (whole || id > last)) { row.remove(); rows.delete(id); }
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
  typed = setTimeout(() => load(), event.target.id === "q" ? 200 : 0);
});
form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
byId("clear").addEventListener("click", (event) => {
  event.preventDefault();
  for (const control of form.querySelectorAll("input, select")) control.value = "";
  load();
});
byId("more").addEventListener("click", more);

events("/api/documents/events", { document: news }, liveMark(refresh));
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

async function begin() {
  const before = placeBefore();
  rememberPlace(() => rows.size);
  await load({ count: Math.max(LIMIT, before?.shown ?? 0) });
  if (before) scrollTo(0, before.y);
}

begin();
