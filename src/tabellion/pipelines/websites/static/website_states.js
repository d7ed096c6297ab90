// Badges and marks for the states of website jobs and their phases.
import { badge, el, t } from "./base.js";

const KINDS = {
  "not-started": ["idle", "clock"], "prompt-forming": ["info", "pencil"], "model-analysis": ["info", "eye"],
  completed: ["good", "check"], failed: ["bad", "stop"],
};

/** The status of a job as a badge; an unknown one keeps its own name. */
export function status(website) {
  const [kind, symbol] = KINDS[website.status] ?? ["idle", "minus"];
  const running = website.in_progress;
  return badge(running ? "info" : kind, running ? "again" : symbol, website.status in KINDS ? t(`website.status_${website.status}`) : website.status);
}

/** The three phases of a job as small bars. */
export const bars = (website) =>
  el("span", { class: "progress-phases", "aria-hidden": "true" }, website.phases.map((phase) => el("i", { class: phase.state })));

/** The grade of a score. */
export const grade = (score) => (score >= 80 ? "good" : score >= 50 ? "fair" : "poor");
