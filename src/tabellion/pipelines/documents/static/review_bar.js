// The header and footer of the screen: holder, time left, available commands, and the banner.

import { el, me, moment, t, tell } from "./base.js";
import { because } from "./review_because.js";
import { isOpen } from "./review_claim.js";
import { icon } from "./review_icons.js";
import { countdown, span, urgency } from "./span.js";

const $ = (id) => document.getElementById(id);

export class Bar {
  constructor() {
    this.offline = false;
    this.note = "";
    // The height of the footer, for elements that must not be covered by it.
    new ResizeObserver(([{ target }]) => document.body.style.setProperty("--foot", `${/** @type {HTMLElement} */ (target).offsetHeight}px`)).observe(document.querySelector(".deskfoot"));
  }

  show(desk) {
    this.desk = desk;
    const { whole } = desk.item;
    $("doc-name").textContent = whole.name;
    $("doc-name").title = whole.name;
    const type = whole.type || whole.document.type || "";
    $("doc-type").hidden = !type;
    $("doc-type").textContent = tell(`fields.type.${type}`, type);
    const place = whole.position;
    $("doc-place").hidden = !place?.place;
    $("doc-place").textContent = place?.place ? t("review.place", { place: place.place, of: place.of }) : "";
    $("doc-today").textContent = t("review.today", { n: whole.today ?? 0 });
    $("file-link").href = `/api/documents/${encodeURIComponent(whole.document.id)}/file`;
    $("instructions").hidden = !whole.instructions;
    $("instructions-text").textContent = whole.instructions || "";
    this.update();
  }

  update() {
    const { desk } = this;
    const { whole } = desk.item;
    const open = isOpen(whole);
    const mine = desk.ours;
    for (const node of document.querySelectorAll("[data-when]")) {
      const when = node.dataset.when;
      const shown = { mine: mine, open: open && !mine && desk.claim.worth, closed: !open && me.level >= 3, operator: open && me.level >= 3 }[when];
      node.hidden = !shown;
    }
    const left = desk.item.names.filter((name) => desk.item.unresolved(name)).length;
    const broken = desk.item.broken.length;
    const typed = desk.item.names.length > 0;
    $("left").textContent = !typed ? t("review.left_type") : left ? t("review.left", { n: left }) : broken ? t("review.left_broken", { n: broken }) : t("review.left_none");
    $("left").className = left || broken || !typed ? "left" : "left none";
    $("approve").classList.toggle("ready", typed && !left && !broken);
    $("approve").disabled = !typed;
    $("undo").disabled = !desk.item.past.length || !mine;
    $("redo").disabled = !desk.item.future.length || !mine;
    this.saved();
    this.banner();
    this.tick();
  }

  saved() {
    const { desk } = this;
    const text = !desk.ours && !desk.lost ? "" : desk.saving ? t("review.saving") : desk.item.dirty ? t("review.draft_kept", { n: desk.item.edits.size }) : desk.savedAt ? t("review.saved") : "";
    if ($("saved").textContent !== text) $("saved").textContent = text;
  }

  // Once a second.
  tick() {
    const { desk } = this;
    if (!desk?.item) return;
    desk.claim.tick();
    const { whole } = desk.item;
    const open = isOpen(whole);
    const left = (Date.parse(whole.due_at) - desk.lease.now()) / 1000;
    const due = $("due");
    due.hidden = !open || !whole.due_at;
    due.className = `fact ${urgency(left)}`;
    due.title = moment(whole.due_at);
    const dueText = left < 0 ? t("review.overdue", { time: span(left) }) : t("review.due", { time: span(left) });
    if ($("due-text").textContent !== dueText) $("due-text").textContent = dueText;
    const claim = desk.mine ? { holder: me.name, left: desk.lease.left } : whole.claim ? { holder: whole.claim.holder, left: (Date.parse(whole.claim.until) - desk.lease.now()) / 1000 } : null;
    const holder = $("holder");
    holder.hidden = !open;
    holder.className = `fact ${desk.mine ? (claim.left < 60 ? "warn" : "mine") : ""}`;
    const who = desk.lost?.coming ? "…" : !claim ? t("review.free") : desk.mine ? t("review.yours", { time: countdown(claim.left) }) : t("review.theirs_for", { who: claim.holder, time: countdown(claim.left) });
    if ($("holder-text").textContent !== who) $("holder-text").textContent = who;
  }

  // Shows one message at a time, the most important first.
  banner() {
    const { desk } = this;
    const { whole } = desk.item;
    const closed = !isOpen(whole);
    const { kept, worth } = desk.claim;
    const button = (id, words, key, primary = true) => {
      const node = el("button", { type: "button", class: primary ? "primary" : "" }, words, el("kbd", {}, key));
      node.addEventListener("click", () => desk.run(id));
      return node;
    };
    let message = null;
    if (this.offline) message = ["warn", t("review.offline"), []];
    else if (desk.lost?.coming) message = null;
    else if (desk.lost && !closed) message = ["bad", desk.lost.holder ? t("review.lost_to", { who: desk.lost.holder }) : t("review.lost"), worth ? [button("claim", t("review.claim_again"), "c")] : []];
    else if (closed) message = ["calm", t(`review.closed.${whole.status}`, { who: whole.reviewer || "", when: whole.finished_at ? moment(whole.finished_at) : "", why: because(whole.reason || "", whole.rejection ?? {}) }), me.level >= 3 ? [button("reopen", t("review.reopen"), "o", false)] : []];
    else if (whole.claim && !desk.mine) message = ["warn", t("review.held_by", { who: whole.claim.holder }), me.level >= 3 ? [button("takeover", t("review.take_over"), "c", false)] : []];
    else if (!desk.mine) message = ["calm", whole.escalated ? t("review.escalated_by", { who: whole.escalated.by, why: whole.escalated.why }) : whole.assigned_to && whole.assigned_to !== me.name ? t(kept ? "review.assigned_until" : "review.assigned_banner", { who: whole.assigned_to, when: kept ? moment(kept / 1000) : "" }) : t("review.not_claimed"), worth ? [button("claim", t("review.claim"), "c")] : []];
    else if (desk.lease.idle > 420) message = ["warn", t("review.still_there"), []];
    else if (whole.escalated) message = ["calm", t("review.escalated_by", { who: whole.escalated.by, why: whole.escalated.why }), []];
    const sign = message ? `${message[0]}|${message[1]}|${message[2].length}` : "";
    if (sign === this.note) return;
    this.note = sign;
    const banner = $("banner");
    banner.hidden = !message;
    banner.className = message ? `banner ${message[0]}` : "banner";
    banner.replaceChildren(...(message ? [icon({ calm: "needs_look", warn: "clock", bad: "rule_failed" }[message[0]]), el("span", {}, message[1]), ...message[2]] : []));
  }
}
