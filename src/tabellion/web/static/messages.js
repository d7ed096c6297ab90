// Messages in the language of the page: a code and its parameters become a sentence. Pages in English come without
// catalogue, and every text stays as the server wrote it.

const read = (id) => JSON.parse(document.getElementById(id)?.textContent || "{}");
const language = document.documentElement.lang || "en";
const numbers = new Intl.NumberFormat(language);
const plurals = new Intl.PluralRules(language);
const DECIMAL = /^-?\d+\.\d+$/;

let messages = null, titles = null;

function load() {
  const given = read("messages");
  const words = Object.entries(read("words")).filter(([key]) => key.startsWith("fields."));
  const named = (start, not) => Object.fromEntries(words.filter(([key]) => key.startsWith(start) && !(not && key.startsWith(not))).map(([key, text]) => [key.slice(start.length), text]));
  messages = given.messages ?? {};
  titles = { fields: { ...given.fields, ...named("fields.", "fields.type.") }, types: named("fields.type.") };
}

/** One of the two forms of a text that counts something. */
export const counted = (template, n) => (Array.isArray(template) ? template[plurals.select(Number(n)) === "one" ? 0 : 1] : template);

/** A name within a sentence begins small; abbreviations stay large. */
const lowered = (text) => (/^.\p{Lu}/u.test(text) ? text : text[0].toLowerCase() + text.slice(1));

/** What a field is called, be it a cell: `line_items[0].amount`. */
function title(path, within) {
  const [, name, row, column] = /^(\w+)(?:\[(\d+)\](?:\.(\w+))?)?$/.exec(path) ?? [];
  if (name === undefined) return path;
  if (row !== undefined) return message({ code: column ? "field.cell" : "field.row", params: { field: name, n: Number(row) + 1, column } }, within);
  const known = titles.fields[name] ?? name.replaceAll("_", " ");
  return within ? lowered(known) : known[0].toUpperCase() + known.slice(1);
}

/** A parameter as it stands in a sentence; some are known by their names. */
function shown(name, value, within) {
  if (Array.isArray(value)) return value.map((one, at) => shown(name, one, within || at > 0)).join(", ");
  if (value && typeof value === "object") return "code" in value ? message(value, within) ?? value.code : value[language] ?? Object.values(value)[0] ?? "";
  if (name === "field" || name === "fields" || name === "column") return title(String(value), within);
  if (name === "type") return lowered(titles.types[value] ?? String(value));
  if (typeof value === "number") return numbers.format(value);
  return ["n", "threshold", "quality"].includes(name) && DECIMAL.test(value) ? value.replace(".", ",") : String(value);
}

/**
 * The sentence of a message; null where the language has none for its code.
 * @param {{ code: string, params?: Record<string, any> }} form
 */
export function message({ code, params = {} }, within = false) {
  if (messages === null) load();
  const template = counted(messages[code], params.n);
  return template === undefined ? null : template.replace(/\{(\w+)\}/g, (hole, name, at) => (name in params ? shown(name, params[name], within || at > 0) : hole));
}

/** A text of the server's data in the language of the page: `localized(issue)`, `localized(problem, "detail")`, `localized(field, "reasons")`. */
export function localized(data, name = "message") {
  const text = data?.[name], form = data?.translatable?.[name];
  if (Array.isArray(text)) return text.map((one, at) => (form?.[at] && message(form[at])) ?? one);
  return (form && message(form)) ?? text ?? "";
}
