// Badges for the states of companies and rights searches.
import { badge, t } from "./base.js";

const KINDS = {
  pending_company_selection: ["idle", "clock"], scraping_company_data: ["busy", "again"],
  pending_name_selection: ["warn", "person"], failed: ["bad", "stop"],
  pending: ["idle", "clock"], in_progress: ["busy", "again"], completed: ["good", "check"],
};

/** A state as a badge; an unknown state keeps its own name. */
export function state(name) {
  const [kind, symbol] = KINDS[name] ?? ["idle", "minus"];
  return badge(kind, symbol, name in KINDS ? t(`registries.status_${name}`) : name);
}
