// The grid of a list field: arrow keys, adding and removing rows, pasting from a spreadsheet, and the sum with what it should be.

import { el, t } from "./base.js";
import { icon } from "./review_icons.js";

const NUMERIC = new Set(["money", "number", "percent"]);
const EXPECTED = ["subtotal", "total"]; // fields that rows usually add up to, if the sum equals none
const CLOSE = 0.05; // the tolerance of sums, as in the shipped rules

// A number as people write it: 1,234.50, 1.234,50 and 1 234,50 are the same.
export const numberOf = (text) => {
  let digits = String(text ?? "").replace(/[^\d.,+-]/g, "");
  if (!/\d/.test(digits)) return null;
  const comma = digits.lastIndexOf(",");
  const point = digits.lastIndexOf(".");
  if (comma > point && (point >= 0 || digits.length - comma <= 3 || digits.indexOf(",") === comma))
    digits = digits.replaceAll(".", "").replace(",", ".");
  else digits = digits.replaceAll(",", "");
  const found = Number(digits);
  return Number.isFinite(found) ? found : null;
};

export const columnsOf = (field) =>
  field.columns?.length
    ? field.columns
    : [...new Set((Array.isArray(field.value) ? field.value : []).flatMap((row) => Object.keys(row)))].map((name) => ({ name, label: name, kind: "text" }));

const isBlank = (row) => Object.values(row).every((value) => value === null || value === undefined || value === "");

// The rows without empty ones.
export const withoutBlankRows = (rows) => rows.filter((row) => !isBlank(row));

// The column that is summed: `amount`, else the last one with money.
const sumColumn = (columns) => columns.find((column) => column.name === "amount" && NUMERIC.has(column.kind)) || columns.findLast((column) => column.kind === "money");

export class Grid {
  constructor(field, { id, value, change, editable }) {
    this.field = field;
    this.columns = columnsOf(field);
    this.value = value;
    this.change = change;
    this.editable = editable;
    this.body = el("tbody");
    this.foot = el("tfoot");
    this.heads = this.columns.map((column) => el("th", { scope: "col", class: NUMERIC.has(column.kind) ? "number" : "text" }, column.label));
    const table = el("table", { class: "cells", id, "aria-label": field.label }, el("thead", {}, el("tr", {}, ...this.heads, el("th", { class: "row-actions" }))), this.body, this.foot);
    this.node = el("div", { class: "gridframe" }, table);
    table.addEventListener("keydown", (event) => this.handleKey(event));
    table.addEventListener("paste", (event) => this.handlePaste(event));
    table.addEventListener("input", (event) => this.handleInput(event));
    table.addEventListener("focusin", (event) => event.target.matches("input") && event.target.select());
    this.fill();
  }

  get rows() {
    const value = this.value();
    return Array.isArray(value) ? value : [];
  }

  // Puts the rows in; inputs that already show the right text are left alone, so that typing keeps its caret.
  fill() {
    const rows = this.rows;
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((row, at) => {
      const line = this.body.rows[at] || this.body.appendChild(this.makeLine(at));
      this.columns.forEach((column, place) => {
        const cell = line.cells[place].firstChild;
        const text = row[column.name] === null || row[column.name] === undefined ? "" : String(row[column.name]);
        if (cell.value !== text) cell.value = text;
        if (cell.title !== text) cell.title = text; // the text may be longer than its cell
        cell.readOnly = !this.editable();
      });
      line.querySelector("button").hidden = !this.editable();
    });
    this.columns.forEach((column, place) => {
      const isColumnBlank = isBlank(rows.map((row) => row[column.name])); // an empty column gives its width to the others
      for (const line of [this.heads[place].parentNode, ...this.body.rows]) line.cells[place].classList.toggle("blank", isColumnBlank);
    });
    this.node.classList.toggle("empty-grid", !rows.length);
  }

  makeLine(at) {
    const line = el("tr");
    for (const column of this.columns) {
      const label = t("review.cell", { column: column.label, n: at + 1 });
      const cell = el("input", { class: NUMERIC.has(column.kind) ? "number" : "text", "aria-label": label, autocomplete: "off", spellcheck: "false" });
      cell.dataset.column = column.name;
      line.append(el("td", {}, cell));
    }
    const remove = el("button", { type: "button", class: "quiet", tabindex: "-1", title: `${t("review.row_delete")} (Alt+Del)`, "aria-label": t("review.row_delete") }, icon("close"));
    remove.addEventListener("click", () => this.remove(this.indexOf(remove)));
    line.append(el("td", { class: "row-actions" }, remove));
    return line;
  }

  // The sum under the table, and the field it should be.
  showSum(others) {
    const column = sumColumn(this.columns);
    const add = el("button", { type: "button", class: "quiet", tabindex: "-1" }, icon("plus"), t("review.row_add"), el("kbd", {}, "Alt+Ins"));
    add.addEventListener("click", () => this.insert(this.rows.length));
    add.hidden = !this.editable();
    const cells = [el("td", { colspan: this.columns.length + 1 }, el("div", { class: "sumline" }, add))];
    if (column && this.rows.length) {
      const total = this.rows.reduce((sum, row) => sum + (numberOf(row[column.name]) || 0), 0);
      const text = total.toFixed(2);
      const equal = others.find((other) => Math.abs(other.number - total) <= CLOSE);
      const usual = others.filter(({ name }) => (this.field.name.startsWith("tax") ? name === "tax" : EXPECTED.includes(name)));
      const near = equal || [...(usual.length ? usual : others)].sort((a, b) => Math.abs(a.number - total) - Math.abs(b.number - total))[0];
      const verdict = equal
        ? el("span", { class: "fits" }, icon("auto"), t("review.sum_is", { field: equal.label }))
        : near && el("span", { class: "differs" }, icon("rule_failed"), t("review.sum_differs", { field: near.label, value: near.number.toFixed(2), by: (total - near.number).toFixed(2) }));
      cells[0].firstChild.append(el("span", { class: "sum" }, t("review.sum", { sum: text })), ...(verdict ? [verdict] : []));
    }
    this.foot.replaceChildren(el("tr", {}, ...cells));
    this.foot.hidden = !this.editable() && !this.rows.length;
  }

  indexOf(node) {
    return node.closest("tr").sectionRowIndex;
  }

  cellAt(row, column) {
    return this.body.rows[row]?.cells[column]?.firstChild || null;
  }

  positionOf(cell) {
    return [this.indexOf(cell), cell.parentNode.cellIndex];
  }

  focus(row = 0, column = 0) {
    const cell = this.cellAt(Math.min(row, this.rows.length - 1), column);
    if (cell) cell.focus();
    return Boolean(cell);
  }

  handleInput(event) {
    const row = this.indexOf(event.target);
    const column = event.target.dataset.column;
    const rows = this.rows.map((other, at) => (at === row ? { ...other, [column]: event.target.value || null } : other));
    this.change(rows, `${row}/${column}`);
  }

  insert(at) {
    if (!this.editable()) return;
    const empty = Object.fromEntries(this.columns.map((column) => [column.name, null]));
    this.change([...this.rows.slice(0, at), empty, ...this.rows.slice(at)], null);
    this.fill();
    this.focus(at, 0);
  }

  remove(at) {
    if (!this.editable() || !this.rows.length) return;
    this.change(this.rows.filter((_, place) => place !== at), null);
    this.fill();
    this.focus(Math.min(at, this.rows.length - 1), 0);
  }

  handleKey(event) {
    const cell = event.target;
    if (!cell.matches("input")) return;
    const [row, column] = this.positionOf(cell);
    if (event.altKey && (event.key === "Insert" || event.key === "Delete")) {
      event.preventDefault();
      event.stopPropagation();
      if (event.repeat) return;
      if (event.key === "Insert") this.insert(row + 1);
      else this.remove(row);
      return;
    }
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const all = cell.selectionStart === 0 && cell.selectionEnd === cell.value.length;
    const target = {
      ArrowUp: () => this.cellAt(row - 1, column),
      ArrowDown: () => this.cellAt(row + 1, column),
      ArrowLeft: () => (all || cell.selectionEnd === 0 ? this.cellAt(row, column - 1) : null),
      ArrowRight: () => (all || cell.selectionStart === cell.value.length ? this.cellAt(row, column + 1) : null),
    }[event.key]?.();
    if (!target?.matches("input")) return;
    event.preventDefault();
    target.focus();
  }

  // Pastes cells of a spreadsheet (lines and tabs) from this cell on, adding rows as needed.
  handlePaste(event) {
    const cell = event.target;
    const text = event.clipboardData?.getData("text/plain").replace(/\r\n?/g, "\n").replace(/\n$/, "") || "";
    if (!cell.matches("input") || !this.editable() || !/[\t\n]/.test(text)) return;
    event.preventDefault();
    const [row, column] = this.positionOf(cell);
    const rows = this.rows.map((copied) => ({ ...copied }));
    text.split("\n").forEach((line, down) => {
      rows[row + down] ||= Object.fromEntries(this.columns.map((added) => [added.name, null]));
      line.split("\t").forEach((value, across) => {
        const name = this.columns[column + across]?.name;
        if (name) rows[row + down][name] = value.trim() || null;
      });
    });
    this.change(rows, null);
    this.fill();
    this.focus(row, column);
  }
}
