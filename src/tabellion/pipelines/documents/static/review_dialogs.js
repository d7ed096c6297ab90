// Dialogs: a choice by digit, a reason as text, and conflicts when two people changed the same field.

import { el, explain, moment, Problem, sure, t, whenClosed } from "./base.js";
import { isEmpty, textOf } from "./review_item.js";

const STALE = new Set(["not_held", "version_conflict", "item_closed", "not_found"]); // another answer would not help
const ANSWERS = /^(Enter| |[1-9])$/;

// Shows a dialog; resolves to the answer, or null if it is closed without one.
const showDialog = (dialog, answer) =>
  new Promise((resolve, reject) => {
    const before = /** @type {HTMLElement} */ (document.activeElement);
    document.body.append(dialog);
    dialog.addEventListener("broken", ({ detail }) => reject(detail));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close("no"));
    dialog.returnValue = "no";
    dialog.showModal();
    whenClosed(dialog, () => {
      dialog.remove();
      before?.focus?.({ preventScroll: true });
      resolve(dialog.returnValue === "yes" ? answer() : null);
    });
  });

// `attempt`, if given, runs the action and returns whether it succeeded.
const buildDialog = (title, note, parts, attempt = null) => {
  const heading = el("h2", { id: "question" }, title);
  const close = el("button", { type: "button", class: "quiet" }, t("base.cancel"), el("kbd", {}, "Esc"));
  const yes = el("button", { type: "submit", class: "primary" }, t("review.ok"), el("kbd", {}, "Enter"));
  const form = el("form", { method: "dialog" }, heading, ...(note ? [el("p", { class: "note" }, note)] : []), ...parts, el("div", { class: "question-actions" }, close, yes));
  const dialog = el("dialog", { class: "question", "aria-labelledby": "question" }, form);
  close.addEventListener("click", () => dialog.close("no"));
  // A key that was already down when the dialog opened is not an answer.
  dialog.addEventListener("keydown", (event) => event.repeat && ANSWERS.test(event.key) && (event.key === "Enter" || !event.target.matches("textarea")) && event.preventDefault(), { capture: true });
  let busy = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy || !form.reportValidity()) return;
    busy = true;
    try {
      if (!attempt || (await attempt())) dialog.close("yes");
    } catch (error) {
      dialog.dispatchEvent(new CustomEvent("broken", { detail: error }));
      dialog.close("no");
    } finally {
      busy = false;
    }
  });
  return { dialog, form, yes };
};

// `choices` are numbered; a digit selects one at once unless it requires a text. `words` asks for a text, `list` for one of many.
// An error of `work` is shown in the dialog, which stays open for another answer.
export const ask = async ({ title, note, choices = [], words = null, list: many = null, verb = null, danger = false, work = null }) => {
  let choice = danger ? null : choices[0] || null; // an irreversible choice is never preselected
  const radios = choices.map((_, at) => {
    const radio = el("input", { type: "radio", name: "choice", value: String(at) });
    radio.checked = at === 0 && !danger;
    radio.required = true;
    radio.addEventListener("change", () => pick(at));
    return radio;
  });
  const list = el("div", { class: "choices", role: "radiogroup" }, ...choices.map((option, at) => el("label", {}, radios[at], el("kbd", {}, String(at + 1)), el("span", {}, option.label))));
  const text = el("textarea", { rows: "2", maxlength: "500", "aria-label": words?.label || "" });
  const select = el("select", many?.required ? { required: "" } : {}, ...(many?.options || []).map(({ value, label, disabled }) => el("option", { value, ...(disabled ? { disabled: "" } : {}), ...(value === many.chosen ? { selected: "" } : {}) }, label)));
  const fault = el("p", { class: "fault", role: "alert", hidden: "" });
  const needsText = () => Boolean(words?.required || choice?.words);
  const pick = (at) => {
    choice = choices[at];
    radios[at].checked = true;
    text.required = needsText();
  };
  const parts = [...(choices.length ? [list] : []), ...(words ? [el("label", { class: "words" }, words.label, text)] : []), ...(many ? [el("label", { class: "words" }, many.label, select)] : []), fault];
  const currentAnswer = () => ({ choice: choice?.value ?? null, label: choice?.label ?? "", text: text.value.trim(), listed: select.value });
  const attempt = work && (async () => {
    yes.setAttribute("aria-busy", "true");
    try {
      await work(currentAnswer());
      return true;
    } catch (error) {
      if (!(error instanceof Problem) || STALE.has(error.code)) throw error;
      fault.textContent = explain(error);
      fault.hidden = false;
      return false;
    } finally {
      yes.removeAttribute("aria-busy");
    }
  });
  const { dialog, form, yes } = buildDialog(title, note, parts, attempt);
  if (verb) yes.firstChild.textContent = verb;
  if (danger) yes.classList.replace("primary", "danger");
  text.required = needsText();
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.defaultPrevented) return;
    if (event.key === "Enter" && !event.shiftKey && event.target !== dialog.querySelector("button.quiet")) {
      event.preventDefault();
      form.requestSubmit();
    }
    const at = Number(event.key) - 1;
    if (event.target === text || event.target === select || !choices[at] || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    pick(at);
    if (needsText()) text.focus();
    else dialog.close("yes");
  });
  const answer = showDialog(dialog, currentAnswer);
  if (!choices.length) (words ? text : many ? select : yes).focus();
  return answer;
};

const formatValue = (value) => (isEmpty(value) ? t("review.nothing") : Array.isArray(value) ? t("review.rows", { n: value.length }) : textOf(value));

// Asks whether to approve fields that nobody has reviewed; shows the value and confidence of each.
export const askUnseen = async (fields) => {
  const rows = fields.map(({ name, label, value, confidence, threshold }) => el("tr", { "data-name": name }, el("th", { scope: "row" }, label || name), el("td", {}, formatValue(value)), el("td", { class: "muted" }, t("review.sure", { sure: sure(confidence), wanted: sure(threshold) }))));
  const table = el("div", { class: "unseen-fields", tabindex: "0", role: "group", "aria-label": t("review.unseen") }, el("table", { class: "conflicts" }, el("tbody", {}, ...rows)));
  const { dialog, yes } = buildDialog(t("review.unseen"), t("review.unseen_note"), [table]);
  yes.firstChild.textContent = t("review.unseen_verb");
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  const answer = showDialog(dialog, () => true);
  yes.focus();
  return answer;
};

// One line per field that two people changed; true in the answer means mine.
export const askConflicts = async (conflicts, by) => {
  const mine = new Map(conflicts.map(({ name }) => [name, true]));
  const rows = conflicts.map((conflict) => {
    const side = (own) => {
      const radio = el("input", { type: "radio", name: `conflict-${conflict.name}` });
      radio.checked = own;
      radio.addEventListener("change", () => mine.set(conflict.name, own));
      return el("td", {}, el("label", {}, radio, el("span", {}, formatValue(own ? conflict.mine : conflict.theirs))));
    };
    const who = by[conflict.name] || {};
    const note = [who.by, who.at && moment(who.at)].filter(Boolean).join(", ");
    return el("tr", {}, el("th", { scope: "row" }, conflict.field.label || conflict.name), side(true), side(false), el("td", { class: "muted" }, note));
  });
  const head = ["review.field", "review.mine", "review.theirs", "review.their_when"].map((key) => el("th", { scope: "col" }, t(key)));
  const table = el("table", { class: "conflicts" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  const { dialog, yes } = buildDialog(t("review.conflict"), t("review.conflict_note"), [table]);
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  const answer = showDialog(dialog, () => mine);
  yes.focus();
  return answer;
};
