// Commands on a whole document: claim, save, approve, reject, postpone, release, escalate, assign.

import { api, explain, may, me, t, tell, toast } from "./base.js";
import { ask, askUnseen, settle } from "./review_dialogs.js";
import { fieldOf, fieldsOf } from "./review_item.js";
import { claimNext, get, isAway, patch, post } from "./review_net.js";
import { retyped } from "./review_type.js";
import { localized } from "./messages.js";

const HOURS = [1, 4, 24, 72, 168];
const STANDS = new Set(["item_closed", "item_held", "item_assigned", "item_escalated", "document_running"]); // the state of the item has changed
const WORDED = new Set(["other"]); // reasons that require an explanation

export class Verbs {
  constructor(desk) {
    this.desk = desk;
    this.busy = false;
    this.saves = false;
    this.again = null; // requested while another command was running
  }

  // Runs one command at a time; errors are reported in the same way for all.
  async run(work) {
    if (this.busy) return false;
    this.busy = true;
    document.body.classList.add("busy");
    try {
      return await work();
    } catch (error) {
      await this.failed(error);
      return false;
    } finally {
      this.busy = false;
      document.body.classList.remove("busy");
      const { again } = this;
      this.again = null;
      if (this.desk.mine) again?.();
    }
  }

  async failed(error) {
    const { desk } = this;
    if (isAway(error)) {
      desk.knock.begin();
      toast(t("review.not_sent"), "warn");
      return;
    }
    const { problem, code } = error;
    if (error.status === 404 && desk.item) desk.gone(desk.item.id);
    else if (code === "not_held") await desk.claim.lose(problem.holder ?? null);
    else if (code === "version_conflict") await this.merge(problem.current?.fields || {});
    else if (code === "review_gated") this.gated(problem);
    else if (code === "fields_unseen") await this.merge(); // somebody else has changed the item
    else {
      toast(explain(error), STANDS.has(code) || code === "value_invalid" ? "warn" : "bad");
      const named = /^\/fields\/([^/]+)/.exec(problem.field || "")?.[1];
      if (named) desk.form.focusRow(named);
      // Input stays visible while the item may be claimed again.
      if (STANDS.has(code) && !(desk.lost && code !== "item_closed")) await desk.refresh();
    }
  }

  gated({ missing = [], failing = [] }) {
    const { desk } = this;
    const names = [...missing.map(fieldOf), ...failing.flatMap(fieldsOf)].filter((name) => desk.item.fields.has(name));
    const lacking = missing.map((name) => desk.item.fields.get(name)?.label || name).join(", ");
    const parts = failing.map((issue) => localized(issue));
    if (lacking) parts.unshift(t("review.gate_missing", { fields: lacking }));
    if (failing.length) parts.push(t("review.gate_failing"));
    toast(parts.join(" ") || t("review.gate"), "warn", 9);
    if (names.length) desk.form.focusRow(names[0]);
  }

  // Somebody else saved meanwhile: keeps changes without a conflict, and asks about the others.
  async merge(by = {}) {
    const { desk } = this;
    const whole = await get(desk.item.id);
    desk.item.accept(whole);
    const conflicts = desk.item.conflicts();
    if (conflicts.length) {
      const mine = await settle(conflicts, by);
      if (!mine) return false;
      for (const [name, own] of mine) {
        if (own) desk.item.keepMine(name);
        else desk.item.keepTheirs(name);
      }
    }
    toast(t("review.merged"), "");
    desk.check.soon(desk.item);
    return true;
  }

  claim = () =>
    this.run(async () => {
      const { desk } = this;
      if (!desk.item) return this.opened(await claimNext());
      if (desk.mine && !desk.lost) return true;
      const { claim, assigned_to: owner } = desk.item.whole;
      if (claim && !claim.mine && may("operator")) return this.takeOver();
      // An operator may claim an item that is only assigned; to take over a claim, they are asked first.
      const helps = owner && owner !== me.name && may("operator");
      desk.claim.took(await post(desk.item.id, "claim", helps ? { takeover: true } : {}));
      return true;
    });

  takeover = () => this.run(() => this.takeOver());

  async takeOver() {
    const { desk } = this;
    const sure = await ask({ title: t("review.take_over"), note: t("review.take_over_note", { who: desk.item.whole.claim?.holder || "" }), verb: t("review.take_over") });
    if (!sure) return false;
    desk.claim.took(await post(desk.item.id, "claim", { takeover: true }));
    return true;
  }

  // Saves the changes on the server; invalid values stay in the draft.
  async store(item = this.desk.item) {
    const { desk } = this;
    const sent = item.changes();
    if (!Object.keys(sent).length) return true;
    desk.saving = true;
    desk.bar.saved();
    try {
      const whole = await patch(item.id, item.version, sent);
      item.saved(whole, sent);
      if (desk.item === item) {
        desk.savedAt = Date.now();
        desk.drafts.keep(item);
      }
    } finally {
      desk.saving = false;
      desk.bar.saved();
    }
    return true;
  }

  // Before a command that ends the claim: the server accepts no draft afterwards.
  async storeAll() {
    await this.store();
    await this.desk.drafts.finish();
  }

  save = () => {
    this.again = this.busy ? this.save : null;
    return this.run(async () => {
      this.saves = true;
      try {
        await this.store();
        await this.desk.drafts.flush();
      } finally {
        this.saves = false;
      }
      const left = this.desk.item.edits.size;
      toast(left ? t("review.saved_but", { n: left }) : t("review.saved"), left ? "warn" : "good", 2);
      return true;
    });
  };

  retype = () =>
    this.run(async () => {
      const { desk } = this;
      const { item } = desk;
      const whole = await retyped(item, () => this.store(item));
      if (whole && desk.item === item) desk.open(whole);
      return Boolean(whole);
    });

  // True if no field is uncertain, or the person approves them anyway.
  async agreed(item, fields) {
    if (!fields.length || (await askUnseen(fields))) return true;
    this.desk.form.focusRow(fields[0].name);
    return false;
  }

  approve = () => {
    if (!this.desk.item.names.length) return this.retype();
    // "Saved" is shown before the draft is deleted: an approval in between is run afterwards.
    if (this.saves) return void (this.again = this.approve);
    return this.approveFields();
  };

  approveFields = () =>
    this.run(async () => {
      const { desk } = this;
      const { item } = desk;
      desk.settleText();
      const open = item.names.find((name) => item.missing(name) || item.error(name));
      if (open) {
        toast(localized(item.error(open), "error") || t("review.gate_missing", { fields: item.fields.get(open).label || open }), "warn");
        desk.form.focusRow(open);
        return false;
      }
      const doubtful = item.unseen.map((name) => ({ ...item.fields.get(name), value: item.value(name) }));
      if (!(await this.agreed(item, doubtful))) return false;
      const { seconds, keystrokes } = desk.lease;
      const settled = desk.drafts.settle(item.id);
      const ahead = desk.claim.foresee();
      try {
        await settled;
        await this.store(item);
        await desk.drafts.settle(item.id);
        const body = { seconds, keystrokes, next: true, ...(doubtful.length ? { unseen: true } : {}) };
        const { next } = await post(item.id, "approve", body, { ifMatch: `"${item.version}"` });
        return this.onward(next, t("review.approved", { name: item.whole.name }), item);
      } catch (error) {
        if (ahead) desk.open(item.whole, { item });
        if (item.dirty) desk.drafts.keep(item);
        throw error;
      }
    });

  reject = () =>
    this.run(async () => {
      const { desk } = this;
      const { item } = desk;
      const choices = (item.whole.reject_reasons || []).map(({ code, text }) => ({ value: code, label: tell(`review.because.${code}`, text), words: WORDED.has(code) }));
      const answer = await ask({ title: t("review.reject"), note: t("review.reject_note"), choices, words: { label: t("review.words"), required: !choices.length }, verb: t("review.reject"), danger: true });
      if (!answer) return false;
      await desk.drafts.finish();
      const { seconds, keystrokes } = desk.lease;
      const body = { code: answer.choice || "other", ...(answer.text ? { reason: answer.text } : {}), seconds, keystrokes, next: true };
      const { next } = await post(item.id, "reject", body);
      return this.onward(next, t("review.rejected", { name: item.whole.name }));
    });

  postpone = () =>
    this.run(async () => {
      const choices = HOURS.map((hours) => ({ value: 3600 * hours, label: hours < 24 ? t("review.in_hours", { n: hours }) : t("review.in_days", { n: hours / 24 }) }));
      const answer = await ask({ title: t("review.postpone"), note: t("review.postpone_note"), choices, words: { label: t("review.words") }, verb: t("review.postpone") });
      if (!answer) return false;
      await this.storeAll();
      const { id } = this.desk.item;
      await post(id, "postpone", { seconds: answer.choice, ...(answer.text ? { reason: answer.text } : {}) });
      return this.onward(await claimNext(id), t("review.postponed"));
    });

  escalate = () =>
    this.run(async () => {
      const answer = await ask({ title: t("review.escalate"), note: t("review.escalate_note"), words: { label: t("review.why_escalate"), required: true }, verb: t("review.escalate") });
      if (!answer) return false;
      if (this.desk.mine) await this.storeAll();
      const { id } = this.desk.item;
      await post(id, "escalate", { reason: answer.text });
      return this.onward(await claimNext(id), t("review.escalated"));
    });

  release = () =>
    this.run(async () => {
      const { desk } = this;
      await this.storeAll();
      await post(desk.item.id, "release");
      desk.drafts.forget(desk.item.id);
      toast(t("review.released"), "good");
      await desk.refresh();
      return true;
    });

  assign = () =>
    this.run(async () => {
      const { desk } = this;
      const { people } = (await api("GET", "/api/people")).data;
      const options = people.map(({ name, role, available }) => ({ value: name, label: available ? `${name} · ${tell(`base.role_${role}`, role)}` : t("review.is_away", { who: name }), disabled: !available }));
      const list = { label: t("review.assign_to"), options: [{ value: "", label: t("review.anybody") }, ...options], chosen: desk.item.whole.assigned_to };
      const answer = await ask({ title: t("review.assign"), note: t("review.assign_note"), list, verb: t("review.assign"), work: ({ listed }) => this.give(listed || null) });
      if (!answer) return false;
      toast(answer.listed ? t("review.assigned", { who: answer.listed }) : t("review.assigned_anybody"), "good");
      await desk.refresh();
      return true;
    });

  async give(to) {
    const { desk } = this;
    if (desk.mine) await this.storeAll();
    await post(desk.item.id, "assign", { to, reason: t("review.assign_reason", { who: me.name }) });
  }

  reopen = () =>
    this.run(async () => {
      const answer = await ask({ title: t("review.reopen"), note: t("review.reopen_note"), words: { label: t("review.why_reopen"), required: true }, verb: t("review.reopen") });
      if (!answer) return false;
      await post(this.desk.item.id, "reopen", { reason: answer.text });
      await this.desk.refresh();
      return true;
    });

  onward(next, words, item = this.desk.item) {
    this.desk.drafts.forget(item.id);
    toast(words, "good", 2.5);
    return this.opened(next);
  }

  opened(whole) {
    const { desk } = this;
    const foreseen = desk.lost?.coming;
    if (!whole) desk.nothing();
    else if (foreseen && whole.id === desk.item.id) desk.claim.took(whole);
    else desk.open(whole, { push: !foreseen });
    return true;
  }
}
