// The list of batches: progress of each, kept up to date, and the form that submits a file.
import { api, byId, capital, el, empty, explain, flash, number, Problem, t } from "./base.js";
import { refsProgress, statusBadges } from "./batch_parts.js";
import { put } from "./charts.js";
import { liveList } from "./live_list.js";
import { localized } from "./messages.js";
import { liveAge, short, watch } from "./monitor.js";
import { renew } from "./rows.js";

const form = /** @type {HTMLFormElement | null} */ (byId("batch-form"));

/** The row of a batch, which is changed in place: the bar of its refs moves. */
function makeRow(batch) {
  const status = el("td", { class: "status-cell" }), progress = refsProgress(), chunks = el("span"), broken = el("span", { class: "text-bad small block" });
  const about = el("span", { class: "small muted cut" }), age = liveAge((seconds) => (seconds < 5 ? t("dashboard.just_now") : t("dashboard.ago", { time: short(seconds) })));
  const row = el("tr", { dataset: { row: batch.id } },
    el("td", { class: "batch-name" }, el("div", {}, el("a", { href: `/batches/${encodeURIComponent(batch.id)}`, class: "cut", title: batch.id }, batch.id), about)),
    status, el("td", { class: "progress-column" }, progress),
    el("td", { class: "number not-narrow nowrap" }, chunks, broken), el("td", { class: "right nowrap muted not-narrow" }, age));
  row.update = (one) => {
    renew(status, [one.status, one.closed_at], () => el("span", { class: "row badges" }, statusBadges(one).filter(Boolean)));
    progress.update(one);
    put(chunks, t("batch.of", { done: number(one.phases.DONE + one.phases.ERROR), total: number(one.total_chunks) }));
    put(broken, one.phases.ERROR ? t("batches.chunk_errors", { n: one.phases.ERROR, count: number(one.phases.ERROR) }) : "");
    put(about, [t("batches.entities", { n: one.total_pis, count: number(one.total_pis) }), one.submitted_by].filter(Boolean).join(" · "));
    age.update(one.created_at);
  };
  return row;
}

const list = liveList({ name: "batches", row: makeRow, nothing: () => empty("copy", t("batches.none"), t("batches.none_note")) });

// -- the form ----------------------------------------------------------------------------------------------------

/** What is wrong with the file, where, and what to do. */
function describeRefusal(error) {
  const problem = error instanceof Problem ? error.problem : {};
  const where = problem.field ? `${explain(error)} (${problem.field})` : explain(error);
  return problem.fix ? `${where}. ${capital(localized(problem, "fix"))}.` : where;
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const values = new FormData(form), file = /** @type {File} */ (values.get("file")), button = byId("submit");
  const query = new URLSearchParams();
  for (const name of ["batch_id", "callback_url", "chunk_size"]) if (String(values.get(name)).trim()) query.set(name, String(values.get(name)).trim());
  button.setAttribute("aria-busy", "true");
  put(button.lastElementChild, t("batches.submitting"));
  byId("refused").hidden = true;
  try {
    const { status, data: batch } = await api("POST", `/api/batches?${query}`, file, { headers: { "Content-Type": "application/x-ndjson" } });
    flash(status === 202 ? t("batches.submitted", { refs: number(batch.progress.total_refs) }) : t("batches.exists"), status === 202 ? "good" : "warn");
    location.assign(`/batches/${encodeURIComponent(batch.id)}`);
  } catch (error) {
    byId("refused").hidden = false;
    put(byId("refused"), describeRefusal(error));
  } finally {
    button.removeAttribute("aria-busy");
    put(button.lastElementChild, t("batches.submit"));
  }
});

watch(list.refresh);
