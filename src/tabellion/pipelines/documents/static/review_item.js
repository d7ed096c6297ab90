// One review item: the server's state, the person's changes since, and undo and redo.

import { fieldTitle } from "./base.js";

const DECIDED = new Set(["confirmed", "corrected", "absent"]);
const STATE_OF = { correct: "corrected", confirm: "confirmed", absent: "absent" };
const BURST = 800; // milliseconds: letters typed without a longer pause are undone together

export const isTable = (field) => field.kind === "list" || field.kind === "table";
export const isEmpty = (value) => value === null || value === undefined || value === "" || (Array.isArray(value) && !value.length);
export const same = (first, second) => JSON.stringify(first ?? null) === JSON.stringify(second ?? null);

// The field of a path such as line_items[2].amount.
export const fieldOf = (path) => path.split("[")[0].split(".")[0];
export const fieldsOf = (issue) => [...new Set((issue.fields || []).map(fieldOf))];

// A field with its title, and those of its columns, in the user's language.
const withTitles = (field) => ({
  ...field,
  label: fieldTitle(field.name, field.label),
  columns: field.columns?.map((column) => ({ ...column, label: fieldTitle(column.name, column.label) })) ?? null,
});

// Whether its value was found nowhere on the page.
const isUngrounded = (field) => (field.translatable?.reasons || []).some((form) => form?.code === "reason.ungrounded");

// A change without `was`, the value it is based on.
const withoutBase = (edit) => {
  if (!edit) return null;
  const rest = { ...edit };
  delete rest.was;
  return rest;
};

export const textOf = (value) => {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};

export class Item extends EventTarget {
  constructor(loaded) {
    super();
    this.edits = new Map();
    this.past = [];
    this.future = [];
    this.onchange = null; // the screen listens once, however often it is shown
    this.accept(loaded);
  }

  // Takes the server's current state; the person's changes stay on top of it.
  accept(loaded) {
    this.data = loaded;
    this.id = loaded.id;
    this.version = loaded.version;
    this.fields = new Map(loaded.fields.map((field) => [field.name, withTitles(field)]));
    this.names = [...this.fields.keys()];
    this.issues = loaded.issues || [];
    this.checked = {};
    this.dropSavedEdits();
    this.emit(this.names);
  }

  // Drops changes that the server has already, such as a draft that was saved meanwhile.
  dropSavedEdits() {
    for (const [name, edit] of [...this.edits]) {
      const field = this.fields.get(name);
      if (!field || (STATE_OF[edit.action] === field.state && this.isSaved(edit, field))) this.edits.delete(name);
    }
  }

  isSaved({ action, value, box }, field) {
    if (action !== "correct") return true;
    return same(value, isTable(field) ? field.value : textOf(field.value)) && (!box || same(box, field.box));
  }

  emit(names) {
    this.dispatchEvent(new CustomEvent("change", { detail: { names } }));
  }

  get isDirty() {
    return this.edits.size > 0;
  }

  value(name) {
    const edit = this.edits.get(name);
    if (edit?.action === "absent") return null;
    return edit && "value" in edit ? edit.value : this.fields.get(name).value;
  }

  // The position of the value: as the person drew it, else as it was read.
  positionOf(name) {
    const edit = this.edits.get(name);
    if (edit?.action === "absent") return null;
    const from = edit?.box ? edit : this.fields.get(name);
    return from.box && from.page ? { page: from.page, box: from.box, quote: from.quote } : null;
  }

  error(name) {
    return this.checked[name]?.error ? this.checked[name] : null;
  }

  failingIssues(name) {
    return this.issues.filter((issue) => (issue.code !== "missing" || !issue.fields.includes(name)) && fieldsOf(issue).includes(name));
  }

  state(name) {
    const action = this.edits.get(name)?.action;
    if (STATE_OF[action]) return STATE_OF[action];
    const field = this.fields.get(name);
    if (!action && DECIDED.has(field.state)) return field.state;
    return this.automaticState(field);
  }

  automaticState(field) {
    const wrong = this.failingIssues(field.name);
    if (wrong.some((issue) => issue.severity === "error")) return "rule_failed";
    const unsure = isEmpty(field.value)
      ? field.required
      : typeof field.confidence === "number" && field.confidence < (field.threshold ?? 0);
    const flagged = field.state === "needs_look" || isUngrounded(field);
    return unsure || flagged || wrong.length ? "needs_look" : "auto";
  }

  isMissing(name) {
    return this.fields.get(name).required && isEmpty(this.value(name)) && this.state(name) !== "absent";
  }

  isUnresolved(name) {
    const state = this.state(name);
    return Boolean(this.error(name)) || this.isMissing(name) || state === "needs_look" || state === "rule_failed";
  }

  // The uncertain fields that nobody has reviewed.
  get unseenFields() {
    return this.names.filter((name) => {
      const field = this.fields.get(name);
      return !isEmpty(this.value(name)) && !DECIDED.has(this.state(name)) && ((field.confidence ?? 1) < (field.threshold ?? 0) || isUngrounded(field));
    });
  }

  get failedRules() {
    return this.issues.filter((issue) => issue.code !== "missing" && issue.severity === "error");
  }

  // The next field that needs a decision: uncertain ones first, then failed rules; starts after `name` and wraps around.
  nextUnresolved(name) {
    const at = this.names.indexOf(name);
    const around = [...this.names.slice(at + 1), ...this.names.slice(0, at + 1)].filter((other) => other !== name && this.isUnresolved(other));
    return around.find((other) => this.state(other) !== "rule_failed") || around[0] || null;
  }

  isLocked(name) {
    const action = this.edits.get(name)?.action;
    if (action === "unlock") return false;
    return action === "correct" || action === "absent" || Boolean(this.fields.get(name).locked);
  }

  // `edit` is null for "as the server has it". `cell` identifies the input, so that bursts of typing are not mixed.
  change(name, edit, { cell = null } = {}) {
    const before = withoutBase(this.edits.get(name));
    if (same(before, edit)) return;
    const now = Date.now();
    const last = this.past.at(-1);
    if (cell && last?.cell === cell && last.name === name && now - last.at < BURST) {
      last.after = edit;
      last.at = now;
    } else {
      this.past.push({ name, before, after: edit, cell, at: now });
    }
    this.future = [];
    this.setEdit(name, edit);
  }

  setEdit(name, edit) {
    const field = this.fields.get(name);
    if (edit) this.edits.set(name, { ...edit, was: edit.was ?? { value: field.value, state: field.state } });
    else this.edits.delete(name);
    delete this.checked[name];
    this.emit([name]);
  }

  enter(name, value, cell = "text") {
    const field = this.fields.get(name);
    const before = this.edits.get(name);
    const spot = before?.box ? { page: before.page, box: before.box, quote: before.quote } : {};
    const unchanged = isTable(field) ? same(value, field.value || []) : same(value, textOf(field.value));
    if (unchanged && !before?.box) this.change(name, null, { cell });
    else if (isEmpty(value)) this.change(name, { action: "absent" }, { cell });
    else this.change(name, { action: "correct", value, ...spot }, { cell });
  }

  // Takes a value with its position: a candidate, words from the page, one of three readings.
  /**
   * @param {string} name
   * @param {{ value: any, page?: number, box?: number[], quote?: string }} found
   */
  takeValue(name, { value, page, box, quote }) {
    const edit = { action: "correct", value };
    if (page && box) Object.assign(edit, { page, box, quote: quote ?? null });
    this.change(name, edit);
  }

  // True if the field is decided: input is a decision already, and an empty required field cannot be confirmed.
  confirm(name) {
    if (this.error(name)) return false;
    const action = this.edits.get(name)?.action;
    if (STATE_OF[action]) return true;
    if (isEmpty(this.value(name))) {
      if (this.fields.get(name).required) return this.state(name) === "absent";
      if (this.state(name) === "needs_look") this.change(name, { action: "absent" });
      return true;
    }
    if (action || !DECIDED.has(this.fields.get(name).state)) this.change(name, { action: "confirm" });
    return true;
  }

  toggleAbsent(name) {
    const isAbsent = this.state(name) === "absent";
    if (isAbsent && this.edits.get(name)?.action === "absent") this.change(name, null);
    else if (isAbsent) this.change(name, { action: "unlock", value: this.fields.get(name).value });
    else this.change(name, { action: "absent" });
  }

  toggleLock(name) {
    const field = this.fields.get(name);
    if (this.isLocked(name)) this.change(name, field.locked ? { action: "unlock", value: field.three_way?.new_model ?? field.value } : null);
    else if (!isEmpty(this.value(name))) {
      // A correction to the same value, with its position, makes it a person's decision.
      const { page = null, box = null, quote = null } = this.positionOf(name) || {};
      this.change(name, { action: "correct", value: isTable(field) ? this.value(name) : textOf(this.value(name)), ...(page ? { page, box, quote } : {}) });
    }
  }

  undo() {
    return this.moveThrough(this.past, this.future, "before");
  }

  redo() {
    return this.moveThrough(this.future, this.past, "after");
  }

  moveThrough(from, to, side) {
    const entry = from.pop();
    if (!entry) return null;
    to.push({ ...entry, cell: null });
    this.setEdit(entry.name, entry[side]);
    return entry.name;
  }

  // The body of PATCH; invalid values stay in the draft.
  unsavedChanges() {
    const fields = {};
    for (const [name, edit] of this.edits) {
      if (this.error(name)) continue;
      const sent = withoutBase(edit);
      if (sent.action !== "correct") delete sent.value;
      fields[name] = sent;
    }
    return fields;
  }

  // The server has stored what was `sent`. Undo now starts from there: undoing a saved change is a new change,
  // and input that was typed meanwhile stays.
  applySaved(loaded, sent) {
    const inverse = new Map();
    for (const name of Object.keys(sent)) {
      const { value, state } = this.fields.get(name);
      const back = DECIDED.has(state) ? { action: state === "absent" ? "absent" : "correct", value } : { action: "unlock", value };
      const now = withoutBase(this.edits.get(name));
      inverse.set(name, { saved: now, back });
      if (now && now.action === sent[name].action && (now.action !== "correct" || same(now.value, sent[name].value))) this.edits.delete(name);
    }
    const rebase = (name, edit) => {
      const known = inverse.get(name);
      if (!known) return edit;
      if (!edit) return known.back;
      return same(edit, known.saved) ? null : edit;
    };
    for (const stack of [this.past, this.future])
      for (const entry of stack) {
        entry.before = rebase(entry.name, entry.before);
        entry.after = rebase(entry.name, entry.after);
      }
    for (const name of this.edits.keys()) if (inverse.has(name)) this.edits.get(name).was = null;
    this.accept(loaded);
    for (const name of inverse.keys()) if (this.edits.has(name)) this.keepMine(name);
  }

  // Fields that somebody else has changed after this person.
  findConflicts() {
    const found = [];
    for (const [name, edit] of this.edits) {
      const field = this.fields.get(name);
      if (!same(edit.was?.value, field.value)) found.push({ name, mine: this.value(name), theirs: field.value, field });
    }
    return found;
  }

  keepMine(name) {
    const edit = this.edits.get(name);
    const field = this.fields.get(name);
    if (edit) this.setEdit(name, { ...edit, was: { value: field.value, state: field.state } });
  }

  keepTheirs(name) {
    this.change(name, null);
  }

  toDraft() {
    const fields = {};
    for (const name of this.edits.keys()) fields[name] = textOf(this.value(name));
    return { fields, edits: Object.fromEntries(this.edits), version: this.version };
  }

  restore(draft) {
    for (const [name, edit] of Object.entries(draft?.edits || {}))
      if (this.fields.has(name) && edit && typeof edit === "object") this.edits.set(name, edit);
    this.dropSavedEdits();
    this.emit(this.names);
  }
}
