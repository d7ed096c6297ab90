// The dashboard: queues, workers, gates and spend, live; pipelines add figures.

import { badge, byId, el, empty, icon, keys, language, may, money, number, rowKeys, t } from "./base.js";
import { Bars, put, formatShare, spark } from "./charts.js";
import { liveAge, breakable, count, pauseOrResume, queuePath, short, showHindrances, watch } from "./monitor.js";
import { renew, Rows } from "./rows.js";
import { localized } from "./messages.js";

const format = (options) => { const formatter = new Intl.DateTimeFormat(language, options); return (at) => formatter.format(at); };
const MINUTE = format({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const UTC_DAY = format({ day: "numeric", month: "short", timeZone: "UTC" });
const WHOLE_DAY = format({ weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
const WHOLE_HOUR = format({ weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

let picture = null;
const watchers = [];

/** Calls a function with each overview, and with the current one: for the figures of pipelines. */
export function onOverview(show) {
  watchers.push(show);
  if (picture) show(picture);
}

const sum = (list, pick) => list.reduce((total, item) => total + pick(item), 0);

// -- figures -----------------------------------------------------------------------------------------------------

const tiles = Object.fromEntries([...document.querySelectorAll("[data-tile]")].map((tile) => [tile.dataset.tile, tile]));

/** Fills a tile at the top. */
export function showTile(name, value, sub, kind = "") {
  const tile = tiles[name];
  put(tile.querySelector("strong"), value);
  put(tile.querySelector(".tile-sub"), sub);
  tile.className = `card tile ${kind}`;
}

function showFigures({ queues: all, fleet, spend, series }) {
  const ours = all.filter((one) => !one.people), queues = ours.filter((one) => !one.chore);
  const failed = sum(ours, (one) => one.failed);
  const waiting = sum(queues, (one) => one.waiting), done = sum(series.minutes.done, (one) => one);
  const lost = sum(series.minutes.failed, (one) => one);
  const plus = (state) => (ours.some((one) => one.more.includes(state)) ? "+" : "");
  const ready = sum(queues, (one) => one.ready);
  showTile("ready", number(ready) + plus("ready"), waiting ? t("dashboard.tile_waiting", { n: number(waiting) }) : t(ready ? "dashboard.tile_due" : "dashboard.tile_nothing"));
  showTile("running", number(sum(queues, (one) => one.running)), fleet.alive ? t("dashboard.tile_slots", { n: fleet.alive, count: number(fleet.alive), slots: number(fleet.slots) }) : t("dashboard.tile_no_worker"), fleet.alive ? "" : "tile-warn");
  showTile("done", number(done), t("dashboard.tile_minute", { n: number(sum(queues, (one) => one.throughput.minute.done)) }));
  showTile("failed", number(failed) + plus("failed"), t("dashboard.tile_failed_hour", { n: number(lost) }), failed ? "tile-bad" : "");
  showTile("spend", money(spend.today, spend.currency), t("dashboard.tile_month", { sum: money(spend.month, spend.currency) }));
}

// -- throughput --------------------------------------------------------------------------------------------------

const settled = [
  { key: "done", word: t("dashboard.done"), css: "fill-done" },
  { key: "failed", word: t("dashboard.failed"), css: "fill-failed" },
];
let span = "minutes";
const throughput = new Bars(byId("throughput"), {
  title: t("dashboard.throughput"), kinds: settled, axis: MINUTE,
  tooltip: (at) => (span === "minutes" ? MINUTE(at) : WHOLE_HOUR(at)), nothing: t("dashboard.nothing_settled"),
});

function showThroughput() {
  const series = picture.series[span];
  throughput.update({ since: new Date(series.since), step: series.step, values: series });
}

for (const button of document.querySelectorAll("[data-span]")) {
  button.addEventListener("click", () => {
    span = button.dataset.span;
    for (const other of document.querySelectorAll("[data-span]")) other.setAttribute("aria-pressed", String(other === button));
    if (picture) showThroughput();
  });
}

// -- queues ------------------------------------------------------------------------------------------------------

function queueRow(queue) {
  const name = el("a", { href: queuePath(queue.name) }, breakable(queue.name));
  const cells = Object.fromEntries(["running", "done", "failed", "minute", "hour", "rate"].map((key) => [key, el("td", { class: "right" })]));
  for (const key of ["minute", "rate"]) cells[key].classList.add("mid-only");
  const ready = el("span"), waiting = el("span", { class: "muted small block nowrap" }), bar = el("span", { class: "load", "aria-hidden": "true" }, el("i"), el("i"), el("i"));
  const under = el("span", { class: "muted small block" }), badges = el("span", { class: "row badges" });
  const oldest = liveAge(short);
  const line = spark((series) => t("dashboard.spark", { done: number(sum(series.done, (one) => one)), failed: number(sum(series.failed, (one) => one)) }));
  const act = may("operator") && el("button", { type: "button", class: "quiet square small-button" }, icon("pause"));
  const row = el("tr", { "data-row": queue.name },
    el("td", { class: "queue-name" }, el("div", { class: "row" }, name, badges), under),
    el("td", { class: "right" }, ready, waiting), cells.running, cells.failed, cells.done,
    el("td", { class: "right nowrap" }, oldest), el("td", { class: "load-cell wide-only" }, bar),
    cells.minute, cells.hour, cells.rate, el("td", { class: "spark-cell" }, line), may("operator") ? el("td", { class: "act" }, act) : null);
  if (act) act.addEventListener("click", () => pauseOrResume(row.queue));
  row.update = (queue) => {
    row.queue = queue;
    put(under, queue.problem ?? [queue.table, queue.model && queue.model !== queue.table ? queue.model : null, queue.limit === null ? null : t("dashboard.limit", { n: number(queue.limit) })].filter(Boolean).join(" · "));
    under.classList.toggle("text-bad", Boolean(queue.problem));
    showHindrances(badges, queue);
    put(ready, count(queue, "ready"));
    put(waiting, queue.waiting ? t("dashboard.waiting_of", { n: number(queue.waiting) }) : "");
    for (const state of ["running", "done", "failed"]) put(cells[state], count(queue, state));
    cells.failed.classList.toggle("text-bad", queue.failed > 0);
    cells.failed.classList.toggle("strong", queue.failed > 0);
    put(cells.minute, number(queue.throughput.minute.done));
    put(cells.hour, number(queue.throughput.hour.done));
    put(cells.rate, queue.error_rate === null ? "–" : formatShare(queue.error_rate));
    cells.rate.classList.toggle("text-bad", (queue.error_rate ?? 0) >= 0.1);
    oldest.update(queue.oldest_at);
    line.update(queue.spark);
    const most = Math.max(1, queue.ready + queue.running + queue.failed);
    [queue.ready, queue.running, queue.failed].forEach((value, place) => { bar.children[place].style.width = `${(100 * value) / most}%`; });
    if (act) {
      const word = t(queue.paused ? "dashboard.resume_queue" : "dashboard.pause_queue", { queue: queue.name });
      if (act.title !== word) {
        act.title = word;
        act.setAttribute("aria-label", word);
        act.replaceChildren(icon(queue.paused ? "play" : "pause"));
      }
    }
  };
  return row;
}

const queueRows = new Rows(byId("queues"), queueRow), choreRows = new Rows(byId("chores"), queueRow);

/** Post-processing queues are folded away, except those that an operator should see. */
function showQueues(all) {
  const quiet = (queue) => queue.chore && !queue.failed && !queue.paused && !queue.problem;
  const chores = all.filter(quiet);
  showList("queues", queueRows, all.filter((queue) => !quiet(queue)), (queue) => queue.name);
  choreRows.update(chores, (queue) => queue.name);
  byId("chores-bar").hidden = !chores.length;
  put(byId("chores-button"), byId("chores").hidden ? t("dashboard.chores", { n: chores.length }) : t("dashboard.chores_away"));
}

byId("chores-button").addEventListener("click", () => {
  byId("chores").hidden = !byId("chores").hidden;
  byId("chores-button").setAttribute("aria-expanded", String(!byId("chores").hidden));
  if (picture) showQueues(picture.queues);
});

// -- workers -----------------------------------------------------------------------------------------------------

const KINDS = { alive: ["good", "check"], stopped: ["idle", "minus"], lost: ["bad", "warn"] };

const describeHeldJobs = (held) => {
  const { queue, jobs, oldest_at, newest_at } = held, note = localized(held, "note");
  const [from, to] = [oldest_at, newest_at].map((at) => MINUTE(new Date(at)));
  const since = t(from === to ? "dashboard.held_since" : "dashboard.held_between", { queue, n: jobs, count: number(jobs), from, to });
  return note ? `${since} · ${note}` : since;
};

const workerRows = new Rows(byId("workers"), (worker) => {
  const state = el("td"), busy = el("span"), bar = el("span", { class: "bar", "aria-hidden": "true" }, el("i"));
  const done = el("td", { class: "right" }), seen = liveAge((seconds) => (seconds < 10 ? t("dashboard.just_now") : t("dashboard.ago", { time: short(seconds) }))), up = liveAge((seconds) => t("dashboard.up_for", { time: short(seconds) }), { class: "muted small block" });
  const queues = el("span", { class: "muted small block cut", title: "" }), held = el("span", { class: "small block" });
  const row = el("tr", {}, el("td", { class: "worker-name" }, el("span", { class: "cut block", title: `${worker.host} · ${worker.pid} · ${worker.version}` }, worker.id), queues, held), state,
    el("td", {}, el("div", { class: "slots" }, busy, bar)), done, el("td", { class: "nowrap" }, seen, up));
  row.update = (worker) => {
    renew(state, [worker.state, worker.ending], () => badge(...KINDS[worker.state], t(`dashboard.worker_${worker.state}`), worker.ending ?? ""));
    row.classList.toggle("gone", worker.state !== "alive");
    put(queues, worker.queues.join(", "));
    queues.title = worker.queues.join(", ");
    renew(held, worker.holds, () => worker.holds.map((one) => el("span", { class: "block cut", title: one.key ?? "" }, describeHeldJobs(one))));
    put(busy, t("dashboard.busy_of", { busy: number(worker.busy), slots: number(worker.slots) }));
    bar.firstChild.style.width = `${worker.slots ? (100 * worker.busy) / worker.slots : 0}%`;
    renew(done, [worker.done, worker.failed], () => [number(worker.done), worker.failed ? el("span", { class: "text-bad small block nowrap" }, t("dashboard.n_failed", { n: worker.failed, count: number(worker.failed) })) : null]);
    seen.update(worker.seen_at);
    up.update(worker.state === "alive" ? worker.started_at : null);
    up.hidden = worker.state !== "alive";
  };
  return row;
});

// -- gates -------------------------------------------------------------------------------------------------------

const gateRows = new Rows(byId("gates"), (gate) => {
  const state = el("td"), why = el("span", { class: "small text-bad block" }), rate = el("td", { class: "right nowrap" }), calls = el("span", { class: "muted small block" });
  const spent = el("span", { class: "nowrap" }), bar = el("span", { class: "bar", "aria-hidden": "true" }, el("i"));
  const again = liveAge((seconds) => (seconds === null ? "" : t("dashboard.reopens", { time: short(Math.max(0, -seconds)) })), { class: "small muted block" });
  const row = el("tr", {}, el("td", {}, el("span", { class: "strong" }, gate.name), el("span", { class: "muted small block" }, gate.queues.join(", ")), calls, why, again), state, rate,
    el("td", { class: "right" }, spent, bar));
  row.update = (gate) => {
    renew(state, [gate.state, gate.breaker], () => (gate.state === "open"
      ? badge("good", "check", t("dashboard.open")) : badge("bad", "lock", t(`dashboard.breaker_${gate.breaker === "closed" ? "budget" : gate.breaker}`))));
    put(why, localized(gate, "reason"));
    again.update(gate.reopens_at);
    renew(rate, [gate.rate, gate.min_rate, gate.max_rate], () => [t("dashboard.per_second", { n: number(gate.rate, gate.rate < 10 ? 1 : 0) }),
      el("span", { class: "muted small block" }, t("dashboard.range", { least: number(gate.min_rate, 1), most: number(gate.max_rate, 1) }))]);
    put(calls, [t("dashboard.n_calls", { n: gate.calls, count: number(gate.calls) }), gate.throttled && t("dashboard.n_throttled", { n: gate.throttled, count: number(gate.throttled) }),
      gate.failed && t("dashboard.n_failed", { n: gate.failed, count: number(gate.failed) })].filter(Boolean).join(", "));
    const share = gate.budget ? Math.min(1, gate.spent / gate.budget) : 0;
    put(spent, gate.budget === null ? money(gate.spent, "USD") : t("dashboard.spent_of", { spent: money(gate.spent, "USD"), budget: money(gate.budget, "USD") }));
    bar.hidden = gate.budget === null;
    bar.className = `bar ${share >= 1 ? "bad" : share >= 0.8 ? "warn" : ""}`;
    bar.firstChild.style.width = `${100 * share}%`;
  };
  return row;
});

// -- spend -------------------------------------------------------------------------------------------------------

const spending = new Bars(byId("spending"), {
  title: t("dashboard.spend_days"), kinds: [{ key: "cost", word: t("base.cost"), css: "fill-done" }],
  axis: UTC_DAY, tooltip: WHOLE_DAY, write: (value) => money(value, "USD"), nothing: t("dashboard.nothing_spent"), integers: false,
});
const spendRows = new Rows(byId("spend-by"), () => {
  const model = el("span", { class: "muted small block" }), name = el("span"), today = el("td", { class: "right nowrap" }), month = el("td", { class: "right nowrap" });
  const row = el("tr", {}, el("td", {}, name, model), today, month);
  row.update = (entry) => {
    put(name, entry.model ?? entry.queue);
    put(model, entry.model ? entry.queue : "");
    put(today, money(entry.today, picture.spend.currency));
    put(month, money(entry.month, picture.spend.currency));
  };
  return row;
});

// -- together ----------------------------------------------------------------------------------------------------

const nothing = {
  queues: () => empty("queue", t("dashboard.no_queues"), t("dashboard.no_queues_text")),
  workers: () => empty("person", t("dashboard.no_workers"), t("dashboard.no_workers_text")),
  gates: () => empty("lock", t("dashboard.no_gates"), t("dashboard.no_gates_text")),
};

function showList(name, rows, items, key) {
  rows.update(items, key);
  byId(`${name}-table`).hidden = !items.length;
  renew(byId(`${name}-empty`), !items.length, (none) => (none ? nothing[name]() : []));
}

watch((overview) => {
  picture = overview;
  document.body.classList.remove("unknown");
  showFigures(overview);
  showThroughput();
  showQueues(overview.queues);
  showList("workers", workerRows, overview.workers, (one) => one.id);
  showList("gates", gateRows, overview.gates, (one) => one.name);
  const { alive } = overview.fleet;
  put(byId("workers-alive"), t("dashboard.alive", { n: alive, count: number(alive) }));
  spending.update({ since: new Date(overview.spend.since), step: 86400, values: { cost: overview.spend.days } });
  spendRows.update(overview.spend.by, (one) => one.queue);
  byId("spend-table").hidden = !overview.spend.by.length;
  put(byId("spend-today"), money(overview.spend.today, overview.spend.currency));
  put(byId("spend-month"), money(overview.spend.month, overview.spend.currency));
  for (const show of watchers) show(overview);
});

rowKeys(byId("queues-table"));
const selectedQueue = () => document.querySelector("#queues-table tr.here")?.queue ?? null;
if (may("operator")) keys([{ key: "p", does: t("dashboard.key_pause"), run: () => pauseOrResume(selectedQueue()), when: () => selectedQueue() !== null }]);
keys([{ key: "h", does: t("dashboard.key_span"), run: () => document.querySelector('[data-span][aria-pressed="false"]').click() }]);
