// Targets as of their last check, and the queues by hour for seven days: read again every few minutes while the page is visible.

import { api, badge, byId, duration, el, explain, language, number, t } from "./base.js";
import { Bars, put } from "./charts.js";
import { onOverview } from "./dashboard.js";
import { localized } from "./messages.js";
import { liveAge, breakable, repeatWhileVisible, short } from "./monitor.js";
import { renew, Rows } from "./rows.js";

const EVERY = 300000; // milliseconds
const format = (options) => { const formatter = new Intl.DateTimeFormat(language, options); return (at) => formatter.format(at); };
const DAY = format({ weekday: "short" }), HOUR = format({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const WHOLE = format({ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const PERCENT = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });

// -- targets -----------------------------------------------------------------------------------------------------

const formatValue = (value, unit) => (value === null ? "–" : unit === "share" ? PERCENT.format(value) : duration(Math.max(1, Math.round(value))));

function stateOf(target) {
  const { state, kept } = target, problem = localized(target, "problem");
  if (state === "breached") return badge("bad", "warn", t("dashboard.target_breached"), problem);
  if (kept === null) return badge("idle", "minus", t(problem ? "dashboard.target_unknown" : "dashboard.target_unchecked"), problem);
  return kept ? badge("good", "check", t("dashboard.target_kept")) : badge("warn", "warn", t("dashboard.target_missed"));
}

const targetRows = new Rows(byId("targets"), (target) => {
  const value = el("td", { class: "right nowrap" }), limit = el("td", { class: "right nowrap" }), state = el("td");
  const since = liveAge(short);
  const name = target.target.split(/(?<=\.)/).flatMap((part) => [...breakable(part), el("wbr")]);
  const row = el("tr", {}, el("td", {}, name), state, value, limit, el("td", { class: "right nowrap mid-only" }, since));
  row.update = (one) => {
    put(value, formatValue(one.value, one.unit));
    put(limit, `${one.least ? "≥" : "≤"} ${formatValue(one.limit, one.unit)}`);
    renew(state, [one.state, one.kept, one.problem], () => stateOf(one));
    since.update(one.since);
  };
  return row;
});

// -- seven days --------------------------------------------------------------------------------------------------

const choice = byId("trend-queue");
const formatCount = (value) => (value === null || value === undefined ? "–" : number(value));
const axis = (at) => (at.getHours() === 0 ? DAY(at) : HOUR(at));
let charts = null; // made with the first snapshot: an empty chart has nothing to say

const makeCharts = () => ({
  settled: new Bars(byId("trend-settled"), {
    title: t("dashboard.trend_settled"), axis, tooltip: WHOLE, write: formatCount, nothing: t("dashboard.trend_nothing"),
    kinds: [{ key: "done", word: t("dashboard.done"), css: "fill-done" }, { key: "failed", word: t("dashboard.failed"), css: "fill-failed" }],
  }),
  ready: new Bars(byId("trend-ready"), {
    title: t("dashboard.trend_ready"), axis, tooltip: WHOLE, write: formatCount, nothing: t("dashboard.trend_none_ready"),
    kinds: [{ key: "ready", word: t("dashboard.ready"), css: "fill-done" }],
  }),
});

let trends = null, workQueues = new Set();

/** The sum of several series; null where none has a value. */
const add = (lists) => lists.reduce((sums, list) => sums.map((sum, place) => (list[place] === null ? sum : (sum ?? 0) + list[place])),
  Array.from({ length: lists[0].length }, () => null));

function show() {
  const queues = trends.queues.filter((one) => (choice.value ? one.queue === choice.value : workQueues.has(one.queue)));
  byId("trends-none").hidden = queues.length > 0;
  byId("trends-charts").hidden = !queues.length;
  if (!queues.length) return;
  charts ??= makeCharts();
  const series = { since: new Date(trends.since), step: trends.step };
  charts.settled.update({ ...series, values: { done: add(queues.map((one) => one.done)), failed: add(queues.map((one) => one.failed)) } });
  charts.ready.update({ ...series, values: { ready: add(queues.map((one) => one.ready)) } });
}

function fillQueueChoice() {
  const names = trends.queues.map((one) => one.queue);
  const chosen = names.includes(choice.value) ? choice.value : "";
  renew(choice, names, () => [el("option", { value: "" }, t("dashboard.trend_all")), names.map((name) => el("option", { value: name }, name))]);
  choice.value = chosen;
}

async function read() {
  try {
    trends = (await api("GET", "/api/trends")).data;
    put(byId("trends-problem"), "");
    fillQueueChoice();
    show();
  } catch (error) {
    put(byId("trends-problem"), t("dashboard.trends_offline", { reason: explain(error) }));
  }
}

choice.addEventListener("change", show);
onOverview(({ queues, targets }) => {
  byId("targets-card").hidden = !targets.length;
  targetRows.update(targets, (one) => one.target);
  const names = queues.filter((one) => !one.chore && !one.people).map((one) => one.name);
  if (names.join() === [...workQueues].join()) return;
  workQueues = new Set(names);
  if (trends) show();
});
repeatWhileVisible(read, EVERY);
