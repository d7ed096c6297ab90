// Sentences of the reader, the rules and the server in the language of the page; what they are called in English is how
// they are found. Pages in English come without templates, and every text stays as it is.

const read = (id) => JSON.parse(document.getElementById(id)?.textContent || "{}");

/** What may stand in a hole, by how its name begins; the first that fits counts. */
const PATH = "[a-z_][a-z0-9_]*(?:\\[\\d+\\](?:\\.[a-z_][a-z0-9_]*)?)?";
const NUMBER = "-?\\d[\\d.,]*";
const SHOWN = "'.*?'|\".*?\"|\\(nothing\\)|\\(\\d+ rows?\\)|[^\\s']+";
const HOLES = [
  ["fields", `${PATH}(?:, ${PATH})*`, (text, lower) => text.split(", ").map((one) => title(one, lower)).join(", ")],
  ["field", PATH, (text, lower) => title(text, lower)],
  ["type", "[\\w-]+", (text) => lowered(titles.types[text] ?? text)],
  ["said", ".+", (text) => saying(text)],
  ["shown", SHOWN, (text) => shown(text)],
  ["n", NUMBER, (text) => (/^\d{1,3}(,\d{3})+$/.test(text) ? text.replaceAll(",", "\u00a0") : text.replace(/^(-?\d+)\.(\d+)$/, "$1,$2"))],
  ["text", ".+", (text) => text],
  ["", "\\S+", (text) => text],
];

let exact = null, holed = null, titles = null;

/** What a field is called, be it a cell: `line_items[0].amount`. Within a sentence it begins small. */
function title(path, lower) {
  const [, name, row, column] = /^(\w+)(?:\[(\d+)\](?:\.(\w+))?)?$/.exec(path);
  if (row !== undefined) return saying([name, `row ${Number(row) + 1}`, column].filter(Boolean).join(", "));
  const known = titles.fields[name] ?? name.replaceAll("_", " ");
  return lower ? lowered(known) : known[0].toUpperCase() + known.slice(1);
}

/** A name within a sentence; abbreviations stay large. */
const lowered = (text) => (/^.\p{Lu}/u.test(text) ? text : text[0].toLowerCase() + text.slice(1));

/** A value as messages show it: in the quotes of the language. */
const shown = (text) => {
  const quoted = /^(['"])(.*)\1$/s.exec(text);
  if (quoted) return `«\u00a0${quoted[2]}\u00a0»`;
  return text.startsWith("(") ? saying(text) : text;
};

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const ruleOf = (name) => HOLES.find(([start]) => (start === "n" ? /^n([a-z]*)$/.test(name) && !/^name/.test(name) : name.startsWith(start)));

function made(english, said) {
  const names = [...english.matchAll(/\{(\w+)\}/g)].map((one) => one[1]);
  const fixed = english.split(/\{\w+\}/);
  const pattern = fixed.map(escaped).reduce((before, part, at) => `${before}(${ruleOf(names[at - 1])[1]})${part}`);
  return { length: fixed.join("").length, names, pattern: new RegExp(`^${pattern}$`, "s"), said };
}

function load() {
  const { templates = {}, fields = {} } = read("sentences");
  const words = Object.entries(read("words")).filter(([key]) => key.startsWith("fields."));
  const named = (start, not) => Object.fromEntries(words.filter(([key]) => key.startsWith(start) && !(not && key.startsWith(not))).map(([key, text]) => [key.slice(start.length), text]));
  titles = { fields: { ...fields, ...named("fields.", "fields.type.") }, types: named("fields.type.") };
  const all = Object.entries(templates);
  exact = new Map(all.filter(([english]) => !english.includes("{")));
  // The one that says most of it itself is the one that was meant.
  holed = all.filter(([english]) => english.includes("{")).map(([english, said]) => made(english, said)).sort((one, other) => other.length - one.length);
}

function filled({ names, said }, found) {
  return said.replace(/\{(\w+)\}/g, (_, name, at) => ruleOf(name)[2](found[names.indexOf(name) + 1], at > 0));
}

/** What a rule has seen, behind its message: the values of its fields, and its tolerance. */
function ruled(text) {
  const [, message, seen] = /^(.+?) \((.+)\)$/s.exec(text) ?? [];
  if (!message || !exact.has(message)) return null;
  const values = seen.replace(/([a-z_][a-z0-9_]*) ('.*?'(?=, [a-z_]+ |$)|\([^)]*\)|[^\s,]+)(, |$)/gs, (_, name, value, end) => `${exact.get(name) ?? title(name, true)} ${shown(value)}${end}`);
  return `${exact.get(message)} (${values})`;
}

/** A text of ours in the language of the page; what is not ours, and what nobody has translated, as it came. */
export function saying(text) {
  if (typeof text !== "string" || !text) return text;
  if (exact === null) load();
  if (!exact.size) return text;
  const whole = exact.get(text) ?? ruled(text);
  if (whole) return whole;
  for (const template of holed) {
    const found = template.pattern.exec(text);
    if (found) return filled(template, found);
  }
  return text;
}
