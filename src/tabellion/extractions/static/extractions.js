// The list of extractions: filters, paging, live status, and uploads for OCR.
import { ago, api, byId, capital, drawRow, el, empty, events, explain, icon, keys, liveMark, may, moment, notice, number, placeBefore, Problem, rememberPlace, renewCsrf, rowKeys, t, toast, token } from "./base.js";
import { errors, kind, note, status, title } from "./extraction_states.js";

const form = byId("filters"), body = byId("rows"), pager = byId("pager"), nothing = byId("nothing"), trouble = byId("trouble");
const LIMIT = 50, MOST = 200; // extractions loaded at first, and at most per request
const rows = new Map();
let next = null, turn = 0;

const filters = () => Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]).filter(([, value]) => value));

function address(cursor, limit = LIMIT) {
  const query = new URLSearchParams({ ...filters(), limit: String(limit) });
  if (cursor) query.set("cursor", cursor);
  return `/api/extractions?${query}`;
}

function cells(extraction) {
  const name = title(extraction);
  const wrong = errors(extraction).filter((error) => error.over).map((error) => `${t(error.word)} ${error.text}`).join(" · ");
  const inputs = Object.entries(extraction.inputs).filter(([, value]) => value !== name).map(([, value]) => value).join(" · ");
  const under = wrong ? el("span", { class: "small text-bad cut", title: wrong }, capital(wrong)) : inputs ? el("span", { class: "small muted cut" }, inputs) : null;
  return [
    el("td", { class: "name" }, el("div", {}, icon("file"), el("div", {}, el("a", { href: `/extractions/${encodeURIComponent(extraction.id)}`, class: "cut", title: extraction.id }, name), under))),
    el("td", {}, el("div", { class: "row tight" }, status(extraction), note(extraction))),
    el("td", { class: "not-narrow nowrap" }, kind(extraction)),
    el("td", { class: "number wide-only" }, number(extraction.pages)),
    el("td", { class: "wide-only" }, el("span", { class: "cut mono small", title: extraction.worker ?? "" }, extraction.worker ?? "")),
    el("td", { class: "right nowrap muted", title: moment(extraction.created_at), dataset: { at: extraction.created_at ?? "" } }, ago(extraction.created_at)),
  ];
}

const draw = (extraction) => drawRow(rows, extraction, cells);

function showEmpty() {
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

/** Loads the newest `count` extractions; existing rows are updated in place. */
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
      const { data: batch } = await api("GET", address(cursor, Math.min(MOST, count - found.length)));
      if (mine !== turn) return;
      found.push(...batch.extractions);
      cursor = batch.next;
    } while (cursor && found.length < count);
    const there = new Set(found.map((extraction) => extraction.id));
    for (const id of [...rows.keys()]) if (!there.has(id)) rows.delete(id);
    const drawn = found.map(draw);
    if (drawn.length !== body.children.length || drawn.some((row, place) => body.children[place] !== row)) body.replaceChildren(...drawn);
    next = cursor;
    trouble.hidden = true;
    showEmpty();
  } catch (error) {
    if (mine !== turn || quiet) return;
    pager.hidden = true;
    for (const row of body.querySelectorAll("[aria-hidden]")) row.remove(); // placeholders
    trouble.hidden = false;
    trouble.replaceChildren(notice("bad", "stop", explain(error), " ", el("button", { type: "button", class: "small-button", onclick: () => load() }, t("base.try_again"))));
  } finally {
    if (mine === turn) body.removeAttribute("aria-busy");
  }
}

async function more() {
  const button = byId("more");
  button.setAttribute("aria-busy", "true");
  try {
    const mine = turn;
    const { data: batch } = await api("GET", address(next));
    if (mine !== turn) return;
    const before = body.children.length;
    body.append(...batch.extractions.map(draw));
    next = batch.next;
    showEmpty();
    body.children[before]?.querySelector("a").focus();
  } catch (error) {
    toast(explain(error), "bad");
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// -- live --------------------------------------------------------------------------------------------------------

let due = 0;

/** Reloads what is shown, at most about once a second. */
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
  const problem = await answer.json().catch(() => null);
  if (answer.ok) return;
  if (answer.status === 403 && problem?.code === "csrf_failed" && again && (await renewCsrf())) return send(file, false);
  throw new Problem(answer.status, problem, answer.headers);
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

async function openList() {
  const before = placeBefore();
  rememberPlace(() => rows.size);
  await load({ count: Math.max(LIMIT, before?.shown ?? 0) });
  if (before) scrollTo(0, before.y);
}

openList();
