// The workers of all environments, for admins: read again every few seconds while the page is visible.

import { api, byId, el, explain, moment, number, t } from "./base.js";
import { put } from "./charts.js";
import { localized } from "./messages.js";
import { liveAge, breakable, repeatWhileVisible, short } from "./monitor.js";
import { renew, Rows } from "./rows.js";

const EVERY = 5000; // milliseconds

const since = () => liveAge((seconds) => (seconds === null ? "–" : t("dashboard.ago", { time: short(seconds) })));

const rows = new Rows(byId("all-workers"), (worker) => {
  const jobs = el("td", { class: "right" }), note = el("td", { class: "note-cell" }), oldest = since(), newest = since();
  const name = worker.worker ?? t("dashboard.all_workers_unnamed");
  const row = el("tr", {},
    el("td", { class: "nowrap" }, worker.environment),
    el("td", { class: "worker-name" }, el("span", { class: "cut block", title: name }, name), worker.registered ? null : el("span", { class: "muted small block" }, t("dashboard.all_workers_outside"))),
    el("td", {}, worker.queue === null ? el("span", { class: "muted" }, t("dashboard.all_workers_idle")) : breakable(worker.queue)),
    jobs, el("td", { class: "right nowrap" }, oldest), el("td", { class: "right nowrap" }, newest), note);
  row.update = (worker) => {
    const { oldest_at, newest_at } = worker;
    put(jobs, number(worker.jobs));
    put(note, localized(worker, "note"));
    for (const [element, at] of [[oldest, oldest_at], [newest, newest_at]]) {
      element.update(at);
      element.title = moment(at);
    }
  };
  return row;
});

function show({ workers, problems }) {
  rows.update(workers, (one) => JSON.stringify([one.environment, one.worker, one.queue, one.registered]));
  byId("all-workers-table").hidden = !workers.length;
  byId("all-workers-none").hidden = Boolean(workers.length);
  say(problems.map(({ environment, problem }) => t(`dashboard.all_workers_${problem}`, { environment })));
}

const say = (lines) => renew(byId("all-workers-problems"), lines, () => lines.map((line) => el("p", { class: "line text-warn" }, line)));

async function read() {
  try {
    show((await api("GET", "/api/active-workers")).data);
  } catch (error) {
    say([t("dashboard.all_workers_offline", { reason: explain(error) })]);
  }
}

repeatWhileVisible(read, EVERY);
