// Finds text on the pages: a small bar, marked hits, and a button to take a hit into the current field.

import { el, t } from "./base.js";

export class PageSearch extends EventTarget {
  constructor(bar, pages) {
    super();
    this.bar = bar;
    this.pages = pages;
    this.hits = [];
    this.at = 0;
    this.input = el("input", { type: "search", "aria-label": t("review.find"), placeholder: t("review.find"), autocomplete: "off", spellcheck: "false" });
    this.count = el("span", { class: "muted", role: "status" });
    const take = el("button", { type: "button", class: "small" }, t("review.find_take"), el("kbd", {}, "Alt+Enter"));
    take.addEventListener("click", () => this.takeHit());
    bar.replaceChildren(this.input, this.count, take);
    this.input.addEventListener("input", () => this.search());
    bar.addEventListener("keydown", (event) => this.handleKey(event));
  }

  open(words) {
    this.words = words;
    this.bar.hidden = false;
    this.input.focus();
    this.input.select();
    this.search();
  }

  close() {
    if (this.bar.hidden) return;
    this.bar.hidden = true;
    this.pages.markHits([], 0);
    this.dispatchEvent(new Event("closed"));
  }

  async search() {
    const text = this.input.value;
    const hits = text.trim() ? await this.words.find(text, this.pages.sheets.map((sheet) => sheet.number)) : [];
    if (text !== this.input.value) return;
    this.hits = hits;
    this.at = 0;
    this.show();
  }

  show() {
    const n = this.hits.length;
    this.count.textContent = n ? t("review.found", { at: this.at + 1, all: n }) : this.input.value.trim() ? t("review.found_none") : "";
    this.pages.markHits(this.hits, this.at);
  }

  handleKey(event) {
    event.stopPropagation();
    if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && event.altKey) this.takeHit();
    else if (event.key === "Enter" && this.hits.length) {
      this.at = (this.at + (event.shiftKey ? -1 : 1) + this.hits.length) % this.hits.length;
      this.show();
    } else return;
    event.preventDefault();
  }

  takeHit() {
    const hit = this.hits[this.at];
    if (!hit) return;
    this.close();
    this.dispatchEvent(new CustomEvent("take", { detail: hit }));
  }
}
