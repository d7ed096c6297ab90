// The history of a document: who or what set which value when, newest first.

import { api, el, fieldTitle, moment, t } from "./base.js";
import { describeReason } from "./review_reason_text.js";
import { icon } from "./review_icons.js";
import { isEmpty, same, textOf } from "./review_item.js";

const formatValue = (value) => (isEmpty(value) ? t("review.nothing") : Array.isArray(value) ? t("review.rows", { n: value.length }) : textOf(value));

/** The action, with the assignee or the former holder. */
const describeAction = ({ action, before, after }) => {
  if (action === "assigned" || action === "reassigned") return after ? t("review.given_to", { after }) : t("review.given_nobody");
  return action === "expired" && before ? t("review.ran_out", { before }) : t(`review.did.${action}`);
};

/** The label of a field in the form. */
const fieldLabel = (field) => fieldTitle(field, document.querySelector(`#fields [data-name="${CSS.escape(field)}"] label`)?.firstChild?.textContent);

const makeEntry = ({ at, actor, action, field, before, after, reason, more }) => {
  const hasChanged = !same(before, after) && Boolean(field);
  return el(
    "li",
    { class: `entry-${action}` },
    el("div", { class: "what" }, el("b", {}, describeAction({ action, before, after })), ...(field ? [" ", el("em", {}, fieldLabel(field))] : [])),
    ...(hasChanged ? [el("div", { class: "values" }, el("del", {}, formatValue(before)), " → ", el("ins", {}, formatValue(after)))] : []),
    ...(field && !hasChanged && !isEmpty(after) ? [el("div", { class: "values" }, el("ins", {}, formatValue(after)))] : []),
    ...(reason ? [el("div", { class: "reason" }, describeReason(reason, more))] : []),
    el("div", { class: "muted" }, `${actor || ""} · ${moment(at)}`),
  );
};

export class History {
  constructor(drawer, onError) {
    this.drawer = drawer;
    this.onError = onError;
    this.list = el("ol", { class: "history-list" });
    const close = el("button", { type: "button", class: "quiet square", "aria-label": t("base.close") }, icon("close"));
    close.addEventListener("click", () => this.toggle(false));
    drawer.replaceChildren(el("div", { class: "drawerhead" }, el("h2", {}, t("base.history")), el("kbd", {}, "t"), close), this.list);
  }

  get isOpen() {
    return !this.drawer.hidden;
  }

  async toggle(on, id = this.id) {
    this.id = id;
    this.drawer.hidden = !on;
    if (on) await this.load();
  }

  async load() {
    const id = this.id;
    let data;
    try {
      ({ data } = await api("GET", `/api/review/items/${encodeURIComponent(id)}/history`));
    } catch (error) {
      return void this.onError(error, id);
    }
    if (id !== this.id) return;
    const entries = [...data.entries].sort((a, b) => b.n - a.n);
    this.list.replaceChildren(...(entries.length ? entries.map(makeEntry) : [el("li", { class: "muted" }, t("review.history_empty"))]));
  }
}
