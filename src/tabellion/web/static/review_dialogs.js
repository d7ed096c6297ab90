// Questions: a choice by digit, a reason in words, and what to do when two people changed the same field.

import { el, moment, t } from "./base.js";
import { isEmpty, textOf } from "./review_item.js";

const ANSWERS = /^(Enter| |[1-9])$/;

// Shows a dialog until it is answered; null when it is closed without an answer.
const asked = (dialog, answer) =>
  new Promise((resolve) => {
    const before = document.activeElement;
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      before?.focus?.({ preventScroll: true });
      resolve(dialog.returnValue === "yes" ? answer() : null);
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close("no"));
    dialog.returnValue = "no";
    dialog.showModal();
  });

const framed = (title, note, ...parts) => {
  const heading = el("h2", { id: "question" }, title);
  const close = el("button", { type: "button", class: "quiet" }, t("review.cancel"), el("kbd", {}, "Esc"));
  const yes = el("button", { type: "submit", class: "primary" }, t("review.ok"), el("kbd", {}, "Enter"));
  const form = el("form", { method: "dialog" }, heading, ...(note ? [el("p", { class: "note" }, note)] : []), ...parts, el("div", { class: "verbs" }, close, yes));
  const dialog = el("dialog", { class: "question", "aria-labelledby": "question" }, form);
  close.addEventListener("click", () => dialog.close("no"));
  // A key that is still down from before the question is no answer to it.
  dialog.addEventListener("keydown", (event) => event.repeat && ANSWERS.test(event.key) && (event.key === "Enter" || !event.target.matches("textarea")) && event.preventDefault(), { capture: true });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (form.reportValidity()) dialog.close("yes");
  });
  return { dialog, form, yes };
};

// `choices` are numbered; a digit takes one at once unless it wants words. `words` asks for a text.
export const ask = async ({ title, note, choices = [], words = null, verb = null, danger = false }) => {
  let choice = danger ? null : choices[0] || null; // nothing that cannot be undone is chosen beforehand
  const radios = choices.map((one, at) => {
    const radio = el("input", { type: "radio", name: "choice", value: String(at) });
    radio.checked = at === 0 && !danger;
    radio.required = true;
    radio.addEventListener("change", () => pick(at));
    return radio;
  });
  const list = el("div", { class: "choices", role: "radiogroup" }, ...choices.map((one, at) => el("label", {}, radios[at], el("kbd", {}, String(at + 1)), el("span", {}, one.label))));
  const text = el("textarea", { rows: "2", maxlength: "500", "aria-label": words?.label || "" });
  const needs = () => Boolean(words?.required || choice?.words);
  const pick = (at) => {
    choice = choices[at];
    radios[at].checked = true;
    text.required = needs();
  };
  const parts = [...(choices.length ? [list] : []), ...(words ? [el("label", { class: "words" }, words.label, text)] : [])];
  const { dialog, form, yes } = framed(title, note, ...parts);
  if (verb) yes.firstChild.textContent = verb;
  if (danger) yes.classList.replace("primary", "danger");
  text.required = needs();
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.defaultPrevented) return;
    if (event.key === "Enter" && !event.shiftKey && event.target !== dialog.querySelector("button.quiet")) {
      event.preventDefault();
      form.requestSubmit();
    }
    const at = Number(event.key) - 1;
    if (event.target === text || !choices[at] || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    pick(at);
    if (needs()) text.focus();
    else dialog.close("yes");
  });
  const answer = asked(dialog, () => ({ choice: choice?.value ?? null, label: choice?.label ?? "", text: text.value.trim() }));
  if (!choices.length) (words ? text : yes).focus();
  return answer;
};

const told = (value) => (isEmpty(value) ? t("review.nothing") : Array.isArray(value) ? t("review.rows", { n: value.length }) : textOf(value));

// One line a field that two people changed; true in the answer means mine.
export const settle = async (conflicts, by) => {
  const mine = new Map(conflicts.map(({ name }) => [name, true]));
  const rows = conflicts.map((conflict) => {
    const side = (own) => {
      const radio = el("input", { type: "radio", name: `conflict-${conflict.name}` });
      radio.checked = own;
      radio.addEventListener("change", () => mine.set(conflict.name, own));
      return el("td", {}, el("label", {}, radio, el("span", {}, told(own ? conflict.mine : conflict.theirs))));
    };
    const who = by[conflict.name] || {};
    const note = [who.by, who.at && moment(who.at)].filter(Boolean).join(", ");
    return el("tr", {}, el("th", { scope: "row" }, conflict.field.label || conflict.name), side(true), side(false), el("td", { class: "muted" }, note));
  });
  const head = ["review.field", "review.mine", "review.theirs", "review.their_when"].map((key) => el("th", { scope: "col" }, t(key)));
  const table = el("table", { class: "conflicts" }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  const { dialog, yes } = framed(t("review.conflict"), t("review.conflict_note"), table);
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  const answer = asked(dialog, () => mine);
  yes.focus();
  return answer;
};
