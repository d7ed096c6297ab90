// The review screen: one document at a time; connects all its parts.

import { byId, data, explain, keys, may, me, t, toast } from "./base.js";
import { SCREEN_COMMANDS } from "./review_commands.js";
import { ReviewToolbar } from "./review_toolbar.js";
import { LiveCheck } from "./review_check.js";
import { Claim } from "./review_claim.js";
import { Drafts } from "./review_draft.js";
import { Form } from "./review_fields.js";
import { PageValuePicker } from "./review_value_picker.js";
import { PageSearch } from "./review_page_search.js";
import { History } from "./review_history.js";
import { isTable, Item, same, textOf } from "./review_item.js";
import { bindKeys, keyHelp } from "./review_keys.js";
import { Lease } from "./review_lease.js";
import { get, isUnreachable, ConnectionRetry, putDraft } from "./review_api.js";
import { Pages } from "./review_page.js";
import { ItemPrefetch } from "./review_prefetch.js";
import { PageThumbnails } from "./review_page_thumbnails.js";
import { Reasons } from "./review_reasons.js";
import { locateRow } from "./review_row_location.js";
import { withoutBlankRows } from "./review_table.js";
import { ItemActions } from "./review_item_actions.js";
import { Words } from "./review_words.js";

const FOR_HOLDERS = new Set(["save", "approve", "reject", "postpone", "release", "retype"]);
const DECIDING = new Set(["confirm", "absent", "lock", "approve", "reject", "postpone", "release", "escalate"]);
const SETTLING = 400; // milliseconds that a document must be visible before a key or click can decide about it
const FOR_OPERATORS = new Set(["assign", "reopen", "takeover"]);

export class ReviewScreen {
  constructor() {
    this.pages = new Pages(byId("zone"));
    this.form = new Form(byId("fields"));
    this.reasons = new Reasons(byId("reasons"));
    this.thumbnails = new PageThumbnails(byId("thumbnails"));
    this.search = new PageSearch(byId("findbar"), this.pages);
    this.history = new History(byId("drawer"), (error, id) => this.handleError(error, id));
    this.toolbar = new ReviewToolbar();
    this.actions = new ItemActions(this);
    this.valuePicker = new PageValuePicker(this);
    this.drafts = new Drafts(me.name, putDraft, (error, id) => this.handleError(error, id));
    this.prefetch = new ItemPrefetch(byId("zone"), me.name);
    this.claim = new Claim(this);
    this.lease = new Lease({ renew: () => this.claim.renew(), onTick: () => this.toolbar.tick(), onExpired: () => this.claim.lose(null) });
    this.check = new LiveCheck({ onResult: (...answer) => this.applyCheck(...answer), onError: (error, id) => this.handleError(error, id) });
    this.connection = new ConnectionRetry({ onLost: () => this.setReachable(false), onRestored: () => this.setReachable(true) });
    this.drawnMarks = "";
    this.isSaving = false;
    this.visibleAt = -Infinity; // when the current document became visible after another
    this.connect();
  }

  connect() {
    const { form, pages, thumbnails } = this;
    form.addEventListener("focus", ({ detail }) => this.handleFocus(detail.name));
    form.addEventListener("line", ({ detail }) => this.highlightRow(detail));
    form.addEventListener("typed", ({ detail }) => this.handleInput(detail));
    form.addEventListener("take", ({ detail }) => this.valuePicker.takeOffered(detail.which));
    this.reasons.addEventListener("go", ({ detail }) => form.focusRow(detail.name));
    pages.addEventListener("box", ({ detail }) => detail.name && form.focusRow(detail.name));
    pages.addEventListener("drawn", ({ detail }) => this.valuePicker.takeBox(detail));
    pages.addEventListener("word", ({ detail }) => this.valuePicker.takeWord(detail));
    pages.addEventListener("page", ({ detail }) => thumbnails.showCurrent(detail.page));
    pages.addEventListener("zoom", ({ detail }) => (byId("zoom").textContent = `${Math.round(100 * detail.zoom)} %`));
    thumbnails.addEventListener("page", ({ detail }) => pages.turnTo(detail.page));
    this.search.addEventListener("take", ({ detail }) => this.valuePicker.fill(detail));
    this.search.addEventListener("closed", () => form.focusRow(form.current || this.item.names[0]));
    document.addEventListener("click", (event) => {
      const verb = event.target.closest?.("[data-verb]")?.dataset.verb;
      if (verb && !this.isTooEarly(verb, event)) this.run(verb);
    });
    addEventListener("popstate", ({ state }) => (state?.item ? this.load(state.item) : location.reload()));
    addEventListener("pagehide", () => this.drafts.flush());
    addEventListener("online", () => this.toolbar.offline && this.connection.start());
    bindKeys(this);
    keys(keyHelp());
  }

  // Opening.

  async load(id) {
    try {
      this.open(await get(id));
    } catch (error) {
      if (error.status === 404) return this.showDeleted(id);
      if (!isUnreachable(error)) return void toast(explain(error), "bad");
      this.connection.start();
      setTimeout(() => this.load(id), 2000);
    }
  }

  open(loaded, { push = false, item = new Item(loaded) } = {}) {
    this.check.stop();
    this.search.close();
    byId("review-screen").hidden = false;
    byId("nothing").hidden = true;
    if (this.item && this.item.id !== item.id) this.waitForPaint();
    this.item = item;
    this.drawnMarks = "";
    this.previousField = null;
    this.lost = null;
    this.savedAt = null;
    this.words = new Words(loaded.document.id);
    this.lease.syncClock(loaded);
    this.lease.resetWork();
    this.lease.setExpiry(loaded.claim?.mine ? loaded.claim.until : null);
    if (this.isMine && !item.isDirty) this.restoreDraft(this.drafts.find(loaded));
    if (push) history.pushState({ item: item.id }, "", `/review/${encodeURIComponent(item.id)}`);
    else history.replaceState({ item: item.id }, "", `/review/${encodeURIComponent(item.id)}`);
    document.title = `${loaded.name} · tabellion`;
    this.pages.show(loaded.document.id, loaded.document.pages || []);
    this.thumbnails.show(loaded.document.id, loaded.document.pages || [], loaded.previous);
    this.form.show(item, () => this.isMine || Boolean(this.lost));
    this.reasons.show(item);
    this.claim.restart();
    this.toolbar.show(this);
    this.drawMarks();
    item.onchange ||= ({ detail }) => this.handleChange(item, detail.names);
    item.addEventListener("change", item.onchange);
    this.form.focusRow(item.nextUnresolved(null) || item.names[0]);
    if (this.history.isOpen) this.history.toggle(true, item.id);
    if (item.isDirty) this.check.schedule(item);
    if (this.isMine) this.prefetchNext();
  }

  // A slow machine takes a while to draw the document: it is not visible until then.
  waitForPaint() {
    this.visibleAt = Infinity;
    requestAnimationFrame(() => setTimeout(() => (this.visibleAt = performance.now())));
  }

  get isMine() {
    return Boolean(this.item?.data.claim?.mine) && !this.lost;
  }

  // Held by this person, or about to be.
  get isMineOrExpected() {
    return this.isMine || Boolean(this.lost?.isExpected);
  }

  // Restores earlier input: from this browser, or from the server if it was another one.
  restoreDraft(draft) {
    if (!draft || !Object.keys(draft.edits || {}).length) return;
    this.item.restore(draft);
    if (!this.item.isDirty) return;
    toast(t("review.draft_back", { n: this.item.edits.size }), "", 4);
    if (this.item.findConflicts().length) this.actions.run(() => this.actions.merge());
  }

  prefetchNext() {
    const current = this.item.id;
    const prefetch = () => this.item?.id === current && this.prefetch.load(current).then((loaded) => this.item?.id === current && this.thumbnails.showNext(loaded), () => this.thumbnails.showNext(null));
    (window.requestIdleCallback || setTimeout)(prefetch);
  }

  showQueueEmpty() {
    this.showNothing("nothing_waits");
    history.pushState({}, "", "/queue");
  }

  // The document was deleted.
  showDeleted(id) {
    this.drafts.forget(id);
    this.showNothing("gone_away");
  }

  // Shows that there is no document, why, and where to go from here.
  showNothing(why) {
    this.check.stop();
    this.item = null;
    this.lost = null;
    this.lease.setExpiry(null);
    const place = byId("nothing");
    place.querySelector("h1").textContent = t(`review.${why}`);
    place.querySelector("p").textContent = t(`review.${why}_note`);
    place.querySelector("button").hidden = !may("reviewer");
    byId("review-screen").hidden = true;
    place.hidden = false;
    document.title = `${t(`review.${why}`)} · tabellion`;
    place.querySelector("a").focus();
  }

  async refresh() {
    const edits = this.item.toDraft();
    const loaded = await get(this.item.id);
    this.open(loaded);
    if (!this.isMine && Object.keys(edits.edits).length) this.drafts.store(loaded.id, { ...edits, at: new Date().toISOString() });
  }

  // Handles the error of a background request for the shown document.
  handleError(error, id) {
    if (!this.item || this.item.id !== id) return;
    if (isUnreachable(error)) this.connection.start();
    else if (error.status === 404) this.showDeleted(id);
    else if (error.code === "not_held" || error.code === "item_closed") void this.claim.lose(error.problem.holder ?? null);
  }

  async setReachable(isReachable) {
    this.toolbar.offline = !isReachable;
    if (this.item) this.toolbar.showBanner();
    if (!isReachable || !this.item) return;
    toast(t("review.back"), "good", 2.5);
    this.pages.reload();
    if (this.lost && !this.lost.isExpected) void this.claim.refresh(this.item.id);
    if (this.lease.until !== null) await this.lease.renewNow();
    await this.drafts.flush();
    this.check.schedule(this.item);
  }

  // Changes.

  handleChange(item, names) {
    if (item !== this.item) return;
    this.form.update(names);
    if (this.isMine || this.lost) this.drafts.save(item, { here: !this.isMine });
    this.check.schedule(item);
    this.scheduleUpdate();
  }

  // Redraws at most once per frame, after the key press has been handled.
  scheduleUpdate() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      if (!this.item) return;
      this.reasons.update();
      this.toolbar.update();
      this.drawMarks();
    });
  }

  drawMarks() {
    const { item } = this;
    const marks = item.names.map((name) => ({ name, place: item.positionOf(name), state: item.state(name) })).filter((mark) => mark.place).map(({ name, place, state }) => ({ name, state: `state-${state}`, page: place.page, box: place.box, label: item.fields.get(name).label || name }));
    const signature = JSON.stringify([item.id, marks]);
    if (signature === this.drawnMarks) return;
    this.drawnMarks = signature;
    this.pages.drawBoxes(marks);
  }

  applyCheck(item, answer, sent) {
    if (item !== this.item) return;
    item.issues = answer.issues;
    for (const [name, verdict] of Object.entries(answer.fields || {})) if (same(sent[name], item.value(name))) item.checked[name] = verdict;
    for (const name of item.edits.keys()) if (name !== this.form.current) this.normaliseText(name);
    this.form.update(item.names);
    this.scheduleUpdate();
  }

  handleInput({ name, value, cell }) {
    if (!this.isMine && !this.lost) return;
    this.item.enter(name, value, cell || "text");
  }

  handleFocus(name) {
    if (this.previousField && this.previousField !== name) this.normaliseText(this.previousField);
    this.previousField = name;
    this.pages.focus(name, this.item.positionOf(name));
    this.reasons.highlight(name);
  }

  // Marks the current row of a table, on whichever page it is.
  async highlightRow({ name, line }) {
    const { item, form, pages } = this;
    if (line === null) return pages.focus(name, item.positionOf(name));
    const numbers = pages.sheets.map((sheet) => sheet.number);
    const first = numbers.indexOf(item.fields.get(name).page);
    const place = await this.valuePicker.resultOrNull(locateRow(this.words, numbers.slice(Math.max(first, 0)), item.value(name) || [], line));
    if (place && item === this.item && form.current === name && form.line === line) pages.underline(name, place);
  }

  // When a field loses the focus, its text is replaced by the parsed value: 14.1.26 becomes 2026-01-14.
  normaliseText(name = this.form.current) {
    const edit = this.item?.edits.get(name);
    if (edit?.action === "correct" && Array.isArray(edit.value) && withoutBlankRows(edit.value).length < edit.value.length) return this.item.enter(name, withoutBlankRows(edit.value));
    const verdict = this.item?.checked[name];
    if (edit?.action !== "correct" || !verdict || verdict.error || same(verdict.value, edit.value) || verdict.value === null) return;
    const field = this.item.fields.get(name);
    if (!isTable(field) && typeof verdict.value === "object") return;
    edit.value = isTable(field) ? verdict.value : textOf(verdict.value);
    const last = this.item.past.findLast((entry) => entry.name === name);
    if (last?.after) last.after = { ...last.after, value: edit.value };
    this.form.update([name]);
    this.drafts.save(this.item, { here: !this.isMine });
  }

  ensureEditable() {
    if (this.isMine || this.lost) return true;
    if (may("reviewer")) toast(t("review.claim_first"), "warn", 2.5);
    return false;
  }

  // Commands by name: from keys, buttons and banners.

  handleKey(verb, event) {
    const on = event.target;
    const button = on.closest?.("button, a, summary, [role=button]");
    if (verb === "confirm" && (button || on.matches?.("input[type=search]") || (on.matches?.("textarea") && event.shiftKey))) return false;
    if (verb === "nextField" || verb === "previousField") {
      const inside = on.closest?.(".slot");
      if (!inside || on.closest(".cells")) return false;
      return this.form.focusNextInput(verb === "nextField" ? 1 : -1);
    }
    const idle = byId("nothing").hidden ? ["escape"] : ["claim", "escape"]; // while a document is loading, no other is claimed
    if (!this.item && !idle.includes(verb)) return false;
    return this.isTooEarly(verb, event) ? undefined : this.run(verb);
  }

  // Whether the key or click was meant for the previous document, because this one has only just appeared.
  isTooEarly(verb, event) {
    return DECIDING.has(verb) && event.timeStamp - this.visibleAt < SETTLING;
  }

  run(verb) {
    if (verb in SCREEN_COMMANDS) return SCREEN_COMMANDS[verb](this);
    if (!may(FOR_OPERATORS.has(verb) ? "operator" : "reviewer")) return undefined;
    if (FOR_HOLDERS.has(verb) && !this.isMine) return void this.ensureEditable();
    return void this.actions[verb]?.();
  }

  confirmField() {
    const name = this.form.current;
    if (!name) return this.form.focusRow(this.item.nextUnresolved(null) || this.item.names[0]);
    if (!this.ensureEditable()) return;
    this.normaliseText(name);
    if (!this.item.confirm(name)) {
      this.form.showRefusal(name);
      return;
    }
    const next = this.item.nextUnresolved(name);
    if (next) this.form.focusRow(next);
    else byId("approve").focus();
  }

  changeField(work) {
    const name = this.form.current;
    if (!name || !this.ensureEditable()) return;
    work(name);
    if (!this.form.root.contains(document.activeElement)) this.form.focusRow(name);
  }

  undoOrRedo(step) {
    if (!this.ensureEditable()) return;
    const inside = this.form.findFocusedInput(); // if the person is typing, keep the focus in the input
    const name = step === "undo" ? this.item.undo() : this.item.redo();
    if (name && inside) this.form.edit(name, inside);
    else if (name) this.form.focusRow(name);
  }

  editField() {
    if (this.form.current && this.ensureEditable()) this.form.edit(this.form.current);
  }

  handleEscape() {
    if (!byId("findbar").hidden) return this.search.close();
    if (this.history.isOpen) return void this.history.toggle(false);
    const inside = document.activeElement?.closest?.(".slot");
    if (inside && document.activeElement !== inside) return inside.focus();
    return this.leave();
  }

  async leave() {
    if (this.item && (this.isMine || this.lost)) await this.drafts.flush();
    location.assign("/queue");
  }
}

const screen = new ReviewScreen();
screen.load(data.item);
