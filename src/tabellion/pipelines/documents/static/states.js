// The states of documents and their parts, drawn the same way on every page.
import { badge, el, number, sure, t, textOr } from "./base.js";

const STATUS = {
  queued: ["idle", "clock"], processing: ["info", "again"], completed: ["good", "check"], failed: ["bad", "stop"], duplicate: ["idle", "copy"],
};
const VERDICT = { accept: ["good", "check"], warn: ["warn", "warn"], reject: ["bad", "stop"] };
const REVIEW = {
  pending: ["warn", "eye"], in_review: ["info", "person"], approved: ["good", "check"], corrected: ["human", "pencil"], rejected: ["bad", "cross"],
};
const OUTCOME = {
  done: ["good", "check"], failed: ["bad", "stop"], retried: ["warn", "again"], limited: ["idle", "clock"], released: ["idle", "left"],
  crashed: ["bad", "warn"], superseded: ["idle", "minus"],
};

const badgeFor = (table, prefix) => (value) =>
  value ? badge(...(table[value] ?? ["idle", ""]), textOr(`${prefix}${value}`, value)) : "";

export const status = badgeFor(STATUS, "documents.status_");
export const verdict = badgeFor(VERDICT, "documents.verdict_");
export const review = badgeFor(REVIEW, "documents.review_");
export const outcome = (value) => (value ? badge(...(OUTCOME[value] ?? ["idle", ""]), textOr(`documents.outcome_${value}`, value)) : badge("info", "again", t("documents.outcome_live")));

/** A progress bar. */
export function progressBar(share, kind = "", label = "") {
  const fill = el("i", {});
  fill.style.width = `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;
  return el("span", { class: `bar ${kind}`, role: "progressbar", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(share * 100) }, fill);
}

/** The progress of reading: pages done and their total. */
export function progress(doc) {
  if (doc.status !== "processing" || !doc.progress?.pages) return null;
  const { done, pages } = doc.progress;
  return el("span", { class: "progress" }, progressBar((done ?? 0) / pages, "", t("documents.reading")), el("span", { class: "muted small" }, `${number(done ?? 0)}/${number(pages)}`));
}

/** The confidence of a value, compared with the threshold of its type. */
export function confidence(share, threshold) {
  if (share === null || share === undefined) return "";
  const kind = threshold !== undefined && share < threshold ? "warn" : "good";
  const title = threshold === undefined ? "" : t("documents.threshold", { share: sure(threshold) });
  return el("span", { class: "meter", title }, progressBar(share, kind, t("documents.confidence")), sure(share));
}
