// Fills the current field: with words of the page, a candidate, or one of three readings.

import { t, toast } from "./base.js";
import { candidatesOf } from "./review_detail.js";
import { isTable, textOf } from "./review_item.js";
import { isUnreachable } from "./review_api.js";

export class PageValuePicker {
  /** @param {import("./review.js").ReviewScreen} screen */
  constructor(screen) {
    this.screen = screen;
  }

  // Takes the value that was clicked beside the field.
  takeOffered(which) {
    const { screen } = this;
    const name = screen.form.current;
    if (!name || !screen.ensureEditable()) return;
    const [kind, key] = which.split(":");
    if (kind === "candidate") this.takeCandidate(Number(key));
    else if (key === "human") screen.item.change(name, { action: "confirm" });
    else screen.item.takeValue(name, { value: screen.item.fields.get(name).three_way[key] });
    screen.form.focusRow(name);
  }

  takeCandidate(at) {
    const { screen } = this;
    const name = screen.form.current;
    const candidate = name && candidatesOf(screen.item.fields.get(name))[at];
    if (!candidate) return false;
    if (!screen.ensureEditable()) return true;
    screen.item.takeValue(name, candidate);
    screen.pages.focus(name, screen.item.positionOf(name));
    return true;
  }

  async takeBox({ page, box }) {
    this.fill(await this.resultOrNull(this.screen.words.within(page, box)));
  }

  async takeWord({ page, x, y, add }) {
    this.fill(await this.resultOrNull(this.screen.words.at(page, x, y)), add);
  }

  // The result of a request for words, or null if it fails.
  async resultOrNull(request) {
    try {
      return await request;
    } catch (error) {
      if (isUnreachable(error)) this.screen.connection.start();
      return null;
    }
  }

  // Puts words from the page into the current field; in a table, into the cell.
  fill(found, add = false) {
    const { screen } = this;
    if (!found) return void toast(t("review.no_words"), "warn", 2.5);
    const name = screen.form.current;
    if (!name) return void toast(t("review.choose_field"), "warn");
    if (!screen.ensureEditable()) return undefined;
    if (isTable(screen.item.fields.get(name))) return this.fillCell(found, add);
    const before = add ? textOf(screen.item.value(name)) : "";
    screen.item.takeValue(name, before ? { value: `${before} ${found.value}` } : found);
    screen.pages.focus(name, screen.item.positionOf(name));
    return screen.form.focusRow(name);
  }

  fillCell(found, add) {
    const cell = document.activeElement?.closest?.(".cells input");
    if (!cell) return void toast(t("review.choose_cell"), "warn");
    cell.value = add && cell.value ? `${cell.value} ${found.value}` : found.value;
    return cell.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
