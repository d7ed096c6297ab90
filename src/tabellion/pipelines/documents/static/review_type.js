// The type of a document: asks the person if it is unknown, then has the document read again.

import { data, el, t, toast } from "./base.js";
import { ask } from "./review_dialogs.js";
import { get, post } from "./review_api.js";

const PAUSE = 400; // milliseconds between two requests while a document is being read
const PATIENCE = 120; // requests
const RUNNING = new Set(["queued", "processing"]);

// Shown instead of fields for a document without a type.
export const noTypeNotice = () =>
  el("div", { class: "no-type" }, el("h3", {}, t("review.no_type")), el("p", {}, t("review.no_type_note")),
    el("button", { type: "button", class: "primary", "data-verb": "retype" }, el("span", {}, t("review.retype")), el("kbd", {}, "g t")));

const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE));

// The item once its document has been read; null if that takes too long.
const waitUntilRead = async (id) => {
  for (let look = 0; look < PATIENCE; look += 1) {
    await pause();
    const loaded = await get(id);
    if (!RUNNING.has(loaded.document.status)) return loaded;
  }
  return null;
};

// Asks for the type and has the document read again; the item with its new fields, or null if none was chosen.
export const changeType = async (item, store) => {
  const chosen = item.data.type;
  const types = Object.entries(data.types).map(([value, label]) => ({ value, label }));
  const options = chosen ? types : [{ value: "", label: "" }, ...types]; // nothing is preselected
  const answer = await ask({
    title: t(chosen ? "review.retype_change" : "review.retype"), note: t("review.retype_note"), verb: t("review.retype_verb"),
    list: { label: t("base.type"), options, chosen, required: true },
    work: async ({ listed }) => {
      await store();
      await post(item.id, "type", { type: listed });
    },
  });
  if (!answer) return null;
  const type = data.types[answer.listed] || answer.listed;
  toast(t("review.reading_as", { type }), "", 3);
  const loaded = await waitUntilRead(item.id);
  if (loaded) toast(t("review.read_as", { type }), "good", 2.5);
  else toast(t("review.read_later"), "warn");
  return loaded || get(item.id);
};
