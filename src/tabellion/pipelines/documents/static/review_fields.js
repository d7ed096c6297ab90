// The form: one row per field with its state and value, and for the current field the reasons and alternatives.

import { el, sure, t } from "./base.js";
import { detailOf } from "./review_detail.js";
import { icon } from "./review_icons.js";
import { isEmpty, isTable, textOf } from "./review_item.js";
import { Grid, numberOf } from "./review_table.js";
import { noTypeNotice } from "./review_type.js";

const LONG = 46; // characters from which on a value gets two lines
const NUMERIC = new Set(["money", "number", "percent"]);

export class Form extends EventTarget {
  constructor(root) {
    super();
    this.root = root;
    this.rows = new Map();
    this.current = null;
    root.addEventListener("focusin", (event) => this.handleFocus(event));
    root.addEventListener("click", (event) => this.handleClick(event));
    // The buttons beside a field act on the current input: they do not take the focus from it.
    root.addEventListener("mousedown", (event) => event.target.closest("[data-verb], [data-take]") && event.preventDefault());
    this.isPointed = false; // whether the focus was moved with the pointer
    document.addEventListener("pointerdown", ({ target }) => (this.isPointed = root.contains(target) && !target.closest("[data-verb], [data-take]")), { capture: true });
    document.addEventListener("keydown", () => (this.isPointed = false), { capture: true });
  }

  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  show(item, editable) {
    this.item = item;
    this.editable = editable;
    this.current = null;
    this.rows = new Map(item.names.map((name) => [name, this.makeRow(item.fields.get(name))]));
    this.root.replaceChildren(...(item.names.length ? [...this.rows.values()].map((row) => row.node) : [noTypeNotice()]));
    this.update(item.names);
  }

  makeRow(field) {
    const id = `field-${field.name}`;
    const row = { field, state: el("span", { class: "state" }), sure: el("span", { class: "sure" }), detail: el("div", { class: "detail", hidden: "" }) };
    const label = el("label", { for: id, title: [field.label || field.name, field.help].filter(Boolean).join(": ") }, field.label || field.name);
    if (field.required) label.append(el("abbr", { class: "required", title: t("base.required"), "aria-label": t("base.required") }, "*"));
    row.lock = el("span", { class: "lockmark" });
    label.append(row.lock);
    const entry = isTable(field) ? this.makeGrid(row, id) : this.makeInput(row, id);
    row.node = el("div", { class: isTable(field) ? "slot broad" : "slot", role: "group", tabindex: "-1", "data-name": field.name }, row.state, label, entry, row.sure, row.detail);
    return row;
  }

  makeInput(row, id) {
    const { field } = row;
    const options = field.kind === "bool" ? ["true", "false"] : field.values;
    const long = field.kind === "address" || textOf(field.value).length > LONG;
    if (options?.length && (field.kind === "bool" || field.kind === "choice" || field.kind === "enum")) {
      const value = textOf(field.value);
      const all = ["", ...options, ...(value && !options.includes(value) ? [value] : [])];
      row.input = el("select", { id }, ...all.map((option) => el("option", { value: option }, option)));
    } else {
      row.input = el(long ? "textarea" : "input", { id, autocomplete: "off", spellcheck: "false", class: NUMERIC.has(field.kind) ? "number" : "text" });
      if (long) row.input.rows = 2;
      if (NUMERIC.has(field.kind)) row.input.inputMode = "decimal";
      row.input.addEventListener("focus", () => row.isPointed || row.input.select());
      row.input.addEventListener("pointerdown", () => (row.isPointed = true));
      row.input.addEventListener("blur", () => (row.isPointed = false));
    }
    row.input.addEventListener("input", () => this.emit("typed", { name: field.name, value: row.input.value }));
    return el("div", { class: "entry" }, row.input);
  }

  makeGrid(row, id) {
    const name = row.field.name;
    row.grid = new Grid(row.field, {
      id,
      value: () => this.item.value(name),
      change: (rows, cell) => this.emit("typed", { name, value: rows, cell }),
      editable: () => this.editable(),
    });
    return el("div", { class: "entry" }, row.grid.node);
  }

  // Updates these fields in place, so that a key press costs next to nothing.
  update(names) {
    const editable = this.editable();
    for (const name of names) {
      const row = this.rows.get(name);
      if (!row) continue;
      row.field = this.item.fields.get(name);
      const state = this.item.state(name);
      row.node.dataset.state = state;
      row.node.classList.toggle("unresolved", this.item.isUnresolved(name));
      row.node.classList.toggle("bad", Boolean(this.item.error(name)));
      row.node.classList.toggle("missing", this.item.isMissing(name));
      row.node.classList.toggle("changed", this.item.edits.has(name));
      const shownState = state === "auto" && isEmpty(this.item.value(name)) ? "empty" : state;
      if (row.shown !== shownState) {
        row.shown = shownState;
        row.state.replaceChildren(icon(shownState, t(`review.state.${shownState}`)));
        row.state.title = t(`review.state.${shownState}`);
      }
      this.showConfidence(row);
      const locked = this.item.isLocked(name);
      if (row.locked !== locked) {
        row.locked = locked;
        row.lock.replaceChildren(...(locked ? [icon("lock", t("review.locked"))] : []));
      }
      if (row.grid) row.grid.fill();
      else this.showValue(row, editable);
    }
    for (const row of this.rows.values()) if (row.grid) row.grid.showSum(this.collectAmounts());
    if (this.current && names.includes(this.current)) this.explain(this.current);
  }

  showValue({ input, field }, editable) {
    const text = textOf(this.item.value(field.name));
    const absent = this.item.state(field.name) === "absent";
    if (input.value !== text) input.value = text;
    if (input.matches("select")) input.disabled = !editable;
    else {
      input.readOnly = !editable;
      input.placeholder = absent ? t("review.state.absent") : field.required ? t("base.required") : "";
    }
    input.setAttribute("aria-invalid", String(Boolean(this.item.error(field.name) || this.item.isMissing(field.name))));
    if (field.required) input.setAttribute("aria-required", "true");
  }

  showConfidence(row) {
    const { field } = row;
    const edited = this.item.edits.get(field.name);
    const person = edited?.action === "correct" || (!edited && field.manually_corrected);
    const certainty = person ? "person" : typeof field.confidence === "number" && field.value !== null ? field.confidence : null;
    if (row.certainty === certainty) return;
    row.certainty = certainty;
    if (certainty === "person") row.sure.replaceChildren(icon("person", t("review.by_person")));
    else if (certainty === null) row.sure.replaceChildren("–");
    else {
      const bar = el("i");
      bar.style.width = `${100 * certainty}%`;
      row.sure.replaceChildren(el("span", {}, sure(certainty).slice(0, -2)), el("span", { class: certainty < (field.threshold ?? 0) ? "meter low" : "meter" }, bar));
    }
    row.sure.title = typeof certainty === "number" ? t("review.sure", { sure: sure(certainty), wanted: sure(field.threshold ?? 0) }) : "";
  }

  // The amounts of the document outside lists, with which the sum of a grid is compared.
  collectAmounts() {
    const found = [];
    for (const [name, field] of this.item.fields) {
      const number = field.kind === "money" ? numberOf(this.item.value(name)) : null;
      if (number !== null) found.push({ name, label: field.label || name, number });
    }
    return found;
  }

  // Focus. A row has it while keys are commands; its input while keys are text.

  handleFocus(event) {
    const name = event.target.closest(".slot")?.dataset.name;
    if (!name) return;
    this.root.classList.toggle("editing", event.target.matches("input, textarea, select"));
    this.describe(name);
    if (name !== this.current) this.moveTo(name, event.target);
    const line = event.target.closest(".cells tbody tr")?.sectionRowIndex ?? null;
    if (line === this.line) return;
    this.line = line;
    this.emit("line", { name, line });
  }

  moveTo(name, target) {
    this.line = null;
    if (this.isPointed) this.keepInPlace(target, () => this.setCurrent(name));
    else {
      this.setPadding(0, 0);
      this.setCurrent(name);
      this.rows.get(name).node.scrollIntoView({ block: "nearest" });
    }
    this.emit("focus", { name });
  }

  // Makes another field the current one.
  setCurrent(name) {
    const before = this.rows.get(this.current);
    if (before) {
      before.node.classList.remove("current");
      before.detail.hidden = true;
      before.detail.replaceChildren();
    }
    this.current = name;
    this.rows.get(name).node.classList.add("current");
    this.explain(name);
  }

  // Keeps the element under the pointer in place while details open and close around it: by scrolling, or, if there is
  // nothing to scroll, by padding above or below until the next move.
  keepInPlace(node, work) {
    const before = node.getBoundingClientRect().top;
    const measureShift = () => node.getBoundingClientRect().top - before;
    this.setPadding(0, 0);
    work();
    const scroller = this.findScroller();
    scroller.scrollTop += measureShift();
    const rest = Math.round(measureShift());
    if (!rest) return;
    this.setPadding(Math.max(-rest, 0), Math.max(rest, 0));
    scroller.scrollTop += measureShift();
  }

  setPadding(above, below) {
    this.root.style.setProperty("--above", `${above}px`);
    this.root.style.setProperty("--below", `${below}px`);
  }

  // The element that scrolls the form; on small screens the whole page.
  findScroller() {
    let node = this.root;
    while (node && !/auto|scroll/.test(getComputedStyle(node).overflowY)) node = node.parentElement;
    return node || document.scrollingElement;
  }

  // The label for screen readers: everything that is visible in the row.
  describe(name) {
    const { node, field } = this.rows.get(name);
    const parts = [field.label || name, textOf(isTable(field) ? null : this.item.value(name)) || null, t(`review.state.${this.item.state(name)}`)];
    if (this.item.isMissing(name)) parts.push(t("base.required"));
    node.setAttribute("aria-label", parts.filter(Boolean).join(", "));
  }

  explain(name) {
    const row = this.rows.get(name);
    row.detail.hidden = false;
    const nodes = detailOf(this.item, row.field, this.editable());
    const present = row.detail.childNodes;
    // A button that is being pressed must not be replaced, or the press does not become a click.
    if (nodes.length !== present.length || nodes.some((node, at) => !node.isEqualNode(present[at]))) row.detail.replaceChildren(...nodes);
  }

  handleClick(event) {
    const offer = event.target.closest("[data-take]");
    if (offer) {
      this.emit("take", { name: this.current, which: offer.dataset.take });
      return;
    }
    const row = event.target.closest(".slot");
    if (row?.contains(document.activeElement)) return; // where the mouse button was pressed counts, not where it was released
    if (row && !event.target.closest("input, select, textarea, button, label, a")) row.focus();
  }

  focusRow(name) {
    this.rows.get(name)?.node.focus({ preventScroll: true });
  }

  // The input or table cell that has the focus; null if keys are commands.
  findFocusedInput() {
    const node = document.activeElement;
    const name = node?.matches("input, textarea, select") ? node.closest(".slot")?.dataset.name : null;
    return name ? { of: name, at: this.rows.get(name).grid?.positionOf(node) } : null;
  }

  // Focuses the input. A table without rows gets one.
  edit(name, { of = null, at = null } = {}) {
    const row = this.rows.get(name);
    if (!row) return;
    if (!row.grid) row.input.focus({ preventScroll: true });
    else if (!row.grid.focus(...(of === name && at ? at : []))) row.grid.insert(0);
  }

  // Rejects an action: the row shakes, and its details show why.
  showRefusal(name) {
    const { node } = this.rows.get(name);
    node.classList.remove("no");
    requestAnimationFrame(() => node.classList.add("no"));
    this.explain(name);
  }

  moveBy(by) {
    const at = this.item.names.indexOf(this.current);
    this.focusRow(this.item.names[Math.min(Math.max(at + by, 0), this.item.names.length - 1)]);
  }

  // Focuses the next field's input, or the row of a table, so that Tab does not pass through every cell; after the last
  // one the browser's default applies.
  focusNextInput(by) {
    const name = this.item.names[this.item.names.indexOf(this.current) + by];
    if (!name) return false;
    if (this.rows.get(name).grid) this.focusRow(name);
    else this.edit(name);
    return true;
  }
}
