// What the states of companies and of searches of rights look like.
import { badge, t } from "./base.js";

const KINDS = {
  pending_company_selection: ["idle", "clock"], scraping_company_data: ["busy", "again"],
  pending_name_selection: ["warn", "person"], failed: ["bad", "stop"],
  pending: ["idle", "clock"], in_progress: ["busy", "again"], completed: ["good", "check"],
};

/** A state as a badge; one that is not ours is shown as it is. */
export function state(word) {
  const [kind, drawing] = KINDS[word] ?? ["idle", "minus"];
  return badge(kind, drawing, word in KINDS ? t(`registries.status_${word}`) : word);
}

export const isOpen = (word) => ["pending_company_selection", "scraping_company_data", "pending", "in_progress"].includes(word);
