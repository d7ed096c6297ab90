// What the dashboard and the page of a queue have in common: live news, ages that count on, rows that stay, actions.

import { api, badge, byId, confirm, data, duration, el, events, explain, field, formDialog, language, number, t, toast } from "./base.js";
import { localized } from "./messages.js";
import { put } from "./charts.js";

let ahead = 0; // how far the server's clock is ahead of this machine's, in milliseconds

/** The server's time. */
export const now = () => Date.now() + ahead;

// -- ages that count on ------------------------------------------------------------------------------------------

const ageing = new Set();

/** An element that tells a moment and goes on telling it: `write` gets the seconds since then. */
export function aged(write, attributes = {}) {
  const made = el("time", attributes);
  made.update = (at) => {
    made.at = at ? new Date(at).getTime() : null;
    if (at) made.setAttribute("datetime", at);
    else made.removeAttribute("datetime");
    made.tick();
  };
  made.tick = () => put(made, made.at === null || made.at === undefined ? write(null) : write((now() - made.at) / 1000));
  ageing.add(new WeakRef(made));
  return made;
}

setInterval(() => {
  for (const one of ageing) {
    const made = one.deref();
    if (made === undefined) ageing.delete(one);
    else if (made.isConnected) made.tick();
  }
}, 1000);

// -- live --------------------------------------------------------------------------------------------------------

const CLOCK = new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
const PATIENCE = 2500; // milliseconds without a connection before anybody is alarmed

/** Hears every change. What is on the page when the connection is lost stays there, under a banner that says so. */
export function watch(hear) {
  const live = byId("live"), banner = byId("stale");
  let seen = null, timer = 0;
  const say = (kind, word) => {
    live.className = `live live-${kind}`;
    put(live.lastElementChild, word);
  };
  const down = (word) => {
    clearTimeout(timer);
    timer = 0;
    say("down", t("base.not_live"));
    banner.hidden = false;
    put(banner.lastElementChild, t(word, { at: seen ? CLOCK.format(seen) : "–" }));
  };
  const heard = (picture) => {
    clearTimeout(timer);
    timer = 0;
    banner.hidden = true;
    say("up", t("base.live"));
    ahead = Math.abs(Date.parse(picture.at) - Date.now()) > 2000 ? Date.parse(picture.at) - Date.now() : 0;
    seen = new Date();
    hear(picture);
  };
  if (data.overview) hear(data.overview);
  events("/api/overview/events", { overview: heard, trouble: () => down("dashboard.database_away") }, {
    ondown: () => { timer ||= setTimeout(() => down("dashboard.stale"), PATIENCE); },
  });
}

// -- rows that stay ----------------------------------------------------------------------------------------------

/** The rows of a table by key: a row that is there already is changed in place, so that nothing jumps or flickers. */
export class Rows {
  constructor(body, make) {
    this.body = body;
    this.make = make;
    this.known = new Map();
  }

  update(items, key) {
    const wanted = new Set(items.map(key));
    for (const [name, row] of this.known) {
      if (!wanted.has(name)) {
        row.remove();
        this.known.delete(name);
      }
    }
    let after = null;
    for (const item of items) {
      let row = this.known.get(key(item));
      if (row === undefined) {
        row = this.make(item);
        this.known.set(key(item), row);
      }
      row.update(item);
      const place = after ? after.nextElementSibling : this.body.firstElementChild;
      if (place !== row) this.body.insertBefore(row, place);
      after = row;
    }
  }
}

/** Children that are made anew only when what they tell is another. */
export function renew(host, told, make) {
  const mark = JSON.stringify(told);
  if (host.mark === mark) return;
  host.mark = mark;
  host.replaceChildren(...[make(told)].flat(Infinity).filter(Boolean));
}

// -- how things are written --------------------------------------------------------------------------------------

/** A count; where there are more rows than were counted, with a plus. */
export const count = (queue, state) => `${number(queue[state])}${queue.more.includes(state) ? "+" : ""}`;

/** How long ago, short: "4 s", "3 min". */
export const short = (seconds) => (seconds === null ? "–" : duration(Math.max(1, Math.floor(seconds))));

/** Whether people work it: they are counted apart, and no worker is missed. */
export const byPeople = (queue) => queue.table === "review_items";

/** What stands in a queue's way, each as a badge. */
export function hindrances(queue) {
  const found = [];
  if (queue.problem) found.push(badge("bad", "stop", t("dashboard.broken"), queue.problem));
  if (queue.paused) found.push(badge("warn", "pause", t("dashboard.paused"), queue.reason ?? ""));
  if (queue.gate?.state === "closed") found.push(badge("bad", "lock", t("dashboard.gate_closed"), localized(queue.gate, "reason")));
  if (!queue.workers && !byPeople(queue) && !queue.problem) found.push(badge("idle", "minus", t("dashboard.no_worker")));
  if (queue.foreign) found.push(badge("warn", "warn", t("dashboard.foreign", { n: queue.foreign })));
  return found;
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
    [el("p", { class: "muted" }, t("dashboard.pause_text")), field(t("dashboard.reason"), reason, t("dashboard.reason_hint"))],
    t("dashboard.pause"), async (values) => {
      await api("POST", `${path}/pause`, { reason: values.reason.trim() });
      toast(t("dashboard.paused_now", { queue: queue.name }), "good");
    });
}

/** Tries rows again, after a question where they are many. True: they are ready again. */
export async function retry(queue, wanted, n, shape) {
  const title = t("queue_detail.retry_title", { n: number(n) });
  if (shape !== undefined && !(await confirm(n === 1 ? t("queue_detail.retry_title_one") : title, t("queue_detail.retry_text", { shape: shape || t("queue_detail.no_word") }),
    n === 1 ? t("queue_detail.retry_one") : t("queue_detail.retry_these", { n: number(n) })))) return false;
  try {
    const { data: told } = await api("POST", `/api/queues/${encodeURIComponent(queue)}/retry`, wanted);
    toast(t("queue_detail.retried", { n: told.retried, count: number(told.retried) }), told.retried ? "good" : "warn");
    return true;
  } catch (error) {
    toast(explain(error), "bad");
    return false;
  }
}

/** A name that may be broken after its underscores, and not within its words. */
export const breakable = (name) => name.split(/(?<=_)/).flatMap((part, place) => (place ? [el("wbr"), part] : [part]));

/** The link to a queue's page. */
export const queuePath = (name) => `/queues/${encodeURIComponent(name)}`;

