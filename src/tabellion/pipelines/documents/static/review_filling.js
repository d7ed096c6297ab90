// Fills the current field: with words of the page, a candidate, or one of three readings.

import { t, toast } from "./base.js";
import { candidatesOf } from "./review_detail.js";
import { isTable, textOf } from "./review_item.js";
import { isAway } from "./review_net.js";

export class Filling {
  constructor(desk) {
    this.desk = desk;
  }

  // Takes the value that was clicked beside the field.
  taken(which) {
    const { desk } = this;
    const name = desk.form.current;
    if (!name || !desk.editable()) return;
    const [kind, key] = which.split(":");
    if (kind === "candidate") this.candidate(Number(key));
    else if (key === "human") desk.item.change(name, { action: "confirm" });
    else desk.item.take(name, { value: desk.item.fields.get(name).three_way[key] });
    desk.form.focusRow(name);
  }

  candidate(at) {
    const { desk } = this;
    const name = desk.form.current;
    const candidate = name && candidatesOf(desk.item.fields.get(name))[at];
    if (!candidate) return false;
    if (!desk.editable()) return true;
    desk.item.take(name, candidate);
    desk.pages.focus(name, desk.item.place(name));
    return true;
  }

  async drawn({ page, box }) {
    this.fill(await this.seen(this.desk.words.within(page, box)));
  }

  async word({ page, x, y, add }) {
    this.fill(await this.seen(this.desk.words.at(page, x, y)), add);
  }

  // The result of a request for words, or null if it fails.
  async seen(request) {
    try {
      return await request;
    } catch (error) {
      if (isAway(error)) this.desk.knock.begin();
      return null;
    }
  }

  // Puts words from the page into the current field; in a table, into the cell.
  fill(found, add = false) {
    const { desk } = this;
    if (!found) return void toast(t("review.no_words"), "warn", 2.5);
    const name = desk.form.current;
    if (!name) return void toast(t("review.choose_field"), "warn");
    if (!desk.editable()) return undefined;
    if (isTable(desk.item.fields.get(name))) return this.fillCell(found, add);
    const before = add ? textOf(desk.item.value(name)) : "";
    desk.item.take(name, before ? { value: `${before} ${found.value}` } : found);
    desk.pages.focus(name, desk.item.place(name));
    return desk.form.focusRow(name);
  }

  fillCell(found, add) {
    const cell = document.activeElement?.closest?.(".cells input");
    if (!cell) return void toast(t("review.choose_cell"), "warn");
    cell.value = add && cell.value ? `${cell.value} ${found.value}` : found.value;
    return cell.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
