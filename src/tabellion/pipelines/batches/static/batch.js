// One batch: progress with throughput and remaining time, failing refs by error, chunks, the gate, and actions.
import { api, byId, capital, confirm, data, duration, el, explain, keys, may, moment, notice, number, rowKeys, t, toast } from "./base.js";
import { connect, loadChunks, showPhases } from "./batch_chunks.js";
import { gateNotice, showGate, showQueues } from "./batch_gate.js";
import { Pace } from "./batch_pace.js";
import { hasEnded, isFinal, parts, refsBar, statusBadges } from "./batch_parts.js";
import { put, formatShare } from "./charts.js";
import { localized } from "./messages.js";
import { now, short, showHindrances, watch } from "./monitor.js";
import { renew, Rows } from "./rows.js";

// Milliseconds between two samples: while the batch is worked on, if it is so large that counting its refs takes time, and after its end.
const BUSY = 1000, LARGE = 3000, IDLE = 10000, MANY = 20000;
const path = `/api/batches/${encodeURIComponent(data.id)}`;
const operator = may("operator"), pace = new Pace(), bar = refsBar("large");
let batch = data.batch, gate = null, loaded = null, timer = 0, trouble = null, loading = false;

// -- progress ----------------------------------------------------------------------------------------------------

function showProgress() {
  const { progress } = batch, ended = progress.completed + progress.failed;
  bar.update(batch);
  put(byId("share"), progress.total_refs ? formatShare(ended / progress.total_refs) : "–");
  put(byId("share-of"), t("batch.share_of", { ended: number(ended), n: progress.total_refs, total: number(progress.total_refs) }));
  renew(byId("counts"), parts(batch), (all) => all.map(([name, count]) => el("div", { class: `count ${name}${count ? "" : " none"}` },
    el("dt", {}, el("i", { "aria-hidden": "true" }), t(`batch.part_${name}`)), el("dd", {}, number(count)))));
  const since = (Date.parse(batch.completed_at ?? "") || now()) / 1000 - Date.parse(batch.created_at) / 1000;
  const facts = hasEnded(batch)
    ? batch.completed_at ? [[t("batch.took"), duration(since)]] : []
    : [[t("batch.throughput"), refsPerSecond(pace.rate)], [t("batch.remaining"), remaining(progress.pending)], [t("batch.since"), short(since)]];
  facts.push([t("batches.chunks"), t("batch.of", { done: number(batch.phases.DONE + batch.phases.ERROR), total: number(batch.total_chunks) })]);
  renew(byId("paces"), facts, () => facts.map(([word, text]) => el("div", { class: "figure" }, el("dt", {}, word), el("dd", {}, text))));
}

const refsPerSecond = (rate) => (rate === null ? "–" : t("batch.refs_per_second", { rate: number(rate, rate < 10 ? 1 : 0) }));

function remaining(pending) {
  const seconds = pace.remaining(pending);
  return seconds === null ? "–" : t("batch.about_time", { time: duration(Math.max(1, Math.round(seconds))) });
}

// -- what is known -----------------------------------------------------------------------------------------------

function showAbout() {
  renew(byId("badges"), [batch.status, batch.closed_at], () => statusBadges(batch));
  renew(byId("about"), [batch.total_pis, batch.duplicates, batch.completed_at, batch.closed_at], () => [
    [t("batch.entities"), number(batch.total_pis)],
    [t("batch.refs"), number(batch.progress.total_refs)],
    batch.duplicates && [t("batch.duplicates"), number(batch.duplicates)],
    batch.chunk_size && [t("batch.chunk_size"), number(batch.chunk_size)],
    batch.callback_url && [t("batch.callback_url"), el("code", {}, batch.callback_url)],
    batch.submitted_by && [t("batch.submitted_by"), batch.submitted_by],
    [t("batch.created"), moment(batch.created_at)],
    batch.completed_at && [t("batch.completed"), moment(batch.completed_at)],
    batch.closed_at && [t("batch.closed"), moment(batch.closed_at)],
  ].filter(Boolean).flatMap(([word, content]) => [el("dt", {}, word), el("dd", {}, content)]));
}

function showNotices() {
  const closed = gateNotice(batch.rate_limiter, gate);
  renew(byId("notices"), [trouble, closed?.facts], () => [trouble && notice("bad", "stop", trouble), closed?.make()]);
}

function showActions() {
  if (!operator) return;
  const ended = batch.phases.DONE + batch.phases.ERROR > 0;
  byId("retry").hidden = !ended || !(batch.progress.failed || batch.phases.ERROR || batch.status === "incomplete");
  byId("close").hidden = Boolean(batch.closed_at) || !hasEnded(batch);
}

// -- errors ------------------------------------------------------------------------------------------------------

const errorRows = new Rows(byId("errors"), () => {
  const many = el("td", { class: "number strong" }), text = el("span", { class: "shape" }), examples = el("ul", { class: "examples small muted" });
  const row = el("tr", {}, many, el("td", {}, text, examples));
  row.update = (error) => {
    put(many, number(error.refs));
    put(text, capital(localized(error, "error")) || t("batch.no_text"));
    renew(examples, [error.examples, error.refs], () => [
      ...error.examples.map((one) => el("li", {}, t("batch.example", { pi: one.pi, filename: one.filename, chunk: one.chunk_id }))),
      error.refs > error.examples.length ? el("li", {}, t("batch.more_refs", { n: error.refs - error.examples.length, count: number(error.refs - error.examples.length) })) : null,
    ]);
  };
  return row;
});

function showErrors(errors) {
  const listed = errors.reduce((sum, error) => sum + error.refs, 0);
  byId("errors-card").hidden = !errors.length;
  errorRows.update(errors, (error) => error.error);
  put(byId("errors-note"), batch.progress.failed > listed && errors.length ? t("batch.other_errors", { n: batch.progress.failed - listed, count: number(batch.progress.failed - listed) }) : "");
}

// -- live --------------------------------------------------------------------------------------------------------

/** Draws what is known of the batch; `sampled`: whether it was just read, so that the graph gets a sample. */
function show(sampled) {
  if (sampled) {
    pace.add(now() / 1000, batch.progress.completed + batch.progress.failed);
    showGate(batch.rate_limiter, gate, pace.current);
  }
  showProgress();
  showPhases(batch);
  showAbout();
  showNotices();
  showActions();
}

/** Reads the batch, and chunks and errors if something has changed or may have: callbacks are delivered after the end. */
async function load() {
  if (loading) return;
  loading = true;
  clearTimeout(timer);
  try {
    const { data: current } = await api("GET", path);
    batch = current;
    trouble = null;
    show(true);
    const mark = JSON.stringify([batch.progress, batch.phases, batch.skipped, batch.status]);
    if (mark !== loaded || hasEnded(batch)) {
      const [{ data: found }] = await Promise.all([batch.progress.failed ? api("GET", `${path}/errors`) : { data: { errors: [] } }, loadChunks()]);
      showErrors(found.errors);
      loaded = mark;
    }
  } catch (error) {
    trouble = explain(error);
    showNotices();
  } finally {
    loading = false;
    clearTimeout(timer);
    timer = setTimeout(tick, isFinal(batch) ? IDLE : batch.progress.total_refs > MANY ? LARGE : BUSY);
  }
}

/** The next sample; a hidden page waits until it is seen. */
function tick() {
  if (!document.hidden) load();
}

document.addEventListener("visibilitychange", tick);

// -- actions -----------------------------------------------------------------------------------------------------

async function retry(chunk = null) {
  const text = chunk === null ? t("batch.retry_text") : t("batch.retry_chunk_text", { chunk });
  if (!(await confirm(t("batch.retry"), text, t("batch.retry_yes")))) return;
  try {
    const { data: result } = await api("POST", `${path}/retry`, chunk === null ? {} : { chunk_id: chunk });
    toast(result.chunks ? t("batch.retried", { n: result.chunks, count: number(result.chunks) }) : t("batch.retried_none"), result.chunks ? "good" : "warn");
    await load();
  } catch (error) {
    toast(explain(error), "bad");
  }
}

async function close() {
  if (!(await confirm(t("batch.close"), t("batch.close_text"), t("batch.close")))) return;
  try {
    await api("POST", `${path}/close`);
    toast(t("batch.closed_done"), "good");
    await load();
  } catch (error) {
    toast(explain(error), "bad");
  }
}

byId("bar").append(bar);
connect(retry);
byId("retry")?.addEventListener("click", () => retry());
byId("close")?.addEventListener("click", close);
rowKeys(byId("chunks"), { opens: false });
if (operator) keys([{ key: "r", does: t("batch.retry"), run: () => retry(), when: () => !byId("retry").hidden }]);
show(false);
watch((picture) => {
  gate = picture.gates.find((candidate) => candidate.name === data.gate) ?? null;
  showQueues(picture.queues, showHindrances);
  showNotices();
});
load();
