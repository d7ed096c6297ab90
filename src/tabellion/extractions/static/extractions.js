// The list of extractions: filters, pages, live status, and files that are sent to be read.
import { ago, api, byId, capital, el, empty, events, explain, icon, keys, liveMark, may, moment, notice, number, placeBefore, Problem, rememberPlace, renewed, rowKeys, t, toast, token } from "./base.js";
import { errors, kind, note, status, title } from "./extraction_states.js";

const form = byId("filters"), body = byId("rows"), pager = byId("pager"), nothing = byId("nothing"), trouble = byId("trouble");
const LIMIT = 50, MOST = 200; // extractions asked for at first, and at most at once
const rows = new Map();
let next = null, turn = 0;

const filters = () => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]).filter(([, value]) => value));

function address(cursor, limit = LIMIT) {
  const query = new URLSearchParams({ ...filters(), limit: String(limit) });
  if (cursor) query.set("cursor", cursor);
  return `/api/extractions?${query}`;
}

function cells(one) {
  const name = title(one);
  const wrong = errors(one).filter((error) => error.over).map((error) => `${t(error.word)} ${error.text}`).join(" · ");
  const asked = Object.entries(one.inputs).filter(([, value]) => value !== name).map(([, value]) => value).join(" · ");
  const under = wrong ? el("span", { class: "small text-bad cut", title: wrong }, capital(wrong)) : asked ? el("span", { class: "small muted cut" }, asked) : null;
  return [
    el("td", { class: "name" }, el("div", {}, icon("file"), el("div", {}, el("a", { href: `/extractions/${encodeURIComponent(one.id)}`, class: "cut", title: one.id }, name), under))),
    el("td", {}, el("div", { class: "row tight" }, status(one), note(one))),
    el("td", { class: "not-narrow nowrap" }, kind(one)),
    el("td", { class: "number wide-only" }, number(one.pages)),
    el("td", { class: "wide-only" }, el("span", { class: "cut mono small", title: one.worker ?? "" }, one.worker ?? "")),
    el("td", { class: "right nowrap muted", title: moment(one.created_at), dataset: { at: one.created_at ?? "" } }, ago(one.created_at)),
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

function tellEmpty() {
  const filtered = Object.keys(filters()).length > 0;
  byId("clear").hidden = !filtered;
  pager.hidden = !next;
  body.closest(".table-wrap").hidden = rows.size === 0;
  nothing.hidden = rows.size > 0;
  if (rows.size > 0) return;
  const send = may("operator") && el("button", { type: "button", class: "primary", onclick: () => byId("files").click() }, icon("upload"), t("extractions.upload"));
  nothing.replaceChildren(filtered
    ? empty("search", t("extractions.none_found"), t("extractions.none_found_text"))
    : empty("file", t("extractions.none"), may("operator") ? t("extractions.none_text") : "", send));
}

/** Asks for so many, the newest first; rows that are there already stay where they are drawn. */
async function load({ count = LIMIT, quiet = false } = {}) {
  const mine = (turn += 1);
  if (!quiet) {
    const shown = new URLSearchParams(filters()).toString();
    history.replaceState(null, "", shown ? `?${shown}` : location.pathname);
    body.setAttribute("aria-busy", "true");
  }
  try {
    const found = [];
    let cursor = null;
    do {
      const { data: got } = await api("GET", address(cursor, Math.min(MOST, count - found.length)));
      if (mine !== turn) return;
      found.push(...got.extractions);
      cursor = got.next;
    } while (cursor && found.length < count);
    const there = new Set(found.map((one) => one.id));
    for (const id of [...rows.keys()]) if (!there.has(id)) rows.delete(id);
    const drawn = found.map(draw);
    if (drawn.length !== body.children.length || drawn.some((row, place) => body.children[place] !== row)) body.replaceChildren(...drawn);
    next = cursor;
    trouble.hidden = true;
    tellEmpty();
  } catch (error) {
    if (mine !== turn || quiet) return;
    pager.hidden = true;
    for (const row of body.querySelectorAll("[aria-hidden]")) row.remove(); // what stood for rows to come
    trouble.hidden = false;
    trouble.replaceChildren(notice("bad", "stop", explain(error), " ", el("button", { type: "button", class: "small-button", onclick: () => load() }, t("extractions.try_again"))));
  } finally {
    if (mine === turn) body.removeAttribute("aria-busy");
  }
}

async function more() {
  const button = byId("more");
  button.setAttribute("aria-busy", "true");
  try {
    const asked = turn;
    const { data: got } = await api("GET", address(next));
    if (asked !== turn) return;
    const before = body.children.length;
    body.append(...got.extractions.map(draw));
    next = got.next;
    tellEmpty();
    body.children[before]?.querySelector("a").focus();
  } catch (error) {
    toast(explain(error), "bad");
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// -- live --------------------------------------------------------------------------------------------------------

let due = 0;

/** Asks for what is shown again, at most once a second however much moves. */
function refresh() {
  due ||= setTimeout(async () => {
    await load({ count: Math.max(LIMIT, rows.size), quiet: rows.size > 0 });
    due = 0;
  }, 700);
}

// -- files -------------------------------------------------------------------------------------------------------

async function send(file, again = true) {
  const answer = await fetch(`/api/extractions/ocr?${new URLSearchParams({ name: file.name, document_number: file.name.slice(0, 100) })}`, {
    method: "POST", body: file, credentials: "same-origin",
    headers: { "X-CSRF-Token": token(), "Content-Type": file.type || "application/octet-stream", Accept: "application/json" },
  });
  const told = await answer.json().catch(() => null);
  if (answer.ok) return;
  if (answer.status === 403 && told?.code === "csrf_failed" && again && (await renewed())) return send(file, false);
  throw new Problem(answer.status, told, answer.headers);
}

async function sendAll(files) {
  for (const file of files) {
    try {
      await send(file);
      refresh();
    } catch (error) {
      toast(`${file.name}: ${explain(error)}`, "bad");
    }
  }
}

// -- the page ----------------------------------------------------------------------------------------------------

form.addEventListener("input", () => load());
form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
byId("clear").addEventListener("click", (event) => {
  event.preventDefault();
  for (const control of form.querySelectorAll("select")) control.value = "";
  load();
});
byId("more").addEventListener("click", more);
if (may("operator")) {
  const picker = byId("files");
  byId("upload").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => { sendAll([...picker.files]); picker.value = ""; });
  keys([{ key: "u", does: t("extractions.upload"), run: () => picker.click() }]);
}
rowKeys(body);
events("/api/overview/events", { overview: refresh }, liveMark(refresh));
addEventListener("online", refresh);
setInterval(() => { for (const cell of body.querySelectorAll("[data-at]")) cell.textContent = ago(cell.dataset.at); }, 20000);

async function begin() {
  const before = placeBefore();
  rememberPlace(() => rows.size);
  await load({ count: Math.max(LIMIT, before?.shown ?? 0) });
  if (before) scrollTo(0, before.y);
}

begin();
