// The history of a document: who or what set which value when, newest first.

import { api, el, fieldTitle, moment, t } from "./base.js";
import { because } from "./review_because.js";
import { icon } from "./review_icons.js";
import { isEmpty, same, textOf } from "./review_item.js";

const display = (value) => (isEmpty(value) ? t("review.nothing") : Array.isArray(value) ? t("review.rows", { n: value.length }) : textOf(value));

/** The action, with the assignee or the former holder. */
const done = ({ action, before, after }) => {
  if (action === "assigned" || action === "reassigned") return after ? t("review.given_to", { after }) : t("review.given_nobody");
  return action === "expired" && before ? t("review.ran_out", { before }) : t(`review.did.${action}`);
};

/** The label of a field in the form. */
const named = (field) => fieldTitle(field, document.querySelector(`#fields [data-name="${CSS.escape(field)}"] label`)?.firstChild?.textContent);

const entry = ({ at, actor, action, field, before, after, reason, more }) => {
  const changed = !same(before, after) && Boolean(field);
  return el(
    "li",
    { class: `entry-${action}` },
    el("div", { class: "what" }, el("b", {}, done({ action, before, after })), ...(field ? [" ", el("em", {}, named(field))] : [])),
    ...(changed ? [el("div", { class: "values" }, el("del", {}, display(before)), " → ", el("ins", {}, display(after)))] : []),
    ...(field && !changed && !isEmpty(after) ? [el("div", { class: "values" }, el("ins", {}, display(after)))] : []),
    ...(reason ? [el("div", { class: "reason" }, because(reason, more))] : []),
    el("div", { class: "muted" }, `${actor || ""} · ${moment(at)}`),
  );
};

export class History {
  constructor(drawer, failed) {
    this.drawer = drawer;
    this.failed = failed;
    this.list = el("ol", { class: "trail" });
    const close = el("button", { type: "button", class: "quiet square", "aria-label": t("base.close") }, icon("close"));
    close.addEventListener("click", () => this.toggle(false));
    drawer.replaceChildren(el("div", { class: "drawerhead" }, el("h2", {}, t("base.history")), el("kbd", {}, "t"), close), this.list);
  }

  get open() {
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
      return void this.failed(error, id);
    }
    if (id !== this.id) return;
    const entries = [...data.entries].sort((a, b) => b.n - a.n);
    this.list.replaceChildren(...(entries.length ? entries.map(entry) : [el("li", { class: "muted" }, t("review.history_empty"))]));
  }
}
