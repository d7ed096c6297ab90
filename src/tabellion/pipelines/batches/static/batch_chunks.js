// The chunks of a batch: by phase, page by page, with progress, error, and the delivery of each callback.
import { api, badge, byId, data, el, empty, explain, icon, may, moment, number, t, toast } from "./base.js";
import { put } from "./charts.js";
import { localized } from "./messages.js";
import { liveAge, short } from "./monitor.js";
import { renew, Rows } from "./rows.js";
import { phaseBadge, refsProgress } from "./batch_parts.js";

const PAGE = 50, MOST = 200;
const DELIVERY = { pending: ["idle", "clock"], sending: ["info", "again"], delivered: ["good", "check"], failed: ["bad", "stop"] };
const operator = may("operator");
let phase = "", shown = [], cursor = null, requests = 0;
/** @type {(chunk: string) => Promise<void>} */
let onRetry = null;

const address = (limit, after) => {
  const query = new URLSearchParams({ limit: String(limit) });
  if (phase) query.set("phase", phase);
  if (after) query.set("cursor", after);
  return `/api/batches/${encodeURIComponent(data.id)}/chunks?${query}`;
};

/** The delivery of a chunk's callback, or that it was received here. */
function delivery(chunk) {
  if (chunk.received_at) return badge("good", "check", t("batch.received"), moment(chunk.received_at));
  if (!chunk.callback) return el("span", { class: "muted" }, "–");
  const again = chunk.callback.status === "pending" && chunk.callback.attempts > 0, error = localized(chunk.callback, "error");
  const [kind, symbol] = DELIVERY[chunk.callback.status] ?? ["idle", "minus"];
  return [
    badge(kind, symbol, t(`batch.callback_${again ? "again" : chunk.callback.status}`), chunk.callback.id),
    chunk.callback.attempts > 1 ? el("span", { class: "small muted block" }, t("batch.attempts", { n: chunk.callback.attempts, count: number(chunk.callback.attempts) })) : null,
    chunk.callback.error && chunk.callback.status !== "delivered" ? el("span", { class: "small text-bad block cut", title: error }, error) : null,
  ];
}

const isRetryable = (chunk) => chunk.phase === "ERROR" || (chunk.phase === "DONE" && chunk.progress.failed + chunk.failed_pis > 0);

const table = new Rows(byId("chunks"), (chunk) => {
  const name = el("td", { class: "chunk-name" }), badgeCell = el("td", { class: "nowrap" }), progress = refsProgress(), sent = el("td", { class: "not-narrow callback-cell" });
  const running = liveAge(short), took = el("span"), time = el("td", { class: "right nowrap muted not-narrow" }, running, took);
  const button = operator && el("button", { type: "button", class: "small-button square", title: t("batch.retry_chunk", { chunk: chunk.chunk_id }), "aria-label": t("batch.retry_chunk", { chunk: chunk.chunk_id }), onclick: () => onRetry(chunk.chunk_id) }, icon("again"));
  const row = el("tr", { dataset: { row: chunk.id } }, name, badgeCell, el("td", { class: "progress-column" }, progress), sent, time, operator ? el("td", { class: "act" }, button) : null);
  row.update = (one) => {
    renew(name, [one.run, one.total_pis, one.error, one.phase, one.failed_pis], () => el("div", {},
      el("span", { class: "row tight" }, el("strong", { class: "wrap" }, one.chunk_id), one.run > 1 ? el("span", { class: "badge idle" }, t("batch.run", { n: one.run })) : null),
      el("span", { class: "small muted" }, t("batches.entities", { n: one.total_pis, count: number(one.total_pis) })),
      one.error ? el("span", { class: "small text-bad cut-2", title: localized(one, "error") }, localized(one, "error")) : null,
      one.failed_pis ? el("span", { class: "small text-bad cut-2", title: localized(one, "pi_error") }, t("batch.failed_pis", { n: one.failed_pis, count: number(one.failed_pis), error: localized(one, "pi_error") })) : null));
    renew(badgeCell, one.phase, () => phaseBadge(one.phase));
    progress.update(one);
    renew(sent, [one.received_at, one.callback], () => [delivery(one)]);
    running.update(one.completed_at ? null : one.started_at);
    running.hidden = Boolean(one.completed_at);
    took.hidden = !one.completed_at;
    put(took, one.completed_at ? short((Date.parse(one.completed_at) - Date.parse(one.started_at)) / 1000) : "");
    time.title = moment(one.completed_at ?? one.started_at);
    if (button) button.hidden = !isRetryable(one);
  };
  return row;
});

function draw() {
  if (byId("chunks").getAttribute("aria-busy") === "true") byId("chunks").replaceChildren();
  byId("chunks").setAttribute("aria-busy", "false");
  table.update(shown, (chunk) => chunk.id);
  byId("chunks-table").hidden = !shown.length;
  byId("pager").hidden = cursor === null;
  renew(byId("chunks-nothing"), [phase, shown.length > 0], () => (shown.length ? [] : empty("copy", t("batch.no_chunks"), phase ? t("batch.no_chunks_note") : null)));
}

/** Loads the chunks again, as many as are shown; ignores answers to older requests. */
export async function loadChunks() {
  const request = (requests += 1), limit = Math.min(MOST, Math.max(PAGE, shown.length));
  const { data: page } = await api("GET", address(limit));
  if (request !== requests) return;
  const older = shown.length > limit ? shown.slice(limit) : [];
  shown = [...page.chunks, ...older];
  if (!older.length) cursor = page.next;
  draw();
}

async function more() {
  const request = requests;
  byId("more").setAttribute("aria-busy", "true");
  try {
    const { data: page } = await api("GET", address(PAGE, cursor));
    if (request !== requests) return void more();
    const known = new Set(shown.map((chunk) => chunk.id));
    shown = [...shown, ...page.chunks.filter((chunk) => !known.has(chunk.id))];
    cursor = page.next;
    draw();
  } catch (error) {
    toast(explain(error), "bad");
  } finally {
    byId("more").removeAttribute("aria-busy");
  }
}

/** Shows how many chunks are in each phase. */
export function showPhases(batch) {
  for (const button of byId("phases").children) {
    const count = button.dataset.phase ? batch.phases[button.dataset.phase] : batch.total_chunks;
    put(button.lastElementChild, number(count));
    button.classList.toggle("none", !count);
    button.classList.toggle("some-bad", button.dataset.phase === "ERROR" && count > 0);
  }
}

/** Shows the chunks of a phase; empty: of all. */
async function choose(next) {
  phase = next;
  [shown, cursor] = [[], null];
  for (const button of byId("phases").children) button.setAttribute("aria-pressed", String(button.dataset.phase === phase));
  try {
    await loadChunks();
  } catch (error) {
    toast(explain(error), "bad");
  }
}

/** Connects the controls; `retryChunk` starts one chunk again. */
export function connect(retryChunk) {
  onRetry = retryChunk;
  byId("more").addEventListener("click", more);
  for (const button of byId("phases").children) button.addEventListener("click", () => choose(button.dataset.phase));
}
