// The details of the current field: reasons for doubt, alternatives, and earlier values by people and models.

import { el, moment, t, textOr } from "./base.js";
import { isEmpty, isTable, same, textOf } from "./review_item.js";
import { localized } from "./messages.js";

const MOST = 9;

const formatValue = (value) => {
  if (isEmpty(value)) return t("review.nothing");
  return Array.isArray(value) ? t("review.rows", { n: value.length }) : textOf(value);
};

export const candidatesOf = (field) => (field.candidates || []).slice(0, MOST);

export const detailOf = (item, field, editable) => {
  const parts = [];
  const { name } = field;
  const error = item.error(name);
  if (error) parts.push(el("p", { class: "wrong", role: "alert" }, localized(error, "error")));
  // Visible above among the reasons; here for screen readers.
  for (const issue of item.failingIssues(name)) parts.push(el("p", { class: "unseen" }, localized(issue)));
  if (item.isMissing(name) && !error) parts.push(el("p", { class: "wrong" }, t("review.missing")));
  const read = item.checked[name]?.value;
  if (!error && item.edits.get(name)?.action === "correct" && !isTable(field) && !isEmpty(read) && textOf(read) !== textOf(item.value(name)))
    parts.push(el("p", { class: "reads" }, t("review.reads_as"), " ", el("b", {}, textOf(read))));
  if (field.three_way) parts.push(threeWayTable(item, field, editable));
  if (candidatesOf(field).length) parts.push(candidateButtons(item, field, editable));
  parts.push(evidenceLine(item, field));
  if (editable) parts.push(actionButtons(item, field));
  return parts;
};

const candidateButtons = (item, field, editable) =>
  el(
    "div",
    { class: "candidates", role: "group", "aria-label": t("review.candidates") },
    ...candidatesOf(field).map((candidate, at) => {
      const chosen = same(textOf(candidate.value), textOf(item.value(field.name)));
      const where = [textOr(`review.from.${candidate.from}`, candidate.from), candidate.page && t("review.on_page", { n: candidate.page })].filter(Boolean).join(" · ");
      const button = el("button", { type: "button", tabindex: "-1", "data-take": `candidate:${at}`, class: chosen ? "candidate chosen" : "candidate" }, el("kbd", {}, String(at + 1)), el("span", { class: "what" }, formatValue(candidate.value)), el("span", { class: "where" }, where));
      button.disabled = !editable;
      return button;
    }),
  );

const threeWayTable = (item, field, editable) => {
  const rows = [
    ["human", t("review.human"), field.three_way.human],
    ["old_model", t("review.old_model"), field.three_way.old_model],
    ["new_model", t("review.new_model"), field.three_way.new_model],
  ].map(([which, label, value]) => {
    const take = el("button", { type: "button", tabindex: "-1", class: "small", "data-take": `three:${which}` }, which === "human" ? t("review.keep") : t("review.take"));
    take.disabled = !editable;
    const now = same(textOf(value), textOf(item.value(field.name)));
    return el("tr", { class: now ? "now" : "" }, el("th", { scope: "row" }, label), el("td", {}, formatValue(value)), el("td", {}, take));
  });
  return el("table", { class: "threeway" }, el("caption", {}, t("review.three_way")), el("tbody", {}, ...rows));
};

const evidenceLine = (item, field) => {
  const line = el("p", { class: "evidence" });
  const edit = item.edits.get(field.name);
  const place = item.positionOf(field.name);
  if (edit) line.append(el("span", {}, t(`review.now.${edit.action}`)));
  else if (field.corrected_by) line.append(el("span", {}, t("review.said_by", { who: field.corrected_by, when: field.corrected_at ? moment(field.corrected_at) : "" })));
  if (place?.quote && textOf(place.quote) !== textOf(item.value(field.name))) line.append(el("q", {}, place.quote.length > 90 ? `${place.quote.slice(0, 90)}…` : place.quote));
  if (!edit && !field.corrected_by) for (const reason of localized(field, "reasons") || []) line.append(el("span", { class: "mark" }, reason));
  if (!place && !isEmpty(item.value(field.name))) line.append(el("span", { class: "mark" }, t("review.no_place")));
  return line;
};

const actionButtons = (item, field) => {
  const button = (name, key, words) => el("button", { type: "button", class: "hint", tabindex: "-1", "data-verb": name }, el("kbd", {}, key), words);
  const all = [button("confirm", "Enter", t("review.confirm")), button("edit", "e", t("review.edit")), button("absent", "x", t("review.key.absent")), button("lock", "l", t(item.isLocked(field.name) ? "review.unlock" : "review.lock"))];
  return el("div", { class: "detail-actions" }, ...all);
};
