// One document: its pages, fields and issues, the attempts at it, and what the user may do with it.
import {
  ago, api, byId, bytes, cameFrom, capital, confirm, data, duration, el, empty, events, explain, field, fieldTitle, flash, formDialog, icon, keys, may, moment, money, notice, number,
  Problem, t, textOr, toast,
} from "./base.js";
import { localized } from "./messages.js";
import { describeReason } from "./review_reason_text.js";
import { confidence, outcome, progress, review, status, verdict } from "./states.js";

const where = `/api/documents/${data.id}`;
const ENDED = new Set(["completed", "failed", "duplicate"]);
/** Errors of files of which no page can be drawn. */
const UNDRAWABLE = new Set(["empty_file", "file_missing", "image_damaged", "image_too_large", "pdf_damaged", "pdf_empty", "pdf_encrypted", "type_unsupported"]);
let shown = null, streams = [], watchesEnded = null, lastDrawing = "", page = 1, chosen = null;

// -- pages -------------------------------------------------------------------------------------------------------

const leaf = byId("leaf"), paper = byId("paper");

function showPage(to) {
  const last = shown?.pages ?? 1;
  page = Math.max(1, Math.min(last, to));
  byId("page-tools").hidden = last < 2;
  byId("page-place").textContent = t("document.page_of", { n: number(page), of: number(last) });
  byId("page-before").disabled = page <= 1;
  byId("page-after").disabled = page >= last;
  if (!shown.pages && UNDRAWABLE.has(shown.error?.code)) return showNoPage(capital(localized(shown.error)));
  const source = `${where}/pages/${page}.png?width=1400`;
  if (leaf.dataset.source === source) return markFields();
  leaf.dataset.source = source;
  const picture = el("img", { src: source, alt: t("document.page_of", { n: page, of: last }), draggable: "false" });
  picture.addEventListener("load", () => { if (leaf.dataset.source === source) { leaf.replaceChildren(picture); markFields(); } });
  picture.addEventListener("error", async () => {
    if (leaf.dataset.source !== source) return;
    let why = t("document.no_picture");
    try { await api("GET", `${where}/pages/${page}.png?width=1400`, null, { headers: { Accept: "*/*" } }); } catch (error) { why = explain(error); }
    showNoPage(why);
  });
  byId("zoom").hidden = false;
  if (!leaf.querySelector("img")) leaf.replaceChildren(el("span", { class: "ghost leaf-ghost" }));
}

function showNoPage(why) {
  byId("zoom").hidden = true;
  leaf.replaceChildren(empty("warn", t("document.no_picture"), why, el("a", { class: "button", href: `${where}/file` }, icon("download"), t("document.download"))));
}

/** Marks the fields on the page, the chosen one highlighted. */
function markFields() {
  for (const box of leaf.querySelectorAll(".spot")) box.remove();
  if (!leaf.querySelector("img") || !shown) return;
  for (const [name, entry] of Object.entries(shown.fields)) {
    if (!entry.box || entry.page !== page) continue;
    const [x0, y0, x1, y1] = entry.box;
    const spot = el("button", { type: "button", class: `spot ${name === chosen ? "here" : ""}`, title: title(name), "aria-label": title(name), tabindex: "-1", onclick: () => choose(name, true) });
    Object.assign(spot.style, { left: `${x0 * 100}%`, top: `${y0 * 100}%`, width: `${(x1 - x0) * 100}%`, height: `${(y1 - y0) * 100}%` });
    leaf.append(spot);
    if (name === chosen) spot.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function toggleZoom() {
  const on = paper.classList.toggle("zoomed");
  byId("zoom").setAttribute("aria-pressed", String(on));
}

// -- fields ------------------------------------------------------------------------------------------------------

const specOf = (name) => data.fields[shown?.type]?.[name];

const title = (name) => fieldTitle(name, specOf(name)?.title);

function valueCell(name, entry) {
  if (entry.state === "absent") return el("span", { class: "muted" }, t("document.absent"));
  const content = entry.value;
  if (content === null || content === "") return el("span", { class: "muted" }, "—");
  if (Array.isArray(content)) return gridTable(name, content);
  if (typeof content === "object") return el("span", { class: "mono small" }, JSON.stringify(content));
  if (typeof content === "boolean") return t(content ? "document.yes" : "document.no");
  return String(content);
}

function gridTable(name, list) {
  if (!list.length) return el("span", { class: "muted" }, t("document.no_rows"));
  if (typeof list[0] !== "object" || list[0] === null) return list.join(", ");
  const columns = [...new Set(list.flatMap((row) => Object.keys(row)))].filter((key) => list.some((row) => row[key] !== null && row[key] !== ""));
  const titles = specOf(name)?.columns ?? {};
  const numeric = (key) => list.every((row) => row[key] === null || /^-?[\d.,]+$/.test(String(row[key] ?? "")));
  const cell = (tag, key, text) => el(tag, { class: numeric(key) ? "number" : "" }, text);
  return el("div", { class: "table-wrap" }, el("table", { class: "inner" },
    el("thead", {}, el("tr", {}, columns.map((key) => cell("th", key, fieldTitle(key, titles[key]))))),
    el("tbody", {}, list.map((row) => el("tr", {}, columns.map((key) => cell("td", key, row[key] ?? "")))))));
}

function fieldRow([name, entry]) {
  const wide = Array.isArray(entry.value) && typeof entry.value[0] === "object";
  const human = entry.locked || entry.manually_corrected;
  const source = el("span", { class: `small ${human ? "text-human" : "muted"}`, title: t("document.source") }, human && icon(entry.locked ? "lock" : "pencil"), human ? t(entry.locked ? "document.locked" : "document.by_person") : textOr(`document.source_${entry.source}`, entry.source));
  const why = entry.reasons?.length || entry.quote
    ? el("div", { class: "why small muted" }, entry.quote && !wide && el("q", {}, entry.quote), entry.reasons?.length && el("span", {}, localized(entry, "reasons").join(" · "))) : null;
  const button = el("button", { type: "button", class: "field-name", "aria-expanded": String(name === chosen), onclick: () => choose(name === chosen ? null : name) }, title(name), specOf(name)?.required && el("abbr", { title: t("base.required") }, "*"));
  return el("div", { class: `field-row ${wide ? "wide" : ""} ${name === chosen ? "here" : ""}`, dataset: { field: name } },
    button, el("div", { class: "field-value" }, valueCell(name, entry), why), el("div", { class: "field-trust" }, source, human ? null : confidence(entry.confidence, specOf(name)?.threshold)));
}

function choose(name, scroll = false) {
  chosen = name;
  for (const row of byId("fields").querySelectorAll(".field-row")) {
    const here = row.dataset.field === name;
    row.classList.toggle("here", here);
    row.querySelector(".field-name").setAttribute("aria-expanded", String(here));
    if (here && scroll) { row.scrollIntoView({ block: "nearest" }); row.querySelector(".field-name").focus({ preventScroll: true }); }
  }
  const entry = name && shown.fields[name];
  if (entry?.page && entry.page !== page) showPage(entry.page);
  else markFields();
}

function chooseNext(by) {
  const names = [...byId("fields").querySelectorAll(".field-row")].map((row) => row.dataset.field);
  if (!names.length) return;
  const place = names.indexOf(chosen);
  choose(names[Math.max(0, Math.min(names.length - 1, place < 0 ? (by > 0 ? 0 : names.length - 1) : place + by))], true);
}

// -- drawing -----------------------------------------------------------------------------------------------------

function drawHead() {
  byId("standing").replaceChildren(...[status(shown.status), verdict(shown.verdict), shown.work?.review && review(shown.work.review.status)].filter(Boolean));
  const live = progress(shown);
  if (live) byId("standing").append(live);
  const item = shown.work?.review;
  const open = item && ["pending", "in_review"].includes(item.status);
  byId("actions").replaceChildren(...[
    item && el("a", { class: `button ${open && may("reviewer") ? "primary" : ""}`, href: item.url, id: "open-review" }, icon("eye"), t(open && may("reviewer") ? "document.review" : "document.see_review")),
    el("a", { class: "button", href: `${where}/file` }, icon("download"), t("document.download")),
    may("operator") && el("button", { type: "button", id: "again", onclick: reprocess, disabled: shown.status === "processing" || shown.status === "queued" }, icon("again"), t("document.again")),
    may("operator") && el("button", { type: "button", class: "danger", id: "delete", onclick: remove, disabled: shown.status === "processing" }, icon("trash"), t("document.delete")),
  ].filter(Boolean));
}

function drawNotices() {
  const notices = [];
  if (shown.error) notices.push(notice("bad", "stop", el("strong", {}, t("document.failed")), " ", capital(localized(shown.error)), shown.error.code && el("code", { class: "code" }, shown.error.code)));
  if (shown.duplicate_of) notices.push(notice("idle", "copy", t("document.duplicate"), " ", el("a", { href: `/documents/${shown.duplicate_of}` }, t("documents.look_at_original"))));
  if (shown.status === "queued") notices.push(notice("idle", "clock", t("document.waits")));
  byId("notices").replaceChildren(...notices);
}

function drawIssues() {
  const texts = new Set();
  const all = [
    ...(shown.issues ?? []).map((issue) => ({ kind: issue.severity === "error" ? "bad" : "warn", text: localized(issue), fields: issue.fields, rule: issue.rule })),
    ...(shown.reasons ?? []).map((reason) => ({ kind: reason.severity === "error" ? "bad" : "warn", text: localized(reason), fields: reason.fields })),
    ...(localized(shown, "notes") || []).map((text) => ({ kind: "idle", text })),
  ].filter((doubt) => doubt.text && !texts.has(doubt.text) && texts.add(doubt.text));
  byId("doubts-card").hidden = !all.length;
  byId("doubts").replaceChildren(...all.map((doubt) => el("li", { class: `mark-${doubt.kind}` }, icon(doubt.kind === "bad" ? "stop" : doubt.kind === "warn" ? "warn" : "eye"),
    el("div", {}, capital(doubt.text), el("div", { class: "chips" }, (doubt.fields ?? []).filter((name) => shown.fields[name]).map((name) =>
      el("button", { type: "button", class: "chip", onclick: () => choose(name, true) }, title(name))))))));
}

function drawFields() {
  const all = Object.entries(shown.fields ?? {});
  byId("field-count").textContent = all.length ? t("document.field_count", { n: all.length }) : "";
  byId("fields").replaceChildren(...(all.length ? all.map(fieldRow)
    : [el("p", { class: "pad muted" }, t(ENDED.has(shown.status) ? "document.no_fields" : "document.not_read"))]));
}

function drawAbout() {
  const took = shown.started_at && shown.completed_at ? (Date.parse(shown.completed_at) - Date.parse(shown.started_at)) / 1000 : null;
  const outputs = ["json", "parquet"].filter((kind) => shown.outputs?.[kind]).map((kind) =>
    el("a", { class: "button small-button", href: `${where}/outputs/${kind}`, title: shown.outputs[kind] }, icon("download"), kind === "json" ? "JSON" : "Parquet"));
  const facts = [
    ["document.outputs", outputs.length ? el("div", { class: "row tight" }, outputs) : null],
    ["base.type", shown.type && (data.types[shown.type] ?? shown.type)],
    ["base.model", shown.model === "local" ? t("document.model_local") : shown.model],
    ["base.pages", shown.pages && number(shown.pages)],
    ["base.cost", shown.cost === null || shown.cost === undefined ? null : money(shown.cost, "USD")],
    ["documents.uploaded", `${moment(shown.created_at)} (${ago(shown.created_at)})`],
    ["document.took", took !== null && duration(took)],
    ["document.file", `${shown.media} · ${bytes(shown.bytes)}`],
    ["document.sha256", el("code", { class: "small wrap" }, shown.sha256)],
    ["document.id", el("code", { class: "small" }, shown.id)],
  ];
  byId("about").replaceChildren(...facts.filter(([, content]) => content).flatMap(([key, content]) => [el("dt", {}, t(key)), el("dd", {}, content)]));
}

function drawAttempts() {
  const all = shown.work?.attempts ?? [];
  if (!all.length) return byId("attempts").replaceChildren(el("p", { class: "pad muted" }, t("document.no_attempts")));
  byId("attempts").replaceChildren(el("div", { class: "table-wrap" }, el("table", { class: "list" },
    el("thead", {}, el("tr", {}, ["base.worker", "base.when", "document.took", "document.outcome"].map((key) => el("th", {}, t(key))))),
    el("tbody", {}, all.map((attempt, place) => [
      el("tr", {}, el("td", { class: "mono small wrap" }, attempt.worker, attempt.queue !== "documents" && el("div", { class: "muted" }, attempt.queue)),
        el("td", { class: "nowrap", title: moment(attempt.claimed_at) }, ago(attempt.claimed_at)),
        el("td", { class: "nowrap" }, attempt.settled_at ? duration((Date.parse(attempt.settled_at) - Date.parse(attempt.claimed_at)) / 1000) : "…"),
        el("td", {}, outcome(attempt.outcome), attempt.error && el("div", { class: "small text-bad wrap" }, localized(attempt.error)), !attempt.outcome && attempt.note && el("div", { class: "small muted" }, localized(attempt, "note")),
          !place && attempt.retry_at && el("div", { class: "small muted" }, t("document.next_attempt", { time: moment(attempt.retry_at) })))),
    ])))));
}

function shorten(content) {
  if (content === null || content === undefined || content === "") return "∅";
  const text = typeof content === "object" ? JSON.stringify(content) : String(content);
  return text.length > 120 ? `${text.slice(0, 119)}…` : text;
}

const hasChanged = ({ before, after }) => JSON.stringify(before ?? null) !== JSON.stringify(after ?? null);

/** Who did what, with the assignee or the former holder. */
function describeAction({ action, actor, before, after }) {
  if (action === "expired") return t("document.action_expired", { before: before ?? "" });
  const assignment = (action === "assigned" || action === "reassigned") && (after ? t("document.gave_to", { after }) : t("document.gave_nobody"));
  return [el("strong", {}, actor), " ", assignment || textOr(`document.action_${action}`, action)];
}

function drawHistory(entries) {
  byId("history-card").hidden = !entries.length;
  byId("history").replaceChildren(...entries.map((entry) => el("li", {},
    el("time", { datetime: entry.at, title: moment(entry.at), class: "small muted nowrap" }, ago(entry.at)),
    el("div", {}, describeAction(entry), entry.field && [" ", el("em", {}, title(entry.field))],
      entry.field && hasChanged(entry) ? el("div", { class: "small wrap" }, el("del", {}, shorten(entry.before)), " → ", el("ins", {}, shorten(entry.after))) : null,
      entry.reason && el("div", { class: "small muted wrap" }, describeReason(entry.reason, entry.more))))));
}

// -- loading -----------------------------------------------------------------------------------------------------

const optional = (path) => api("GET", path).then((got) => got.data, (error) => { if (error instanceof Problem && error.status === 404) return null; throw error; });

let loading = Promise.resolve();

const load = () => (loading = fetchAndDraw());

async function fetchAndDraw() {
  try {
    const [fresh, work, past] = await Promise.all([api("GET", where).then((got) => got.data), optional(`${where}/work`), optional(`${where}/history`)]);
    listen(ENDED.has(fresh.status));
    const drawing = JSON.stringify([fresh, work, past]);
    if (drawing === lastDrawing) return;
    lastDrawing = drawing;
    const focused = document.activeElement?.closest?.("[data-field]")?.dataset.field;
    shown = { ...fresh, work };
    drawHead();
    drawNotices();
    drawIssues();
    drawFields();
    drawAbout();
    drawAttempts();
    drawHistory(past?.entries ?? []);
    showPage(page);
    if (focused) byId("fields").querySelector(`[data-field="${CSS.escape(focused)}"] .field-name`)?.focus({ preventScroll: true });
  } catch (error) {
    lastDrawing = "";
    byId("notices").replaceChildren(notice("bad", "stop", explain(error), " ", el("button", { type: "button", class: "small-button", onclick: load }, t("base.try_again"))));
  }
}

/** While it is read, its own stream reports progress; afterwards it may be reviewed or read again. */
function listen(ended) {
  if (watchesEnded === ended) return;
  watchesEnded = ended;
  for (const stream of streams) stream.close();
  streams = ended ? [
    events("/api/documents/events", { document: (update) => update.id === data.id && scheduleLoad() }),
    events("/api/review/events", { review: scheduleLoad }, { onopen: scheduleLoad }),
  ] : [events(`${where}/events`, {
    document(update) {
      if (update.status !== shown.status || update.version !== shown.version) return void load();
      shown.progress = update.progress;
      drawHead();
    },
    deleted() { stopRequests(); location.assign("/documents"); },
  })];
}

/** The document is deleted: stops all requests for it. */
function stopRequests() {
  watchesEnded = null;
  for (const stream of streams) stream.close();
  clearTimeout(due);
  due = -1;
}

let due = 0;

/** Loads the document again soon, once for any number of events. */
function scheduleLoad() {
  due ||= setTimeout(() => { due = 0; load(); }, 400);
}

// -- actions -----------------------------------------------------------------------------------------------------

async function reprocess() {
  const options = (list, current) => list.map(([key, text]) => el("option", { value: key, selected: key === current }, text));
  const type = el("select", { name: "type" }, options([["", t("document.as_it_is")], ...Object.entries(data.types)], ""));
  const model = el("select", { name: "model" }, options([["", t("document.as_it_is")], ...data.models.map((name) => [name, name === "local" ? t("document.model_local") : name])], ""));
  const done = await formDialog(t("document.again"), [el("p", { class: "muted" }, t("document.again_text")), field(t("base.type"), type), data.models.length > 1 && field(t("base.model"), model)], t("document.again"),
    async (values) => {
      const changes = Object.fromEntries(Object.entries(values).filter(([, choice]) => choice));
      await api("POST", `${where}/reprocess`, changes);
    });
  if (!done) return;
  toast(t("document.again_done"), "good");
  await load();
}

async function remove() {
  const sure = await confirm(t("document.delete_title"), t("document.delete_text", { name: data.name }), t("document.delete"), { danger: true });
  if (!sure) return;
  stopRequests(); // the event of its deletion must not make the page load it
  await loading;
  try {
    await api("DELETE", where);
    flash(t("document.deleted", { name: data.name }));
    location.assign("/documents");
  } catch (error) {
    due = 0;
    load();
    toast(explain(error), "bad");
  }
}

byId("page-before").addEventListener("click", () => showPage(page - 1));
byId("page-after").addEventListener("click", () => showPage(page + 1));
byId("zoom").addEventListener("click", toggleZoom);
leaf.addEventListener("dblclick", toggleZoom);

keys([
  { key: "j", does: t("document.key_next_field"), run: () => chooseNext(1) },
  { key: "k", does: t("document.key_previous_field"), run: () => chooseNext(-1) },
  { key: "[", does: t("base.previous_page"), run: () => showPage(page - 1) },
  { key: "]", does: t("base.next_page"), run: () => showPage(page + 1) },
  { key: "z", does: t("base.zoom"), run: toggleZoom },
  { key: "r", does: t("document.review"), run: () => byId("open-review")?.click() },
  { key: "Backspace", does: t("document.back"), run: () => byId("back").click() },
]);
// Users who came from the list return to their position in it.
byId("back").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || cameFrom !== "/documents") return;
  event.preventDefault();
  history.back();
});
addEventListener("pageshow", (event) => { if (event.persisted) load(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) scheduleLoad(); });
load();
