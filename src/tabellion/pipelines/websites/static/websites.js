// Websites: the form that submits one, the live phases with their slots, and the list of jobs.
import { ago, api, byId, data, duration, el, empty, events, explain, liveMark, moment, notice, number, percent, Problem, t, toast } from "./base.js";
import { localized } from "./messages.js";
import { bars, grade, status } from "./website_states.js";

const form = /** @type {HTMLFormElement | null} */ (byId("website-form"));
const filters = /** @type {HTMLFormElement} */ (byId("filters"));
const body = byId("rows"), MOST_SLOTS = 60;
const chosen = new Set();
const site = new URLSearchParams(location.search).get("url");
let due = 0, next = null, shown = 50;

function address(cursor) {
  const query = new URLSearchParams(Object.fromEntries([...new FormData(filters)].map(([name, value]) => [name, String(value)]).filter(([, value]) => value)));
  if (site) query.set("url", site);
  query.set("limit", String(Math.min(shown, 200)));
  if (cursor) query.set("cursor", cursor);
  return `/api/websites?${query}`;
}

function reason(website) {
  const failed = website.phases.find((phase) => phase.state === "failed");
  if (failed?.error) return el("span", { class: "small text-bad cut", title: failed.error }, localized(failed, "error"));
  const running = website.phases.find((phase) => phase.note);
  if (running) return el("span", { class: "small muted cut" }, localized(running, "note"));
  const summary = website.results.find((one) => one.summary)?.summary;
  return summary ? el("span", { class: "small muted cut", title: localized(summary, "value") }, localized(summary, "value")) : null;
}

function drawRow(website) {
  const score = website.results.find((one) => typeof one.score === "number")?.score;
  const box = el("input", { type: "checkbox", value: website.id, "aria-label": t("websites.choose", { name: website.title || website.url }), checked: chosen.has(website.id), onchange: choose });
  return el("tr", { dataset: { row: website.id } },
    el("td", {}, box),
    el("td", { class: "name" }, el("div", {}, el("div", { class: "site-name" },
      el("a", { href: `/websites/${encodeURIComponent(website.id)}`, class: "cut", title: website.url }, website.title || website.url),
      el("span", { class: "small muted cut" }, website.normalized_url), reason(website)))),
    el("td", { class: "not-narrow nowrap" }, data.types[website.type] ?? website.type),
    el("td", { class: "nowrap" }, bars(website), status(website)),
    el("td", { class: "number" }, score === undefined ? "" : el("span", { class: `score-text ${grade(score)}` }, number(score))),
    el("td", { class: "right nowrap muted not-narrow", title: moment(website.created_at) }, ago(website.created_at)));
}

function choose(event) {
  const box = event.target;
  if (box.checked) chosen.add(box.value);
  else chosen.delete(box.value);
  /** @type {HTMLButtonElement} */ (byId("compare")).disabled = chosen.size !== 2;
}

function drawPhase(phase) {
  const { idle, busy, error } = phase.slots;
  const slots = [...Array(busy).fill("busy"), ...Array(error).fill("error"), ...Array(idle).fill("idle")].slice(0, MOST_SLOTS);
  const label = t("websites.slots", { idle, busy, error });
  return el("div", { class: "phase" },
    el("h3", {}, t(`websites.phase_${phase.name}`), phase.ready ? el("span", { class: "badge idle" }, t("websites.waiting", { n: phase.ready })) : null),
    el("div", { class: "slots", role: "img", "aria-label": label, title: label }, slots.map((state) => el("i", { class: state })), slots.length ? null : el("span", { class: "small text-warn" }, t("websites.no_worker"))),
    el("dl", {},
      el("dt", {}, t("websites.time")), el("dd", {}, phase.seconds === null ? "–" : duration(phase.seconds)),
      el("dt", {}, t("websites.success")), el("dd", {}, phase.success_rate === null ? "–" : percent(phase.success_rate)),
      el("dt", {}, t("websites.retries")), el("dd", {}, number(phase.retries))));
}

async function load() {
  try {
    const [{ data: list }, { data: health }] = await Promise.all([api("GET", address(null)), api("GET", "/api/websites/health")]);
    byId("trouble").hidden = true;
    body.replaceChildren(...list.websites.map(drawRow));
    body.setAttribute("aria-busy", "false");
    next = list.next;
    byId("pager").hidden = !next;
    byId("nothing").hidden = list.websites.length > 0;
    byId("nothing").replaceChildren(empty("link", t("websites.none"), t("websites.none_note")));
    const phases = health.phases.filter((phase) => phase.name !== "website-models" || phase.ready || phase.running || phase.done);
    byId("phases").replaceChildren(...phases.map(drawPhase));
    byId("phases").setAttribute("aria-busy", "false");
  } catch (error) {
    byId("trouble").hidden = false;
    byId("trouble").replaceChildren(notice("bad", "stop", explain(error)));
  }
}

async function loadMore() {
  try {
    const { data: list } = await api("GET", address(next));
    body.append(...list.websites.map(drawRow));
    shown += list.websites.length;
    next = list.next;
    byId("pager").hidden = !next;
  } catch (error) {
    toast(explain(error), "bad");
  }
}

function refresh() {
  due ||= setTimeout(async () => { await load(); due = 0; }, 700);
}

function showRefusal(error) {
  const existing = error instanceof Problem ? error.problem.existing : null;
  byId("refused").hidden = false;
  byId("refused").replaceChildren(explain(error), existing ? " " : "", existing ? el("a", { href: `/websites/${encodeURIComponent(existing.id)}` }, t("websites.existing")) : "");
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const language = document.documentElement.lang === "fr" ? "fr" : "en";
    await api("POST", "/api/websites", { url: values.url, type: values.type, models: values.model ? [values.model] : [], language });
    byId("refused").hidden = true;
    form.reset();
    await load();
  } catch (error) {
    showRefusal(error);
  } finally {
    button.disabled = false;
  }
});
if (form) /** @type {HTMLSelectElement} */ (byId("type")).value = data.default;
filters.addEventListener("input", () => load());
byId("more").addEventListener("click", loadMore);
byId("compare").addEventListener("click", () => {
  const [a, b] = [...chosen].sort();
  location.assign(`/websites/compare?${new URLSearchParams({ a, b })}`);
});
body.addEventListener("click", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.closest("a, input") || getSelection().toString()) return;
  target.closest("tr")?.querySelector("a")?.click();
});
events("/api/overview/events", { overview: refresh }, liveMark(load));
load();
