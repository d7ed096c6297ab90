// Shared by the dashboard and the page of a queue: the live overview, ages that keep counting, actions.

import { api, badge, byId, confirm, data, duration, el, events, explain, field, formDialog, language, number, t, toast } from "./base.js";
import { localized } from "./messages.js";
import { put } from "./charts.js";
import { renew } from "./rows.js";

let ahead = 0; // how far the server's clock is ahead of this machine's, in milliseconds

/** The server's time. */
export const now = () => Date.now() + ahead;

// -- ages that count on ------------------------------------------------------------------------------------------

const ageing = new Set();

/** An element that shows the age of a time and is updated every second: `write` gets the seconds since then. */
export function liveAge(write, attributes = {}) {
  const element = el("time", attributes);
  element.update = (at) => {
    element.at = at ? new Date(at).getTime() : null;
    if (at) element.setAttribute("datetime", at);
    else element.removeAttribute("datetime");
    element.tick();
  };
  element.tick = () => put(element, element.at === null || element.at === undefined ? write(null) : write((now() - element.at) / 1000));
  ageing.add(new WeakRef(element));
  return element;
}

setInterval(() => {
  for (const reference of ageing) {
    const element = reference.deref();
    if (element === undefined) ageing.delete(reference);
    else if (element.isConnected) element.tick();
  }
}, 1000);

// -- live --------------------------------------------------------------------------------------------------------

const CLOCK = new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
const PATIENCE = 2500; // milliseconds without a connection before it is shown

/** Calls `show` with every new overview. When the connection is lost, the page stays as it is, under a banner that says so. */
export function watch(show) {
  const live = byId("live"), banner = byId("stale");
  let receivedAt = null, timer = 0;
  const say = (kind, word) => {
    live.className = `live live-${kind}`;
    put(live.lastElementChild, word);
  };
  const showDown = (word) => {
    clearTimeout(timer);
    timer = 0;
    say("down", t("base.not_live"));
    banner.hidden = false;
    put(banner.lastElementChild, t(word, { at: receivedAt ? CLOCK.format(receivedAt) : "–" }));
  };
  const onOverview = (picture) => {
    clearTimeout(timer);
    timer = 0;
    banner.hidden = true;
    say("up", t("base.live"));
    ahead = Math.abs(Date.parse(picture.at) - Date.now()) > 2000 ? Date.parse(picture.at) - Date.now() : 0;
    receivedAt = new Date();
    show(picture);
  };
  if (data.overview) show(data.overview);
  events("/api/overview/events", { overview: onOverview, trouble: () => showDown("dashboard.unreadable") }, {
    ondown: () => { timer ||= setTimeout(() => showDown("dashboard.stale"), PATIENCE); },
  });
}

// -- how things are written --------------------------------------------------------------------------------------

const MOST_FOREIGN = 1000; // rows that are counted

/** A count; with a plus if there are more rows than were counted. */
export const count = (queue, state) => `${number(queue[state])}${queue.more.includes(state) ? "+" : ""}`;

/** How long ago, short: "4 s", "3 min". */
export const short = (seconds) => (seconds === null ? "–" : duration(Math.max(1, Math.floor(seconds))));

/** Shows badges for everything that keeps a queue from working. */
export function showHindrances(host, queue) {
  const foreign = `${number(queue.foreign)}${queue.foreign >= MOST_FOREIGN ? "+" : ""}`;
  renew(host, [queue.paused, queue.reason, queue.gate, queue.workers > 0, queue.people, queue.foreign, queue.problem], () => [
    queue.problem && badge("bad", "stop", t("dashboard.broken"), queue.problem),
    queue.paused && badge("warn", "pause", t("dashboard.paused"), queue.reason ?? ""),
    queue.gate?.state === "closed" && badge("bad", "lock", t("dashboard.gate_closed"), localized(queue.gate, "reason")),
    !queue.workers && !queue.people && !queue.problem && badge("idle", "minus", t("dashboard.no_worker")),
    queue.foreign && badge("warn", "warn", t("dashboard.foreign", { n: foreign })),
  ]);
}

// -- actions -----------------------------------------------------------------------------------------------------

/** Asks for a reason and pauses, or resumes at once. */
export async function pauseOrResume(queue) {
  const path = `/api/queues/${encodeURIComponent(queue.name)}`;
  if (queue.paused) {
    try {
      await api("POST", `${path}/resume`);
      toast(t("dashboard.resumed", { queue: queue.name }), "good");
    } catch (error) {
      toast(explain(error), "bad");
    }
    return;
  }
  const reason = el("input", { name: "reason", maxlength: 500, autocomplete: "off" });
  await formDialog(t("dashboard.pause_title", { queue: queue.name }),
    [el("p", { class: "muted" }, t("dashboard.pause_text")), field(t("base.reason"), reason, t("dashboard.reason_hint"))],
    t("dashboard.pause"), async (values) => {
      await api("POST", `${path}/pause`, { reason: values.reason.trim() });
      toast(t("dashboard.paused_now", { queue: queue.name }), "good");
    });
}

/** Retries rows; with `shape`, asks for confirmation. Resolves to whether the request was made. */
export async function retry(queue, selection, n, shape) {
  const title = t("queue_detail.retry_title", { n: number(n) });
  if (shape !== undefined && !(await confirm(n === 1 ? t("queue_detail.retry_title_one") : title, t("queue_detail.retry_text", { shape: shape || t("queue_detail.no_word") }),
    n === 1 ? t("queue_detail.retry_one") : t("queue_detail.retry_these", { n: number(n) })))) return false;
  try {
    const { data: result } = await api("POST", `/api/queues/${encodeURIComponent(queue)}/retry`, selection);
    toast(t("queue_detail.retried", { n: result.retried, count: number(result.retried) }), result.retried ? "good" : "warn");
    return true;
  } catch (error) {
    toast(explain(error), "bad");
    return false;
  }
}

/** A name that may be wrapped after its underscores only. */
export const breakable = (name) => name.split(/(?<=_)/).flatMap((part, place) => (place ? [el("wbr"), part] : [part]));

/** The link to a queue's page. */
export const queuePath = (name) => `/queues/${encodeURIComponent(name)}`;

/** Calls an asynchronous function now and every so many milliseconds, while the page is visible. */
export function repeatWhileVisible(run, every) {
  let timer = 0;
  async function turn() {
    clearTimeout(timer);
    timer = 0;
    if (document.hidden) return; // it runs when the page is visible again
    await run();
    clearTimeout(timer);
    timer = setTimeout(turn, every);
  }
  document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
  turn();
}
