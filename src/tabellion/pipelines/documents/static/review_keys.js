// The key map. Letters are commands only while no input has the focus; the rest works everywhere.

import { t } from "./base.js";

const SEQUENCE = 1500; // milliseconds between the two keys of a pair

// [keys, verb, whether it also works while typing]
/** @type {[string, string, boolean?][]} */
export const MAP = [
  ["Enter", "confirm", true],
  ["Ctrl+Enter", "approve", true],
  ["Tab", "nextField", true],
  ["Shift+Tab", "previousField", true],
  ["Ctrl+s", "save", true],
  ["Alt+ArrowDown", "nextRule", true],
  ["Alt+ArrowUp", "previousRule", true],
  ["Ctrl+z", "undo", true],
  ["Ctrl+Shift+z", "redo", true],
  ["Ctrl+y", "redo", true],
  ["Escape", "escape", true],
  ["Alt+r", "reject", true],
  ["e", "edit"],
  ["F2", "edit", true],
  ["x", "absent"],
  ["l", "lock"],
  ["p", "postpone"],
  ["u", "release"],
  ["g e", "escalate"],
  ["g a", "assign"],
  ["g t", "retype"],
  ["c", "claim"],
  ["h", "highlights"],
  ["H", "words"],
  ["+", "zoomIn"],
  ["=", "zoomIn"],
  ["-", "zoomOut"],
  ["0", "zoomFit"],
  ["[", "pageBack"],
  ["]", "pageOn"],
  ["r", "rotate"],
  ["s", "select"],
  ["/", "find"],
  ["t", "history"],
  ["o", "reopen"],
  ["j", "downField"],
  ["k", "upField"],
  ["ArrowDown", "downField"],
  ["ArrowUp", "upField"],
];

// Commands that repeat while a key is held: navigation. A command that changes something needs a press of its own.
const REPEATING = new Set(["nextField", "previousField", "nextRule", "previousRule", "zoomIn", "zoomOut", "pageBack", "pageOn", "downField", "upField"]);

const SHOWN = { ArrowDown: "↓", ArrowUp: "↑", Escape: "Esc", "-": "−" };
const formatKeys = (keys) => (keys === "+" ? keys : keys.split("+").map((part) => SHOWN[part] || (keys.includes("+") && part.length === 1 ? part.toUpperCase() : part)).join("+"));

// For the help that `?` opens: each command once, with the first of its keys.
export const keyHelp = () => {
  const listed = new Set();
  const lines = MAP.filter(([, verb]) => !listed.has(verb) && listed.add(verb)).map(([keys, verb]) => ({ key: formatKeys(keys), does: t(`review.key.${verb}`) }));
  lines.splice(3, 0, { key: "1…9", does: t("review.key.candidate") });
  return [
    ...lines,
    { key: "Alt+Ins", does: t("review.key.row_add") },
    { key: "Alt+Del", does: t("review.key.row_delete") },
    { key: t("review.key.drag_how"), does: t("review.key.drag") },
    { key: t("review.key.word_how"), does: t("review.key.word") },
  ];
};

const isTyping = (node) => node.matches?.("input:not([type=radio]):not([type=checkbox]):not([type=button]), textarea, select, [contenteditable]");

const keyName = (event) => {
  const graph = event.getModifierState?.("AltGraph"); // with which many keyboards type [ and ]
  const ctrl = (event.ctrlKey || event.metaKey) && !graph;
  const alt = event.altKey && !graph;
  let key = event.key;
  if (alt && /^Key[A-Z]$/.test(event.code)) key = event.code.slice(3).toLowerCase();
  if (ctrl && key.length === 1) key = key.toLowerCase();
  const shift = event.shiftKey && (key.length > 1 || ctrl);
  return `${ctrl ? "Ctrl+" : ""}${alt ? "Alt+" : ""}${shift ? "Shift+" : ""}${key}`;
};

const BOUND = new Map(MAP.map(([keys, verb, typing]) => [keys, { verb, typing: Boolean(typing) }]));
const FIRSTS = new Set(MAP.filter(([keys]) => keys.includes(" ")).map(([keys]) => keys.split(" ")[0]));

/** @param {import("./review.js").ReviewScreen} screen */
export const bindKeys = (screen) => {
  let first = null;
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
    const typing = isTyping(event.target);
    const name = keyName(event);
    if (event.repeat && !REPEATING.has(BOUND.get(name)?.verb)) {
      if (BOUND.has(name) && (BOUND.get(name).typing || !typing)) event.preventDefault();
      return;
    }
    const pair = first && event.timeStamp - first.at < SEQUENCE ? `${first.key} ${name}` : null;
    first = null;
    let found = pair && !typing ? BOUND.get(pair) : null;
    if (!found) found = BOUND.get(name);
    if (!found && !typing && FIRSTS.has(name)) {
      first = { key: name, at: event.timeStamp }; // the time of the press: the page may be busy
      event.preventDefault();
      return;
    }
    if (found && (found.typing || !typing)) {
      if (screen.handleKey(found.verb, event) !== false) event.preventDefault();
      return;
    }
    // On keyboards that type digits with Shift, the key itself counts.
    const digit = /^[1-9]$/.test(event.key) ? event.key : /^Digit[1-9]$/.test(event.code) && event.key.length === 1 ? event.code.at(-1) : null;
    if (digit && !typing && !event.ctrlKey && !event.altKey && !event.metaKey && screen.valuePicker.takeCandidate(Number(digit) - 1)) event.preventDefault();
  });
};
