// The words of a document's pages: fetched once, found by position or by text.

import { api } from "./base.js";

const LONGEST = 2000; // characters of a quote that are kept
const LINE = 0.5; // the overlap, as a share of the height, for two words to be on one line

export const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

export const union = (boxes) => [
  Math.min(...boxes.map((box) => box[0])),
  Math.min(...boxes.map((box) => box[1])),
  Math.max(...boxes.map((box) => box[2])),
  Math.max(...boxes.map((box) => box[3])),
];

// Words in reading order, one array per line.
export const linesOf = (words) => {
  const lines = [];
  for (const word of [...words].sort((a, b) => a[2] + a[4] - (b[2] + b[4]))) {
    const line = lines.find(({ top, bottom }) => {
      const overlap = Math.min(bottom, word[4]) - Math.max(top, word[2]);
      return overlap > LINE * Math.min(bottom - top, word[4] - word[2]);
    });
    if (line) line.words.push(word);
    else lines.push({ top: word[2], bottom: word[4], words: [word] });
  }
  return lines.map((line) => line.words.sort((a, b) => a[1] - b[1]));
};

export class Words {
  constructor(documentId) {
    this.documentId = documentId;
    this.pages = new Map();
  }

  async of(page) {
    if (!this.pages.has(page)) {
      const request = api("GET", `/api/documents/${encodeURIComponent(this.documentId)}/pages/${page}/words`).then(
        ({ data }) => data.words || [],
      );
      this.pages.set(page, request);
      request.catch(() => this.pages.delete(page));
    }
    return this.pages.get(page);
  }

  // The words in a box that the person drew: those whose centre is in it.
  async within(page, [x0, y0, x1, y1]) {
    const words = (await this.of(page)).filter(([, a, b, c, d]) => {
      const x = (a + c) / 2;
      const y = (b + d) / 2;
      return x >= x0 && x <= x1 && y >= y0 && y <= y1;
    });
    return this.result(page, words);
  }

  async at(page, x, y) {
    const words = (await this.of(page)).filter(([, a, b, c, d]) => x >= a && x <= c && y >= b && y <= d);
    return this.result(page, words.slice(0, 1));
  }

  result(page, words) {
    if (!words.length) return null;
    const lines = linesOf(words).map((line) => line.map((word) => word[0]).join(" "));
    return { page, box: union(words.map((word) => word.slice(1))), quote: lines.join("\n").slice(0, LONGEST), value: lines.join(" ") };
  }

  // Every position of the text, ignoring accents and case; it may span several words of a page.
  async find(text, pages) {
    const needle = plain(text).replace(/\s+/g, " ").trim();
    if (!needle) return [];
    const found = [];
    for (const page of pages) {
      const words = linesOf(await this.of(page).catch(() => [])).flat();
      const starts = [];
      let all = "";
      for (const word of words) {
        starts.push(all.length);
        all += `${plain(word[0])} `;
      }
      for (let at = all.indexOf(needle); at >= 0; at = all.indexOf(needle, at + needle.length)) {
        const hit = words.filter((word, place) => {
          const end = starts[place + 1] - 1 || all.length;
          return starts[place] < at + needle.length && end > at;
        });
        if (hit.length) found.push(this.result(page, hit));
      }
    }
    return found;
  }
}
