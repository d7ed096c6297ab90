// The reasons for review and the current issues, as sentences; each leads to its fields.

import { el, sure, t } from "./base.js";
import { icon } from "./review_icons.js";
import { fieldsOf } from "./review_item.js";
import { localized } from "./messages.js";

const NOTES = new Set(["sampled", "always"]); // reasons for review without any doubt
const LIVE = new Set(["issue", "missing"]); // reasons that are checked again with every change
const ICONS = { error: "rule_failed", warning: "needs_look" };

export class Reasons extends EventTarget {
  constructor(root) {
    super();
    this.root = root;
    this.at = null;
    root.addEventListener("click", (event) => {
      const line = event.target.closest("button[data-fields]");
      if (line) this.goTo({ key: line.dataset.key, name: line.dataset.fields.split(" ")[0] });
    });
  }

  show(item) {
    this.item = item;
    this.at = null;
    this.name = null;
    this.shownState = "";
    this.update();
  }

  labelOf(name) {
    return this.item.fields.get(name)?.label || name;
  }

  // In order of urgency: failed rules, missing required fields, doubts, and settled reasons.
  collectEntries() {
    const { item } = this;
    const issues = item.issues.filter((issue) => issue.code !== "missing");
    const found = issues.map((issue) => ({ kind: ICONS[issue.severity] || "needs_look", text: localized(issue), fields: fieldsOf(issue) }));
    for (const name of item.names.filter((field) => item.isMissing(field)))
      found.push({ kind: "rule_failed", text: t("review.reason.missing", { field: this.labelOf(name) }), fields: [name] });
    // Missing cells within a table.
    const cells = item.issues.filter((issue) => issue.code === "missing" && !issue.fields.every((path) => item.fields.has(path)));
    for (const issue of cells) found.push({ kind: ICONS[issue.severity] || "needs_look", text: this.cellSentence(issue), fields: fieldsOf(issue) });
    const open = new Set(issues.map((issue) => fieldsOf(issue).sort().join()));
    const empty = new Set([...cells.flatMap((issue) => issue.fields), ...item.names.filter((name) => item.isMissing(name))]);
    for (const reason of item.data.reasons || []) {
      const fields = fieldsOf(reason).filter((name) => item.fields.has(name));
      const listed = reason.code === "issue" ? open.has(fieldsOf(reason).sort().join()) : reason.code === "missing" && reason.fields.some((path) => empty.has(path));
      const settled = LIVE.has(reason.code) ? !listed : fields.length > 0 && !fields.some((name) => item.isUnresolved(name));
      if (settled) found.push({ kind: "confirmed", text: this.sentence(reason), fields, settled });
      else if (NOTES.has(reason.code)) found.push({ kind: "file", text: this.sentence(reason), fields: [], note: true });
      else if (!listed) found.push({ kind: "needs_look", text: this.sentence(reason), fields });
    }
    return found.map((entry, at) => ({ ...entry, key: String(at) }));
  }

  // A cell by the names of its table, row and column.
  cellSentence(issue) {
    const [path] = issue.fields;
    const [, name, row, column] = /^([^[]+)\[(\d+)\]\.(.+)$/.exec(path) || [];
    const found = this.item.fields.get(name)?.columns?.find((candidate) => candidate.name === column);
    return found ? t("review.reason.missing_cell", { field: this.labelOf(name), row: Number(row) + 1, column: found.label || column }) : localized(issue);
  }

  sentence(reason) {
    if (reason.code === "missing" && !this.item.fields.has(reason.fields[0])) return this.cellSentence(reason);
    const field = reason.fields?.length ? this.labelOf(reason.fields[0]) : "";
    const facts = { field, page: reason.page, confidence: sure(reason.confidence), threshold: sure(reason.threshold) };
    const known = { low_confidence: facts.confidence && facts.threshold, missing: field, ungrounded: field, reread: field, page_poor: facts.page, always: true, sampled: true }[reason.code];
    return known ? t(`review.reason.${reason.code}`, facts) : localized(reason);
  }

  update() {
    const entries = this.collectEntries();
    const state = JSON.stringify([entries, this.name]);
    if (state === this.shownState) return;
    this.shownState = state;
    this.stops = entries.filter((entry) => entry.kind === "rule_failed" || (entry.kind === "needs_look" && entry.fields.length > 1)).flatMap((entry) => entry.fields.filter((name) => this.item.fields.has(name)).map((name) => ({ key: entry.key, name })));
    const open = entries.filter((entry) => !entry.settled && !entry.note).length;
    this.root.replaceChildren(
      el("h2", {}, t("review.why"), el("span", { class: open ? "count" : "count none" }, String(open)), ...(this.stops.length ? [el("kbd", {}, "Alt+↓"), el("kbd", {}, "Alt+↑")] : [])),
      el("ul", {}, ...entries.map((entry) => this.makeLine(entry))),
    );
    this.root.hidden = !entries.length;
  }

  makeLine({ kind, text, fields, settled, note, key }) {
    const state = note ? null : settled ? t("review.settled") : t(`review.state.${kind}`);
    const known = fields.filter((name) => this.item.fields.has(name));
    const parts = [icon(kind, state), el("span", {}, text)];
    const line = known.length ? el("button", { type: "button", class: "quiet", tabindex: "-1", "data-key": key, "data-fields": known.join(" ") }, ...parts) : el("div", { class: "plain" }, ...parts);
    return el("li", { class: `${kind}${settled ? " settled" : ""}${!settled && fields.includes(this.name) ? " now" : ""}` }, line);
  }

  // Highlights the reasons of the current field.
  highlight(name) {
    this.name = name;
    this.update();
    const line = this.root.querySelector("li.now");
    if (line) this.root.scrollTop = Math.max(Math.min(this.root.scrollTop, line.offsetTop), line.offsetTop + line.offsetHeight - this.root.clientHeight); // without scrolling anything else
  }

  // Goes to the next field of a failed rule, then to the next rule, and wraps around.
  cycle(by) {
    if (!this.stops?.length) return null;
    const at = this.stops.findIndex((stop) => stop.key === this.at?.key && stop.name === this.at?.name);
    const next = at < 0 ? (by > 0 ? 0 : this.stops.length - 1) : (at + by + this.stops.length) % this.stops.length;
    this.goTo(this.stops[next]);
    return this.stops[next].name;
  }

  goTo(stop) {
    this.at = stop;
    this.dispatchEvent(new CustomEvent("go", { detail: { name: stop.name } }));
  }
}
