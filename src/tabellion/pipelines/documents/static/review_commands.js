// Commands of keys and buttons that only affect the screen, not the server.

import { byId } from "./base.js";

const setPressed = (id, on) => byId(id).setAttribute("aria-pressed", String(on));

const toggleHighlights = () => setPressed("highlights", !byId("zone").classList.toggle("without-boxes"));

const toggleSelecting = ({ pages }) => {
  pages.setSelecting(!pages.isSelecting);
  setPressed("select", pages.isSelecting);
};

const MANY = 20; // pages whose words are outlined at once

const toggleOutlines = async (screen) => {
  const on = byId("words-button").getAttribute("aria-pressed") !== "true";
  setPressed("words-button", on);
  screen.pages.removeOutlines();
  if (!on) return;
  for (const { number } of screen.pages.sheets.slice(0, MANY)) {
    const words = await screen.valuePicker.resultOrNull(screen.words.of(number));
    screen.pages.outline(number, words || []);
  }
};

/** @type {Record<string, (screen: import("./review.js").ReviewScreen) => any>} */
export const SCREEN_COMMANDS = {
  confirm: (screen) => screen.confirmField(),
  nextRule: (screen) => void screen.reasons.cycle(1),
  previousRule: (screen) => void screen.reasons.cycle(-1),
  undo: (screen) => screen.undoOrRedo("undo"),
  redo: (screen) => screen.undoOrRedo("redo"),
  escape: (screen) => void screen.handleEscape(),
  leave: (screen) => void screen.leave(),
  edit: (screen) => screen.editField(),
  absent: (screen) => screen.changeField((name) => screen.item.toggleAbsent(name)),
  lock: (screen) => screen.changeField((name) => screen.item.toggleLock(name)),
  highlights: () => toggleHighlights(),
  words: (screen) => void toggleOutlines(screen),
  zoomIn: (screen) => screen.pages.zoomBy(1.25),
  zoomOut: (screen) => screen.pages.zoomBy(0.8),
  zoomFit: (screen) => screen.pages.fitPage(),
  pageBack: (screen) => screen.pages.pageBy(-1),
  pageOn: (screen) => screen.pages.pageBy(1),
  rotate: (screen) => screen.pages.rotate(),
  select: (screen) => toggleSelecting(screen),
  find: (screen) => screen.search.open(screen.words),
  history: (screen) => void screen.history.toggle(!screen.history.isOpen, screen.item.id),
  downField: (screen) => screen.form.moveBy(1),
  upField: (screen) => screen.form.moveBy(-1),
};
