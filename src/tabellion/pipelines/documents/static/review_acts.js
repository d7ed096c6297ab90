// Commands of keys and buttons that only affect the screen, not the server.

import { byId } from "./base.js";

const pressed = (id, on) => byId(id).setAttribute("aria-pressed", String(on));

const highlights = () => pressed("highlights", !byId("zone").classList.toggle("bare"));

const select = ({ pages }) => {
  pages.select(!pages.selecting);
  pressed("select", pages.selecting);
};

const MANY = 20; // pages whose words are outlined at once

const outlines = async (desk) => {
  const on = byId("words-button").getAttribute("aria-pressed") !== "true";
  pressed("words-button", on);
  desk.pages.unoutline();
  if (!on) return;
  for (const { number } of desk.pages.leaves.slice(0, MANY)) {
    const words = await desk.filling.seen(desk.words.of(number));
    desk.pages.outline(number, words || []);
  }
};

export const ACTS = {
  confirm: (desk) => desk.confirm(),
  nextRule: (desk) => void desk.reasons.cycle(1),
  previousRule: (desk) => void desk.reasons.cycle(-1),
  undo: (desk) => desk.back("undo"),
  redo: (desk) => desk.back("redo"),
  escape: (desk) => void desk.escape(),
  leave: (desk) => void desk.leave(),
  edit: (desk) => desk.edit(),
  absent: (desk) => desk.change((name) => desk.item.absent(name)),
  lock: (desk) => desk.change((name) => desk.item.toggleLock(name)),
  highlights: () => highlights(),
  words: (desk) => void outlines(desk),
  zoomIn: (desk) => desk.pages.zoomBy(1.25),
  zoomOut: (desk) => desk.pages.zoomBy(0.8),
  zoomFit: (desk) => desk.pages.fitPage(),
  pageBack: (desk) => desk.pages.pageBy(-1),
  pageOn: (desk) => desk.pages.pageBy(1),
  rotate: (desk) => desk.pages.rotate(),
  select: (desk) => select(desk),
  find: (desk) => desk.find.open(desk.words),
  history: (desk) => void desk.history.toggle(!desk.history.open, desk.item.id),
  downField: (desk) => desk.form.walk(1),
  upField: (desk) => desk.form.walk(-1),
};
