// Messages in the language of the page: a code and its parameters become a sentence. English pages have no catalogue:
// there, every text stays as the server wrote it.

const read = (id) => JSON.parse(document.getElementById(id)?.textContent || "{}");
const language = document.documentElement.lang || "en";
const numbers = new Intl.NumberFormat(language);
const plurals = new Intl.PluralRules(language);
const DECIMAL = /^-?\d+\.\d+$/;

let messages = null, titles = null;

function load() {
  const catalogue = read("messages");
  const words = Object.entries(read("words")).filter(([key]) => key.startsWith("fields."));
  const titlesOf = (start, except) => Object.fromEntries(words.filter(([key]) => key.startsWith(start) && !(except && key.startsWith(except))).map(([key, text]) => [key.slice(start.length), text]));
  messages = catalogue.messages ?? {};
  titles = { fields: { ...catalogue.fields, ...titlesOf("fields.", "fields.type.") }, types: titlesOf("fields.type.") };
}

/** The singular or plural of a template. */
export const selectPlural = (template, n) => (Array.isArray(template) ? template[plurals.select(Number(n)) === "one" ? 0 : 1] : template);

/** A name within a sentence starts in lower case; abbreviations stay as they are. */
const lowerFirst = (text) => (/^.\p{Lu}/u.test(text) ? text : text[0].toLowerCase() + text.slice(1));

/** The title of a field or of a cell: `line_items[0].amount`. */
function title(path, within) {
  const [, name, row, column] = /^(\w+)(?:\[(\d+)\](?:\.(\w+))?)?$/.exec(path) ?? [];
  if (name === undefined) return path;
  if (row !== undefined) return message({ code: column ? "field.cell" : "field.row", params: { field: name, n: Number(row) + 1, column } }, within);
  const label = titles.fields[name] ?? name.replaceAll("_", " ");
  return within ? lowerFirst(label) : label[0].toUpperCase() + label.slice(1);
}

/** A parameter as it appears in a sentence; some have a meaning by their name. */
function formatParameter(name, value, within) {
  if (Array.isArray(value)) return value.map((item, at) => formatParameter(name, item, within || at > 0)).join(", ");
  if (value && typeof value === "object") return "code" in value ? message(value, within) ?? value.code : value[language] ?? Object.values(value)[0] ?? "";
  if (name === "field" || name === "fields" || name === "column") return title(String(value), within);
  if (name === "type") return lowerFirst(titles.types[value] ?? String(value));
  if (typeof value === "number") return numbers.format(value);
  return ["n", "threshold", "quality"].includes(name) && DECIMAL.test(value) ? value.replace(".", ",") : String(value);
}

/**
 * The sentence of a message; null if the language has none for its code.
 * @param {{ code: string, params?: Record<string, any> }} form
 */
export function message({ code, params = {} }, within = false) {
  if (messages === null) load();
  const template = selectPlural(messages[code], params.n);
  return template === undefined ? null : template.replace(/\{(\w+)\}/g, (hole, name, at) => (name in params ? formatParameter(name, params[name], within || at > 0) : hole));
}

/** A text of the server's data in the language of the page: `localized(issue)`, `localized(problem, "detail")`, `localized(field, "reasons")`. */
export function localized(data, name = "message") {
  const text = data?.[name], form = data?.translatable?.[name];
  if (Array.isArray(text)) return text.map((item, at) => (form?.[at] && message(form[at])) ?? item);
  return (form && message(form)) ?? text ?? "";
}
