// Commands on a whole document: claim, save, approve, reject, postpone, release, escalate, assign.

import { api, explain, may, me, t, textOr, toast } from "./base.js";
import { ask, askUnseen, askConflicts } from "./review_dialogs.js";
import { fieldOf, fieldsOf } from "./review_item.js";
import { claimNext, get, isUnreachable, patch, post } from "./review_api.js";
import { changeType } from "./review_type.js";
import { localized } from "./messages.js";

const HOURS = [1, 4, 24, 72, 168];
const STATE_CHANGED = new Set(["item_closed", "item_held", "item_assigned", "item_escalated", "document_running"]); // somebody else has changed the state of the item
const NEEDS_TEXT = new Set(["other"]); // reasons that require an explanation

export class ItemActions {
  /** @param {import("./review.js").ReviewScreen} screen */
  constructor(screen) {
    this.screen = screen;
    this.isBusy = false;
    this.isSaving = false;
    this.queued = null; // requested while another command was running
  }

  // Runs one command at a time; errors are reported in the same way for all.
  async run(work) {
    if (this.isBusy) return false;
    this.isBusy = true;
    document.body.classList.add("busy");
    try {
      return await work();
    } catch (error) {
      await this.handleFailure(error);
      return false;
    } finally {
      this.isBusy = false;
      document.body.classList.remove("busy");
      const { queued } = this;
      this.queued = null;
      if (this.screen.isMine) queued?.();
    }
  }

  async handleFailure(error) {
    const { screen } = this;
    if (isUnreachable(error)) {
      screen.connection.start();
      toast(t("review.not_sent"), "warn");
      return;
    }
    const { problem, code } = error;
    if (error.status === 404 && screen.item) screen.showDeleted(screen.item.id);
    else if (code === "not_held") await screen.claim.lose(problem.holder ?? null);
    else if (code === "version_conflict") await this.merge(problem.current?.fields || {});
    else if (code === "review_gated") this.showBlockers(problem);
    else if (code === "fields_unseen") await this.merge(); // somebody else has changed the item
    else {
      toast(explain(error), STATE_CHANGED.has(code) || code === "value_invalid" ? "warn" : "bad");
      const named = /^\/fields\/([^/]+)/.exec(problem.field || "")?.[1];
      if (named) screen.form.focusRow(named);
      // Input stays visible while the item may be claimed again.
      if (STATE_CHANGED.has(code) && !(screen.lost && code !== "item_closed")) await screen.refresh();
    }
  }

  showBlockers({ missing = [], failing = [] }) {
    const { screen } = this;
    const names = [...missing.map(fieldOf), ...failing.flatMap(fieldsOf)].filter((name) => screen.item.fields.has(name));
    const lacking = missing.map((name) => screen.item.fields.get(name)?.label || name).join(", ");
    const parts = failing.map((issue) => localized(issue));
    if (lacking) parts.unshift(t("review.gate_missing", { fields: lacking }));
    if (failing.length) parts.push(t("review.gate_failing"));
    toast(parts.join(" ") || t("review.gate"), "warn", 9);
    if (names.length) screen.form.focusRow(names[0]);
  }

  // Somebody else saved meanwhile: keeps changes without a conflict, and asks about the others.
  async merge(by = {}) {
    const { screen } = this;
    const loaded = await get(screen.item.id);
    screen.item.accept(loaded);
    const conflicts = screen.item.findConflicts();
    if (conflicts.length) {
      const mine = await askConflicts(conflicts, by);
      if (!mine) return false;
      for (const [name, own] of mine) {
        if (own) screen.item.keepMine(name);
        else screen.item.keepTheirs(name);
      }
    }
    toast(t("review.merged"), "");
    screen.check.schedule(screen.item);
    return true;
  }

  claim = () =>
    this.run(async () => {
      const { screen } = this;
      if (!screen.item) return this.openItem(await claimNext());
      if (screen.isMine && !screen.lost) return true;
      const { claim, assigned_to: owner } = screen.item.data;
      if (claim && !claim.mine && may("operator")) return this.confirmTakeover();
      // An operator may claim an item that is only assigned; to take over a claim, they are asked first.
      const helps = owner && owner !== me.name && may("operator");
      screen.claim.accept(await post(screen.item.id, "claim", helps ? { takeover: true } : {}));
      return true;
    });

  takeover = () => this.run(() => this.confirmTakeover());

  async confirmTakeover() {
    const { screen } = this;
    const sure = await ask({ title: t("review.take_over"), note: t("review.take_over_note", { who: screen.item.data.claim?.holder || "" }), verb: t("review.take_over") });
    if (!sure) return false;
    screen.claim.accept(await post(screen.item.id, "claim", { takeover: true }));
    return true;
  }

  // Saves the changes on the server; invalid values stay in the draft.
  async saveChanges(item = this.screen.item) {
    const { screen } = this;
    const sent = item.unsavedChanges();
    if (!Object.keys(sent).length) return true;
    screen.isSaving = true;
    screen.toolbar.showSaved();
    try {
      const loaded = await patch(item.id, item.version, sent);
      item.applySaved(loaded, sent);
      if (screen.item === item) {
        screen.savedAt = Date.now();
        screen.drafts.save(item);
      }
    } finally {
      screen.isSaving = false;
      screen.toolbar.showSaved();
    }
    return true;
  }

  // Before a command that ends the claim: the server accepts no draft afterwards.
  async saveAll() {
    await this.saveChanges();
    await this.screen.drafts.flushAll();
  }

  save = () => {
    this.queued = this.isBusy ? this.save : null;
    return this.run(async () => {
      this.isSaving = true;
      try {
        await this.saveChanges();
        await this.screen.drafts.flush();
      } finally {
        this.isSaving = false;
      }
      const left = this.screen.item.edits.size;
      toast(left ? t("review.saved_but", { n: left }) : t("review.saved"), left ? "warn" : "good", 2);
      return true;
    });
  };

  retype = () =>
    this.run(async () => {
      const { screen } = this;
      const { item } = screen;
      const loaded = await changeType(item, () => this.saveChanges(item));
      if (loaded && screen.item === item) screen.open(loaded);
      return Boolean(loaded);
    });

  // True if no field is uncertain, or the person approves them anyway.
  async confirmUnseen(item, fields) {
    if (!fields.length || (await askUnseen(fields))) return true;
    this.screen.form.focusRow(fields[0].name);
    return false;
  }

  approve = () => {
    if (!this.screen.item.names.length) return this.retype();
    // "Saved" is shown before the draft is deleted: an approval in between is run afterwards.
    if (this.isSaving) return void (this.queued = this.approve);
    return this.approveFields();
  };

  approveFields = () =>
    this.run(async () => {
      const { screen } = this;
      const { item } = screen;
      screen.normaliseText();
      const open = item.names.find((name) => item.isMissing(name) || item.error(name));
      if (open) {
        toast(localized(item.error(open), "error") || t("review.gate_missing", { fields: item.fields.get(open).label || open }), "warn");
        screen.form.focusRow(open);
        return false;
      }
      const doubtful = item.unseenFields.map((name) => ({ ...item.fields.get(name), value: item.value(name) }));
      if (!(await this.confirmUnseen(item, doubtful))) return false;
      const { seconds, keystrokes } = screen.lease;
      const discarded = screen.drafts.discardUnsent(item.id);
      const isShownEarly = screen.claim.showNextEarly();
      try {
        await discarded;
        await this.saveChanges(item);
        await screen.drafts.discardUnsent(item.id);
        const body = { seconds, keystrokes, next: true, ...(doubtful.length ? { unseen: true } : {}) };
        const { next } = await post(item.id, "approve", body, { ifMatch: `"${item.version}"` });
        return this.goOn(next, t("review.approved", { name: item.data.name }), item);
      } catch (error) {
        if (isShownEarly) screen.open(item.data, { item });
        if (item.isDirty) screen.drafts.save(item);
        throw error;
      }
    });

  reject = () =>
    this.run(async () => {
      const { screen } = this;
      const { item } = screen;
      const choices = (item.data.reject_reasons || []).map(({ code, text }) => ({ value: code, label: textOr(`review.because.${code}`, text), words: NEEDS_TEXT.has(code) }));
      const answer = await ask({ title: t("review.reject"), note: t("review.reject_note"), choices, words: { label: t("review.words"), required: !choices.length }, verb: t("review.reject"), danger: true });
      if (!answer) return false;
      await screen.drafts.flushAll();
      const { seconds, keystrokes } = screen.lease;
      const body = { code: answer.choice || "other", ...(answer.text ? { reason: answer.text } : {}), seconds, keystrokes, next: true };
      const { next } = await post(item.id, "reject", body);
      return this.goOn(next, t("review.rejected", { name: item.data.name }));
    });

  postpone = () =>
    this.run(async () => {
      const choices = HOURS.map((hours) => ({ value: 3600 * hours, label: hours < 24 ? t("review.in_hours", { n: hours }) : t("review.in_days", { n: hours / 24 }) }));
      const answer = await ask({ title: t("review.postpone"), note: t("review.postpone_note"), choices, words: { label: t("review.words") }, verb: t("review.postpone") });
      if (!answer) return false;
      await this.saveAll();
      const { id } = this.screen.item;
      await post(id, "postpone", { seconds: answer.choice, ...(answer.text ? { reason: answer.text } : {}) });
      return this.goOn(await claimNext(id), t("review.postponed"));
    });

  escalate = () =>
    this.run(async () => {
      const answer = await ask({ title: t("review.escalate"), note: t("review.escalate_note"), words: { label: t("base.reason"), required: true }, verb: t("review.escalate") });
      if (!answer) return false;
      if (this.screen.isMine) await this.saveAll();
      const { id } = this.screen.item;
      await post(id, "escalate", { reason: answer.text });
      return this.goOn(await claimNext(id), t("review.escalated"));
    });

  release = () =>
    this.run(async () => {
      const { screen } = this;
      await this.saveAll();
      await post(screen.item.id, "release");
      screen.drafts.forget(screen.item.id);
      toast(t("review.released"), "good");
      await screen.refresh();
      return true;
    });

  assign = () =>
    this.run(async () => {
      const { screen } = this;
      const { people } = (await api("GET", "/api/people")).data;
      const options = people.map(({ name, role, available }) => ({ value: name, label: available ? `${name} · ${textOr(`base.role_${role}`, role)}` : t("review.is_away", { who: name }), disabled: !available }));
      const list = { label: t("review.assign_to"), options: [{ value: "", label: t("review.anybody") }, ...options], chosen: screen.item.data.assigned_to };
      const answer = await ask({ title: t("review.assign"), note: t("review.assign_note"), list, verb: t("review.assign"), work: ({ listed }) => this.assignTo(listed || null) });
      if (!answer) return false;
      toast(answer.listed ? t("review.assigned", { who: answer.listed }) : t("review.assigned_anybody"), "good");
      await screen.refresh();
      return true;
    });

  async assignTo(to) {
    const { screen } = this;
    if (screen.isMine) await this.saveAll();
    await post(screen.item.id, "assign", { to, reason: t("review.assign_reason", { who: me.name }) });
  }

  reopen = () =>
    this.run(async () => {
      const answer = await ask({ title: t("review.reopen"), note: t("review.reopen_note"), words: { label: t("base.reason"), required: true }, verb: t("review.reopen") });
      if (!answer) return false;
      await post(this.screen.item.id, "reopen", { reason: answer.text });
      await this.screen.refresh();
      return true;
    });

  goOn(next, words, item = this.screen.item) {
    this.screen.drafts.forget(item.id);
    toast(words, "good", 2.5);
    return this.openItem(next);
  }

  openItem(loaded) {
    const { screen } = this;
    const isShownEarly = screen.lost?.isExpected;
    if (!loaded) screen.showQueueEmpty();
    else if (isShownEarly && loaded.id === screen.item.id) screen.claim.accept(loaded);
    else screen.open(loaded, { push: !isShownEarly });
    return true;
  }
}
