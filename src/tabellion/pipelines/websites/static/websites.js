// Websites: the form that submits one, the live phases with their slots, and the list of jobs.
import { ago, api, byId, data, duration, el, empty, events, explain, liveMark, moment, number, percent, Problem, t } from "./base.js";
import { liveList } from "./live_list.js";
import { localized } from "./messages.js";
import { bars, grade, status } from "./website_states.js";

const form = /** @type {HTMLFormElement | null} */ (byId("website-form"));
const MOST_SLOTS = 60;
const chosen = new Set();
const site = new URLSearchParams(location.search).get("url");

function reason(website) {
  const failed = website.phases.find((phase) => phase.state === "failed");
  const error = failed && localized(failed, "error");
  if (error) return el("span", { class: "small text-bad cut", title: error }, error);
  const running = website.phases.find((phase) => phase.note);
  if (running) return el("span", { class: "small muted cut" }, localized(running, "note"));
  const summary = website.results.find((one) => one.summary)?.summary;
  return summary ? el("span", { class: "small muted cut", title: localized(summary, "value") }, localized(summary, "value")) : null;
}

function cells(website) {
  const score = website.results.find((one) => typeof one.score === "number")?.score;
  const box = el("input", { type: "checkbox", value: website.id, "aria-label": t("websites.choose", { name: website.title || website.url }), checked: chosen.has(website.id), onchange: choose });
  return [
    el("td", {}, box),
    el("td", { class: "name" }, el("div", {}, el("div", { class: "site-name" },
      el("a", { href: `/websites/${encodeURIComponent(website.id)}`, class: "cut", title: website.url }, website.title || website.url),
      el("span", { class: "small muted cut" }, website.normalized_url), reason(website)))),
    el("td", { class: "not-narrow nowrap" }, data.types[website.type] ?? website.type),
    el("td", { class: "nowrap" }, bars(website), status(website)),
    el("td", { class: "number" }, score === undefined ? "" : el("span", { class: `score-text ${grade(score)}` }, number(score))),
    el("td", { class: "right nowrap muted not-narrow", title: moment(website.created_at), dataset: { at: website.created_at ?? "" } }, ago(website.created_at)),
  ];
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

async function loadPhases() {
  const { data: health } = await api("GET", "/api/websites/health");
  const phases = health.phases.filter((phase) => phase.name !== "website-models" || phase.ready || phase.running || phase.done);
  byId("phases").replaceChildren(...phases.map(drawPhase));
  byId("phases").setAttribute("aria-busy", "false");
}

const list = liveList({
  name: "websites", cells, fixed: site ? { url: site } : {}, beside: loadPhases,
  nothing: () => empty("link", t("websites.none"), t("websites.none_note")),
});

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
    list.refresh();
  } catch (error) {
    showRefusal(error);
  } finally {
    button.disabled = false;
  }
});
if (form) /** @type {HTMLSelectElement} */ (byId("type")).value = data.default;
byId("compare").addEventListener("click", () => {
  const [a, b] = [...chosen].sort();
  location.assign(`/websites/compare?${new URLSearchParams({ a, b })}`);
});
events("/api/overview/events", { overview: list.refresh }, liveMark(list.refresh));
