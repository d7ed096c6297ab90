// Shared by the pages of batches: badges of their states, and the bar with the refs of a batch or a chunk.
import { badge, el, number, t } from "./base.js";
import { put } from "./charts.js";

const STATUSES = {
  open: ["info", "play"], processing: ["info", "again"], completing: ["info", "again"], complete: ["good", "check"], incomplete: ["bad", "warn"],
};
const PHASES = {
  PENDING: ["idle", "clock"], FETCHING: ["info", "download"], PROCESSING: ["info", "again"], PUBLISHING: ["info", "upload"], DONE: ["good", "check"], ERROR: ["bad", "stop"],
};

/** The status of a batch as badges; an unknown one keeps its own name. An open one that was closed is only closed. */
export function statusBadges(batch) {
  const [kind, symbol] = STATUSES[batch.status] ?? ["idle", "minus"];
  return [
    batch.closed_at && batch.status === "open" ? null : badge(kind, symbol, batch.status in STATUSES ? t(`batch.status_${batch.status}`) : batch.status),
    batch.closed_at ? badge("idle", "lock", t("batch.is_closed")) : null,
  ];
}

/** The phase of a chunk as a badge. */
export function phaseBadge(phase) {
  const [kind, symbol] = PHASES[phase] ?? ["idle", "minus"];
  return badge(kind, symbol, phase in PHASES ? t(`batch.phase_${phase}`) : phase);
}

/** Refs by what became of them, as texts with numbers, in the order of the bar. */
export function parts({ progress, skipped }) {
  return [
    ["read", progress.completed - skipped], ["skipped", skipped], ["failed", progress.failed], ["pending", progress.pending],
  ];
}

/** Whether every chunk has ended. */
export const hasEnded = ({ phases }) => phases.PENDING + phases.FETCHING + phases.PROCESSING + phases.PUBLISHING === 0;

/** Whether nothing changes any more by itself: after the last chunk the batch is completed. An open one waits for chunks. */
export const isFinal = (batch) => hasEnded(batch) && !["processing", "completing"].includes(batch.status);

/** A bar of refs: read, skipped and failed; the rest is pending. Its parts are changed in place. */
export function refsBar(css = "") {
  const segments = { read: el("i", { class: "read" }), skipped: el("i", { class: "skipped" }), failed: el("i", { class: "failed" }) };
  const bar = el("div", { class: `refs-bar ${css}`.trim(), role: "progressbar", "aria-valuemin": 0, "aria-label": t("batch.progress") }, Object.values(segments));
  bar.update = (one) => {
    const total = one.progress.total_refs, counts = Object.fromEntries(parts(one));
    for (const [name, segment] of Object.entries(segments)) {
      const width = total ? `${(100 * counts[name]) / total}%` : "0%";
      if (segment.style.width !== width) segment.style.width = width;
      segment.classList.toggle("some", counts[name] > 0);
    }
    const text = t("batch.bar", { total: number(total), ...Object.fromEntries(parts(one).map(([name, count]) => [name, number(count)])) });
    bar.setAttribute("aria-valuemax", String(total));
    bar.setAttribute("aria-valuenow", String(one.progress.completed + one.progress.failed));
    bar.setAttribute("aria-valuetext", text);
    bar.title = text;
  };
  return bar;
}

/** A bar with its numbers below: "1,200 of 2,500 · 5 failed". */
export function refsProgress() {
  const bar = refsBar(), done = el("span"), failed = el("span", { class: "text-bad" });
  const element = el("div", { class: "refs-progress" }, bar, el("span", { class: "small muted nowrap" }, done, failed));
  element.update = (one) => {
    bar.update(one);
    put(done, t("batch.of", { done: number(one.progress.completed), total: number(one.progress.total_refs) }));
    put(failed, one.progress.failed ? ` · ${t("batch.n_failed", { n: one.progress.failed, count: number(one.progress.failed) })}` : "");
  };
  return element;
}
