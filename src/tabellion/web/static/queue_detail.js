// One queue: its rows by state, its errors by fingerprint, and the actions of operators.

import { api, badge, byId, data, el, empty, explain, icon, keys, language, may, money, moment, notice, number, rowKeys, t, toast } from "./base.js";
import { Bars, put, formatShare } from "./charts.js";
import { localized } from "./messages.js";
import { liveAge, count, pauseOrResume, retry, short, showHindrances, watch } from "./monitor.js";
import { renew, Rows } from "./rows.js";

const STATES = ["ready", "waiting", "running", "done", "failed"];
const PAGE = 50, MOST = 200, PAUSE = 1500;
const MINUTE = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const path = `/api/queues/${encodeURIComponent(data.queue)}`;
const operator = may("operator");

let queue = null, state = null, cursor = null, shown = [], requests = 0, loadedCount = null, timer = 0;

const agoWords = (seconds) => (seconds === null ? "–" : seconds < 5 ? t("dashboard.just_now") : t("dashboard.ago", { time: short(seconds) }));
const inWords = (seconds) => (seconds === null ? "–" : seconds > 0 ? t("dashboard.just_now") : t("queue_detail.due_in", { time: short(-seconds) }));
const showError = (error) => (error.name === "AbortError" ? null : toast(explain(error), "bad"));

// -- the rows of a state -----------------------------------------------------------------------------------------

/** A column of a state's table: a heading, a class, and how a cell is created and updated. */
const when = (word, pick, write = agoWords) => ({
  word, css: "nowrap",
  make: () => { const element = liveAge(write); return { node: element, update: (row) => { const at = pick(row); element.update(at); element.title = moment(at); } }; },
});
const plain = (word, css, write) => ({
  word, css, make: () => { const element = el("span"); return { node: element, update: (row) => { const content = write(row); put(element, content); if (css.includes("cut")) element.title = content; } }; },
});
const WORKER = plain("base.worker", "cut narrow wide-only", (row) => row.attempt?.worker ?? row.mirrors.worker ?? "");
const ATTEMPT = plain("queue_detail.attempt", "right", (row) => number(row.attempt?.attempt ?? (row.mirrors.attempts || null)) || "–");
const SAID = plain("queue_detail.said", "said", (row) => localized(row.attempt, "note"));
const ERROR = plain("queue_detail.said", "said", (row) => localized(row, "error"));
const COST = plain("base.cost", "right nowrap", (row) => (row.attempt?.cost ? money(row.attempt.cost, "USD") : ""));
const COLUMNS = {
  ready: [ATTEMPT, ERROR],
  waiting: [when("base.due", (row) => row.attempt?.retry_at, inWords), ATTEMPT, ERROR],
  running: [when("queue_detail.since", (row) => row.attempt?.claimed_at ?? row.mirrors.started_at, short), ATTEMPT, WORKER, SAID],
  done: [when("base.when", (row) => row.attempt?.settled_at ?? row.mirrors.finished_at), ATTEMPT, WORKER, COST],
  failed: [when("base.when", (row) => row.attempt?.settled_at ?? row.mirrors.finished_at), ATTEMPT, ERROR],
};

let table = null;

function makeTable() {
  const columns = COLUMNS[state];
  byId("rows-head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, t("queue_detail.row")),
    columns.map(({ word, css }) => el("th", { scope: "col", class: css.replace("said", "") }, t(word))),
    state === "failed" && operator ? el("th", { scope: "col" }, el("span", { class: "unseen" }, t("base.actions"))) : null));
  byId("rows").replaceChildren();
  table = new Rows(byId("rows"), (row) => {
    const cells = columns.map(({ make, css }) => ({ ...make(), css }));
    const called = row.name ? [row.name, el("span", { class: "mono muted block cut" }, row.key)] : el("span", { class: "mono" }, row.key);
    const key = el(row.url ? "a" : "span", { href: row.url, title: [row.name, row.key].filter(Boolean).join("\n") }, called);
    const tr = el("tr", { "data-row": row.key }, el("td", { class: "key-cell" }, key), cells.map(({ node, css }) => el("td", { class: css }, node)),
      state === "failed" && operator ? el("td", { class: "act" }, el("button", {
        type: "button", class: "quiet square small-button", title: t("queue_detail.retry_row", { key: row.key }),
        "aria-label": t("queue_detail.retry_row", { key: row.key }), onclick: () => retryRow(tr),
      }, icon("again"))) : null);
    tr.retry = () => retry(data.queue, { keys: [row.key] }, 1);
    tr.update = (updated) => cells.forEach((cell) => cell.update(updated));
    return tr;
  });
}

async function retryRow(row) {
  if (row?.retry && (await row.retry())) await refresh();
}

/** Loads the rows again, as many as are shown; ignores answers to older requests. */
async function refresh() {
  const request = (requests += 1), place = state;
  loadedCount = queue?.[place] ?? null;
  try {
    const limit = Math.min(MOST, Math.max(PAGE, shown.length));
    const [rows, groups] = await Promise.all([
      api("GET", `${path}/rows?state=${place}&limit=${limit}`),
      place === "failed" ? api("GET", `${path}/errors`) : null,
    ]);
    if (request !== requests) return;
    const older = shown.length > MOST ? shown.slice(MOST) : [];
    shown = [...rows.data.rows, ...older];
    if (!older.length) cursor = rows.data.next;
    showRows();
    showGroups(groups?.data ?? null);
  } catch (error) {
    if (request === requests) showError(error);
  }
}

async function more() {
  const request = requests, button = byId("more");
  button.setAttribute("aria-busy", "true");
  try {
    const { data: page } = await api("GET", `${path}/rows?state=${state}&limit=${PAGE}&cursor=${encodeURIComponent(cursor)}`);
    if (request !== requests) return;
    const known = new Set(shown.map((row) => row.key));
    shown = [...shown, ...page.rows.filter((row) => !known.has(row.key))];
    cursor = page.next;
    showRows();
  } catch (error) {
    showError(error);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

function showRows() {
  table.update(shown, (row) => row.key);
  byId("rows-table").hidden = !shown.length;
  byId("pager").hidden = cursor === null;
  const drawing = { ready: "queue", waiting: "clock", running: "play", done: "check", failed: "check" }[state];
  renew(byId("rows-empty"), [state, shown.length > 0], () => (shown.length ? [] : empty(drawing, t(`queue_detail.empty_${state}`), t("queue_detail.empty_text"))));
}

// -- errors ------------------------------------------------------------------------------------------------------

const groupRows = new Rows(byId("groups"), () => {
  const many = el("td", { class: "right strong" }), shape = el("span", { class: "shape" }), sample = el("span", { class: "muted small block cut-2" });
  const last = liveAge(agoWords), first = liveAge((seconds) => (seconds === null ? "" : t("queue_detail.first_seen", { ago: agoWords(seconds) })), { class: "muted small block" });
  const button = operator && el("button", { type: "button", class: "small-button" }, icon("again"), el("span"));
  const row = el("tr", { "data-row": "" }, many, el("td", { class: "said" }, shape, sample), el("td", { class: "nowrap" }, last, first), operator ? el("td", { class: "act" }, button) : null);
  row.update = (group) => {
    row.dataset.row = group.fingerprint;
    row.retry = () => retry(data.queue, { fingerprint: group.fingerprint }, group.count, group.message || group.shape);
    put(many, number(group.count));
    put(shape, localized(group) || t("queue_detail.no_word"));
    const alike = group.count > 1 && group.message !== group.shape ? ` · ${t("queue_detail.alike", { shape: group.shape })}` : "";
    put(sample, `${t("queue_detail.sample", { key: group.name ?? group.key })}${alike}`);
    sample.title = group.shape;
    last.update(group.last_at);
    first.update(group.count > 1 ? group.first_at : null);
    if (button) put(button.lastChild, group.count === 1 ? t("queue_detail.retry_one") : t("queue_detail.retry_these", { n: number(group.count) }));
  };
  if (button) button.addEventListener("click", () => retryRow(row));
  return row;
});

function showGroups(result) {
  byId("groups-card").hidden = !result?.groups.length;
  if (!result) return;
  groupRows.update(result.groups, (group) => group.fingerprint);
  put(byId("groups-some"), result.whole ? "" : t("queue_detail.groups_some", { n: number(result.rows) }));
}

// -- states ------------------------------------------------------------------------------------------------------

function choose(next, { push = true } = {}) {
  if (!STATES.includes(next) || next === state) return;
  state = next;
  [shown, cursor] = [[], null];
  for (const tab of document.querySelectorAll("[data-state]")) {
    const isSelected = tab.dataset.state === state;
    tab.setAttribute("aria-selected", String(isSelected));
    tab.tabIndex = isSelected ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${state}`);
  if (push) history.replaceState(null, "", `#${state}`);
  makeTable();
  byId("rows-empty").mark = undefined;
  byId("rows-empty").replaceChildren(...Array.from({ length: 3 }, () => el("div", { class: "ghost-row" }, el("span", { class: "ghost" }))));
  byId("groups-card").hidden = true;
  byId("pager").hidden = true;
  if (queue) showAbout();
  refresh();
}

for (const tab of document.querySelectorAll("[data-state]")) {
  tab.addEventListener("click", () => choose(tab.dataset.state));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? STATES.length - 1 : step ? (STATES.indexOf(state) + step + STATES.length) % STATES.length : -1;
    if (next < 0) return;
    event.preventDefault();
    choose(STATES[next]);
    byId(`tab-${state}`).focus();
  });
}
byId("more").addEventListener("click", more);

// -- what is known of the queue ----------------------------------------------------------------------------------

const chart = new Bars(byId("chart"), {
  title: t("dashboard.throughput"), axis: (at) => MINUTE.format(at), tooltip: (at) => MINUTE.format(at), nothing: t("dashboard.nothing_settled"),
  kinds: [{ key: "done", word: t("dashboard.done"), css: "fill-done" }, { key: "failed", word: t("dashboard.failed"), css: "fill-failed" }],
});
const oldest = liveAge(short);
const pausedFor = liveAge((seconds) => t("queue_detail.paused_since", { time: short(seconds) }));

function showAbout() {
  const condition = queue.states[state === "waiting" ? "ready" : state];
  const facts = [queue.table, queue.model, queue.limit, queue.gate, queue.workers, queue.error_rate, condition];
  renew(byId("about"), facts, () => [
    [t("queue_detail.oldest"), oldest],
    [t("queue_detail.rate"), queue.error_rate === null ? "–" : formatShare(queue.error_rate)],
    [t("base.workers"), number(queue.workers)],
    [t("queue_detail.limit"), queue.limit === null ? t("queue_detail.unlimited") : number(queue.limit)],
    queue.model && [t("base.model"), queue.model],
    queue.gate && [t("base.gate"), [queue.gate.name, " ", queue.gate.state === "open" ? badge("good", "check", t("dashboard.open")) : badge("bad", "lock", t("dashboard.gate_closed"))]],
    [t("queue_detail.table"), el("code", {}, queue.table), "below"],
    [t("queue_detail.state_is"), el("code", {}, condition), "below"],
  ].filter(Boolean).map(([word, content, css]) => [el("dt", { class: css }, word), el("dd", { class: css }, content)]));
  oldest.update(queue.oldest_at);
}

function showQueue() {
  for (const place of STATES) {
    const tab = byId(`tab-${place}`);
    put(tab.lastElementChild, place === "waiting" ? number(queue.waiting) : count(queue, place));
    tab.classList.toggle("some", queue[place] > 0);
  }
  showHindrances(byId("badges"), queue);
  pausedFor.update(queue.paused_at);
  renew(byId("notices"), [queue.paused_at, queue.reason, queue.problem, queue.gate?.reason], () => [
    queue.problem && notice("bad", "stop", queue.problem),
    queue.paused && notice("warn", "pause", pausedFor, queue.reason && [" · ", el("strong", {}, queue.reason)]),
    queue.gate?.state === "closed" && notice("bad", "lock", t("queue_detail.gate_why", { gate: queue.gate.name, reason: localized(queue.gate, "reason") })),
  ]);
  const button = byId("pause");
  if (button) renew(button, queue.paused, (paused) => [icon(paused ? "play" : "pause"), el("span", {}, t(paused ? "dashboard.resume" : "dashboard.pause")), el("kbd", {}, "p")]);
  showAbout();
}

watch((picture) => {
  const found = picture.queues.find((candidate) => candidate.name === data.queue);
  document.body.classList.remove("unknown");
  if (!found) return void renew(byId("notices"), "gone", () => notice("bad", "stop", t("queue_detail.gone")));
  queue = found;
  if (state === null) choose(STATES.includes(location.hash.slice(1)) ? location.hash.slice(1) : queue.failed ? "failed" : queue.running ? "running" : "ready", { push: false });
  showQueue();
  chart.update({ since: new Date(picture.series.minutes.since), step: 60, values: queue.spark });
  const mark = queue[state];
  const changesOften = state === "running" || state === "done";
  if (loadedCount === null) loadedCount = mark;
  else if ((mark !== loadedCount || (changesOften && queue.throughput.minute.done)) && !timer) timer = setTimeout(() => { timer = 0; refresh(); }, PAUSE);
});

byId("pause")?.addEventListener("click", () => queue && pauseOrResume(queue));
rowKeys(byId("panel"));
keys([{ key: "1", shown: "1 – 5", does: t("queue_detail.key_tab"), run: () => choose(STATES[0]) },
  ...STATES.slice(1).map((place, number) => ({ key: String(number + 2), run: () => choose(place) }))]);
if (operator) {
  keys([
    { key: "p", does: t("dashboard.key_pause"), run: () => pauseOrResume(queue), when: () => queue !== null },
    { key: "r", does: t("queue_detail.key_retry"), run: () => retryRow(document.querySelector("#panel tr.here")), when: () => Boolean(document.querySelector("#panel tr.here")?.retry) && state === "failed" },
  ]);
}
