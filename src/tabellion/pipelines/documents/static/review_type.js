// The type of a document: asks the person if it is unknown, then has the document read again.

import { data, el, t, toast } from "./base.js";
import { ask } from "./review_dialogs.js";
import { get, post } from "./review_net.js";

const PAUSE = 400; // milliseconds between two requests while a document is being read
const PATIENCE = 120; // requests
const RUNNING = new Set(["queued", "processing"]);

// Shown instead of fields for a document without a type.
export const untyped = () =>
  el("div", { class: "untyped" }, el("h3", {}, t("review.no_type")), el("p", {}, t("review.no_type_note")),
    el("button", { type: "button", class: "primary", "data-verb": "retype" }, el("span", {}, t("review.retype")), el("kbd", {}, "g t")));

const paused = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

// The item once its document has been read; null if that takes too long.
const read = async (id) => {
  for (let look = 0; look < PATIENCE; look += 1) {
    await paused();
    const whole = await get(id);
    if (!RUNNING.has(whole.document.status)) return whole;
  }
  return null;
};

// Asks for the type and has the document read again; the item with its new fields, or null if none was chosen.
export const retyped = async (item, store) => {
  const chosen = item.whole.type;
  const types = Object.entries(data.types).map(([value, label]) => ({ value, label }));
  const options = chosen ? types : [{ value: "", label: "" }, ...types]; // nothing is preselected
  const answer = await ask({
    title: t(chosen ? "review.retype_change" : "review.retype"), note: t("review.retype_note"), verb: t("review.retype_verb"),
    list: { label: t("review.retype_label"), options, chosen, required: true },
    work: async ({ listed }) => {
      await store();
      await post(item.id, "type", { type: listed });
    },
  });
  if (!answer) return null;
  const type = data.types[answer.listed] || answer.listed;
  toast(t("review.reading_as", { type }), "", 3);
  const whole = await read(item.id);
  if (whole) toast(t("review.read_as", { type }), "good", 2.5);
  else toast(t("review.read_later"), "warn");
  return whole || get(item.id);
};
