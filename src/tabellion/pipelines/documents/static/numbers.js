// Review statistics per person and per field, for the chosen days.

import { api, byId, data as pageData, el, empty, explain, fieldTitle, number, percent, t, toast } from "./base.js";
import { addDays, dayOf, startOf } from "./days.js";

const USUAL = 30;
const ENDINGS = ["approved", "corrected", "rejected"];

/** The title of a field; types may give it different ones: the first that is not the default counts. */
const title = (name) => Object.values(pageData.fields).map((fields) => fieldTitle(name, fields[name])).find((known) => known !== fieldTitle(name)) ?? fieldTitle(name);

let requests = 0;

function buildQuery() {
  const [since, until] = [byId("since").value, byId("until").value];
  const query = {};
  if (since) query.since = startOf(since).toISOString();
  if (until) query.until = addDays(startOf(until), 1).toISOString(); // the last day is included
  return new URLSearchParams(query);
}

async function load() {
  const request = ++requests;
  const query = buildQuery();
  byId("people-csv").href = `/api/review/numbers.csv?${query}`;
  byId("fields-csv").href = `/api/review/numbers.csv?${new URLSearchParams([...query, ["per", "field"]])}`;
  try {
    const { data } = await api("GET", `/api/review/numbers?${query}`);
    if (request === requests) show(data);
  } catch (error) {
    if (request === requests) toast(explain(error), "bad");
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
    tile(roundValue(totals.seconds.mean), t("numbers.of_seconds", { median: roundValue(totals.seconds.median) })),
    tile(roundValue(totals.keystrokes.mean), t("numbers.of_keystrokes")),
    tile(percent(totals.agreement), t("numbers.of_agreement")),
    tile(percent(totals.in_time), t("numbers.of_sla")),
  );
  const most = {
    documents: Math.max(...people.map((person) => person.documents), 1),
    seconds: Math.max(...people.map((person) => person.seconds.mean || 0), 1),
    keystrokes: Math.max(...people.map((person) => person.keystrokes.mean || 0), 1),
  };
  const busiest = [...people].sort((a, b) => b.documents - a.documents);
  byId("people").replaceChildren(...busiest.map((person) => personRow(person.name, person, most)));
  byId("all").replaceChildren(...(people.length > 1 ? [personRow(t("numbers.all"), totals, null)] : []));
  const worst = Math.max(...fields.map((field) => field.share || 0), 0.01);
  byId("fields").replaceChildren(...fields.map((field) => el("tr", {},
    el("th", { scope: "row", title: field.name }, title(field.name)),
    el("td", { class: "number" }, number(field.seen)),
    el("td", { class: "number" }, number(field.corrected)),
    el("td", {}, barCell(percent(field.share), (field.share || 0) / worst, field.share > 0.1 ? "bad" : field.share > 0.03 ? "warn" : "")))));
}

const roundValue = (value) => (value === null || value === undefined ? "–" : number(value, value < 10 ? 1 : 0));

const tile = (figure, words) => el("div", { class: "card figure" }, el("strong", {}, figure || "–"), el("span", {}, words));

const barCell = (text, share, kind = "", note = null) =>
  el("div", { class: "measured" }, el("span", {}, text || "–", note && el("small", {}, note)), el("span", { class: `bar ${kind}` }, el("i", { style: { width: `${100 * Math.min(1, share || 0)}%` } })));

function personRow(name, sums, most) {
  const corrections = Object.entries(sums.corrections).sort((a, b) => b[1] - a[1]);
  const spread = (value, of) => barCell(roundValue(value.mean), of ? value.mean / of : 0, "", value.median === null ? null : t("numbers.median", { median: roundValue(value.median) }));
  return el("tr", {},
    el("th", { scope: "row" }, name),
    el("td", {}, barCell(number(sums.documents), most ? sums.documents / most.documents : 0)),
    el("td", {}, endingsCell(sums)),
    el("td", {}, spread(sums.seconds, most?.seconds)),
    el("td", {}, spread(sums.keystrokes, most?.keystrokes)),
    el("td", { class: "number", title: corrections.map(([field, count]) => `${title(field)}: ${count}`).join("\n") }, number(corrections.reduce((sum, [, count]) => sum + count, 0))),
    el("td", {}, barCell(percent(sums.agreement), sums.agreement, "good")),
    el("td", {}, barCell(percent(sums.in_time), sums.in_time, sums.in_time < 0.9 ? "warn" : "good")));
}

function endingsCell(sums) {
  const parts = ENDINGS.map((ending) => el("i", { class: ending, style: { width: `${(100 * sums[ending]) / (sums.documents || 1)}%` } }));
  const words = ENDINGS.map((ending) => t(`numbers.ended_${ending}`, { n: sums[ending] })).join(", ");
  return el("div", { class: "endings", title: words }, el("span", {}, ENDINGS.map((ending) => sums[ending]).join(" · ")), el("span", { class: "pieces", role: "img", "aria-label": words }, parts));
}

function showLastDays(count) {
  const today = new Date();
  byId("until").value = dayOf(today);
  byId("since").value = dayOf(addDays(today, 1 - count));
  for (const button of document.querySelectorAll("[data-days]")) button.setAttribute("aria-pressed", String(Number(button.dataset.days) === count));
  load();
}

for (const button of document.querySelectorAll("[data-days]")) button.addEventListener("click", () => showLastDays(Number(button.dataset.days)));
for (const id of ["since", "until"])
  byId(id).addEventListener("change", () => {
    // A range that would end before it begins becomes that one day.
    const other = byId(id === "since" ? "until" : "since");
    if (byId("since").value > byId("until").value && byId(id).value && other.value) other.value = byId(id).value;
    for (const button of document.querySelectorAll("[data-days]")) button.setAttribute("aria-pressed", "false");
    load();
  });
showLastDays(USUAL);
