// The header and footer of the screen: holder, time left, available commands, and the banner.

import { el, me, moment, t, textOr } from "./base.js";
import { describeReason } from "./review_reason_text.js";
import { isOpen } from "./review_claim.js";
import { icon } from "./review_icons.js";
import { countdown, formatSpan, urgency } from "./durations.js";

const $ = (id) => document.getElementById(id);

export class ReviewToolbar {
  constructor() {
    this.offline = false;
    this.note = "";
    // The height of the footer, for elements that must not be covered by it.
    new ResizeObserver(([{ target }]) => document.body.style.setProperty("--foot", `${/** @type {HTMLElement} */ (target).offsetHeight}px`)).observe(document.querySelector(".review-footer"));
  }

  /** @param {import("./review.js").ReviewScreen} screen */
  show(screen) {
    this.screen = screen;
    const { data: loaded } = screen.item;
    $("doc-name").textContent = loaded.name;
    $("doc-name").title = loaded.name;
    const type = loaded.type || loaded.document.type || "";
    $("doc-type").hidden = !type;
    $("doc-type").textContent = textOr(`fields.type.${type}`, type);
    const place = loaded.position;
    $("doc-place").hidden = !place?.place;
    $("doc-place").textContent = place?.place ? t("review.place", { place: place.place, of: place.of }) : "";
    $("doc-today").textContent = t("review.today", { n: loaded.today ?? 0 });
    $("file-link").href = `/api/documents/${encodeURIComponent(loaded.document.id)}/file`;
    $("instructions").hidden = !loaded.instructions;
    $("instructions-text").textContent = loaded.instructions || "";
    this.update();
  }

  update() {
    const { screen } = this;
    const { data: loaded } = screen.item;
    const open = isOpen(loaded);
    const isMine = screen.isMineOrExpected;
    for (const node of document.querySelectorAll("[data-when]")) {
      const when = node.dataset.when;
      const shown = { mine: isMine, open: open && !isMine && screen.claim.canClaim, closed: !open && me.level >= 3, operator: open && me.level >= 3 }[when];
      node.hidden = !shown;
    }
    const left = screen.item.names.filter((name) => screen.item.isUnresolved(name)).length;
    const broken = screen.item.failedRules.length;
    const hasFields = screen.item.names.length > 0;
    $("left").textContent = !hasFields ? t("review.left_type") : left ? t("review.left", { n: left }) : broken ? t("review.left_broken", { n: broken }) : t("review.left_none");
    $("left").className = left || broken || !hasFields ? "left" : "left none";
    $("approve").classList.toggle("ready", hasFields && !left && !broken);
    $("approve").disabled = !hasFields;
    $("undo").disabled = !screen.item.past.length || !isMine;
    $("redo").disabled = !screen.item.future.length || !isMine;
    this.showSaved();
    this.showBanner();
    this.tick();
  }

  showSaved() {
    const { screen } = this;
    const text = !screen.isMineOrExpected && !screen.lost ? "" : screen.isSaving ? t("review.saving") : screen.item.isDirty ? t("review.draft_kept", { n: screen.item.edits.size }) : screen.savedAt ? t("review.saved") : "";
    if ($("saved").textContent !== text) $("saved").textContent = text;
  }

  // Once a second.
  tick() {
    const { screen } = this;
    if (!screen?.item) return;
    screen.claim.tick();
    const { data: loaded } = screen.item;
    const open = isOpen(loaded);
    const left = (Date.parse(loaded.due_at) - screen.lease.now()) / 1000;
    const due = $("due");
    due.hidden = !open || !loaded.due_at;
    due.className = `fact ${urgency(left)}`;
    due.title = moment(loaded.due_at);
    const dueText = left < 0 ? t("review.overdue", { time: formatSpan(left) }) : t("review.due", { time: formatSpan(left) });
    if ($("due-text").textContent !== dueText) $("due-text").textContent = dueText;
    const claim = screen.isMine ? { holder: me.name, left: screen.lease.left } : loaded.claim ? { holder: loaded.claim.holder, left: (Date.parse(loaded.claim.until) - screen.lease.now()) / 1000 } : null;
    const holder = $("holder");
    holder.hidden = !open;
    holder.className = `fact ${screen.isMine ? (claim.left < 60 ? "warn" : "mine") : ""}`;
    const who = screen.lost?.isExpected ? "…" : !claim ? t("review.free") : screen.isMine ? t("review.yours", { time: countdown(claim.left) }) : t("review.theirs_for", { who: claim.holder, time: countdown(claim.left) });
    if ($("holder-text").textContent !== who) $("holder-text").textContent = who;
  }

  // Shows one message at a time, the most important first.
  showBanner() {
    const { screen } = this;
    const { data: loaded } = screen.item;
    const closed = !isOpen(loaded);
    const { reservedUntil, canClaim } = screen.claim;
    const button = (id, words, key, primary = true) => {
      const node = el("button", { type: "button", class: primary ? "primary" : "" }, words, el("kbd", {}, key));
      node.addEventListener("click", () => screen.run(id));
      return node;
    };
    let message = null;
    if (this.offline) message = ["warn", t("review.offline"), []];
    else if (screen.lost?.isExpected) message = null;
    else if (screen.lost && !closed) message = ["bad", screen.lost.holder ? t("review.lost_to", { who: screen.lost.holder }) : t("review.lost"), canClaim ? [button("claim", t("review.claim_again"), "c")] : []];
    else if (closed) message = ["calm", t(`review.closed.${loaded.status}`, { who: loaded.reviewer || "", when: loaded.finished_at ? moment(loaded.finished_at) : "", why: describeReason(loaded.reason || "", loaded.rejection ?? {}) }), me.level >= 3 ? [button("reopen", t("review.reopen"), "o", false)] : []];
    else if (loaded.claim && !screen.isMine) message = ["warn", t("review.held_by", { who: loaded.claim.holder }), me.level >= 3 ? [button("takeover", t("review.take_over"), "c", false)] : []];
    else if (!screen.isMine) message = ["calm", loaded.escalated ? t("review.escalated_by", { who: loaded.escalated.by, why: loaded.escalated.why }) : loaded.assigned_to && loaded.assigned_to !== me.name ? t(reservedUntil ? "review.assigned_until" : "review.assigned_banner", { who: loaded.assigned_to, when: reservedUntil ? moment(reservedUntil / 1000) : "" }) : t("review.not_claimed"), canClaim ? [button("claim", t("review.claim"), "c")] : []];
    else if (screen.lease.idle > 420) message = ["warn", t("review.still_there"), []];
    else if (loaded.escalated) message = ["calm", t("review.escalated_by", { who: loaded.escalated.by, why: loaded.escalated.why }), []];
    const signature = message ? `${message[0]}|${message[1]}|${message[2].length}` : "";
    if (signature === this.note) return;
    this.note = signature;
    const banner = $("banner");
    banner.hidden = !message;
    banner.className = message ? `banner ${message[0]}` : "banner";
    banner.replaceChildren(...(message ? [icon({ calm: "needs_look", warn: "clock", bad: "rule_failed" }[message[0]]), el("span", {}, message[1]), ...message[2]] : []));
  }
}
