// Finds a row of a table on the pages: rows have no boxes, but their words are on one line.

import { numberOf } from "./review_table.js";
import { linesOf, plain, union } from "./review_words.js";

const LEAST = 0.5; // share of a row that must be found on one line
const MOST = 30; // pages that are searched
const TEXT = 2; // the weight of a text; a number has 1
const DIGITS = /^[^\p{L}]*\d[^\p{L}]*$/u;
const APART = 3; // the number of words that one number may consist of: 1 234 567,00

const partsOf = (text) => plain(text).split(/[^\p{L}\p{N}]+/u).filter(Boolean);

// The words of a line, indexed by text and by number.
const indexWords = (words) => {
  const texts = new Map();
  const numbers = new Map();
  words.forEach((word, at) => {
    for (const part of partsOf(word[0])) texts.set(part, word);
    for (let end = at + 1; end <= Math.min(at + APART, words.length); end += 1) {
      const run = words.slice(at, end);
      if (!run.every((member) => DIGITS.test(member[0]))) break;
      const number = numberOf(run.map((member) => member[0]).join(""));
      if (number !== null && !numbers.has(number)) numbers.set(number, run);
    }
  });
  return { texts, numbers };
};

// The share of a row that is on a line, and the words that match.
const matchRow = (cells, line) => {
  let [found, all] = [0, 0];
  const words = new Set();
  for (const cell of cells) {
    const number = DIGITS.test(cell) ? numberOf(cell) : null;
    const run = number !== null && line.numbers.get(number);
    const parts = partsOf(cell);
    all += number === null ? TEXT : 1;
    if (run) {
      found += 1;
      for (const word of run) words.add(word);
    } else if (number === null && parts.length) {
      const here = parts.filter((part) => line.texts.has(part));
      found += (TEXT * here.length) / parts.length;
      for (const part of here) words.add(line.texts.get(part));
    }
  }
  return { share: all ? found / all : 0, words: [...words] };
};

const cellsOf = (row) => Object.values(row || {}).filter((value) => value !== null && value !== "").map(String);

// The position of row `at`; of identical rows, the first is on the first matching line, and so on.
export const locateRow = async (words, pages, rows, at) => {
  const cells = cellsOf(rows[at]);
  const again = rows.slice(0, at).filter((row) => cellsOf(row).join("\n") === cells.join("\n")).length;
  let [best, places] = [LEAST, []];
  for (const page of pages.slice(0, MOST)) {
    for (const line of linesOf(await words.of(page))) {
      const { share, words: hit } = matchRow(cells, indexWords(line));
      if (share < best || !hit.length) continue;
      if (share > best) places = [];
      best = share;
      places.push({ page, box: union(hit.map((word) => word.slice(1))) });
    }
  }
  return places[Math.min(again, places.length - 1)] || null;
};
