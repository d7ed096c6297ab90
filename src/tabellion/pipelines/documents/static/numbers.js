// How people work: per person and per field, for the days that are asked for.

import { api, byId, data as given, el, empty, explain, fieldTitle, number, percent, t, toast } from "./base.js";

const DAY = 86400000;
const USUAL = 30;
const ENDINGS = ["approved", "corrected", "rejected"];

// A day as its input writes it, in the time of this browser; the last day counts whole.
const written = (date) => `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
const begins = (text) => new Date(`${text}T00:00:00`);

/** A field by its title; types may call the same field differently: the first that says something counts. */
const title = (name) => Object.values(given.fields).map((fields) => fieldTitle(name, fields[name])).find((said) => said !== fieldTitle(name)) ?? fieldTitle(name);

let asked = 0;

function question() {
  const [since, until] = [byId("since").value, byId("until").value];
  const given = {};
  if (since) given.since = begins(since).toISOString();
  if (until) given.until = new Date(begins(until).getTime() + DAY).toISOString();
  return new URLSearchParams(given);
}

async function load() {
  const ours = ++asked;
  const wanted = question();
  byId("people-csv").href = `/api/review/numbers.csv?${wanted}`;
  byId("fields-csv").href = `/api/review/numbers.csv?${new URLSearchParams([...wanted, ["per", "field"]])}`;
  try {
    const { data } = await api("GET", `/api/review/numbers?${wanted}`);
    if (ours === asked) show(data);
  } catch (error) {
    if (ours === asked) toast(explain(error), "bad");
  }
}

function show({ people, totals, fields }) {
  const some = totals.documents > 0;
  byId("none").hidden = some;
  byId("none").replaceChildren(empty("numbers", t("numbers.empty"), t("numbers.empty_note")));
  byId("tables").hidden = !some;
  byId("tiles").hidden = !some;
  byId("tiles").replaceChildren(
    tile(number(totals.documents), t("numbers.of_documents", { n: totals.documents })),
    tile(rounded(totals.seconds.mean), t("numbers.of_seconds", { median: rounded(totals.seconds.median) })),
    tile(rounded(totals.keystrokes.mean), t("numbers.of_keystrokes")),
    tile(percent(totals.agreement), t("numbers.of_agreement")),
    tile(percent(totals.in_time), t("numbers.of_sla")),
  );
  const most = {
    documents: Math.max(...people.map((one) => one.documents), 1),
    seconds: Math.max(...people.map((one) => one.seconds.mean || 0), 1),
    keystrokes: Math.max(...people.map((one) => one.keystrokes.mean || 0), 1),
  };
  const busiest = [...people].sort((a, b) => b.documents - a.documents);
  byId("people").replaceChildren(...busiest.map((one) => line(one.name, one, most)));
  byId("all").replaceChildren(...(people.length > 1 ? [line(t("numbers.all"), totals, null)] : []));
  const worst = Math.max(...fields.map((one) => one.share || 0), 0.01);
  byId("fields").replaceChildren(...fields.map((one) => el("tr", {},
    el("th", { scope: "row", title: one.name }, title(one.name)),
    el("td", { class: "number" }, number(one.seen)),
    el("td", { class: "number" }, number(one.corrected)),
    el("td", {}, measured(percent(one.share), (one.share || 0) / worst, one.share > 0.1 ? "bad" : one.share > 0.03 ? "warn" : "")))));
}

const rounded = (value) => (value === null || value === undefined ? "–" : number(value, value < 10 ? 1 : 0));

const tile = (figure, words) => el("div", { class: "card figure" }, el("strong", {}, figure || "–"), el("span", {}, words));

const measured = (text, share, kind = "", note = null) =>
  el("div", { class: "measured" }, el("span", {}, text || "–", note && el("small", {}, note)), el("span", { class: `bar ${kind}` }, el("i", { style: { width: `${100 * Math.min(1, share || 0)}%` } })));

function line(name, one, most) {
  const corrections = Object.entries(one.corrections).sort((a, b) => b[1] - a[1]);
  const spread = (value, of) => measured(rounded(value.mean), of ? value.mean / of : 0, "", value.median === null ? null : t("numbers.median", { median: rounded(value.median) }));
  return el("tr", {},
    el("th", { scope: "row" }, name),
    el("td", {}, measured(number(one.documents), most ? one.documents / most.documents : 0)),
    el("td", {}, endings(one)),
    el("td", {}, spread(one.seconds, most?.seconds)),
    el("td", {}, spread(one.keystrokes, most?.keystrokes)),
    el("td", { class: "number", title: corrections.map(([field, count]) => `${title(field)}: ${count}`).join("\n") }, number(corrections.reduce((sum, [, count]) => sum + count, 0))),
    el("td", {}, measured(percent(one.agreement), one.agreement, "good")),
    el("td", {}, measured(percent(one.in_time), one.in_time, one.in_time < 0.9 ? "warn" : "good")));
}

function endings(one) {
  const parts = ENDINGS.map((ending) => el("i", { class: ending, style: { width: `${(100 * one[ending]) / (one.documents || 1)}%` } }));
  const words = ENDINGS.map((ending) => t(`numbers.ended_${ending}`, { n: one[ending] })).join(", ");
  return el("div", { class: "endings", title: words }, el("span", {}, ENDINGS.map((ending) => one[ending]).join(" · ")), el("span", { class: "pieces", role: "img", "aria-label": words }, parts));
}

function days(count) {
  const today = new Date();
  byId("until").value = written(today);
  byId("since").value = written(new Date(today.getTime() - (count - 1) * DAY));
  for (const button of document.querySelectorAll("[data-days]")) button.setAttribute("aria-pressed", String(Number(button.dataset.days) === count));
  load();
}

for (const button of document.querySelectorAll("[data-days]")) button.addEventListener("click", () => days(Number(button.dataset.days)));
for (const id of ["since", "until"])
  byId(id).addEventListener("change", () => {
    // A range that ends before it begins is meant as that one day.
    const other = byId(id === "since" ? "until" : "since");
    if (byId("since").value > byId("until").value && byId(id).value && other.value) other.value = byId(id).value;
    for (const button of document.querySelectorAll("[data-days]")) button.setAttribute("aria-pressed", "false");
    load();
  });
days(USUAL);
