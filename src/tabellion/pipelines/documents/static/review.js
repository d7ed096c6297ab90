// The review screen: one document at a time; connects all its parts.

import { byId, data, explain, keys, may, me, t, toast } from "./base.js";
import { ACTS } from "./review_acts.js";
import { Bar } from "./review_bar.js";
import { Check } from "./review_check.js";
import { Claim } from "./review_claim.js";
import { Drafts } from "./review_draft.js";
import { Form } from "./review_fields.js";
import { Filling } from "./review_filling.js";
import { Find } from "./review_find.js";
import { History } from "./review_history.js";
import { isTable, Item, same, textOf } from "./review_item.js";
import { listen, sheet } from "./review_keys.js";
import { Lease } from "./review_lease.js";
import { get, isAway, Knock, putDraft } from "./review_net.js";
import { Pages } from "./review_page.js";
import { Ahead } from "./review_prefetch.js";
import { Rail } from "./review_rail.js";
import { Reasons } from "./review_reasons.js";
import { lineOf } from "./review_rows.js";
import { filled } from "./review_table.js";
import { Verbs } from "./review_verbs.js";
import { Words } from "./review_words.js";

const FOR_HOLDERS = new Set(["save", "approve", "reject", "postpone", "release", "retype"]);
const DECIDING = new Set(["confirm", "absent", "lock", "approve", "reject", "postpone", "release", "escalate"]);
const GLANCE = 400; // milliseconds that a document must be visible before a key or click can decide about it
const FOR_OPERATORS = new Set(["assign", "reopen", "takeover"]);

class Desk {
  constructor() {
    this.pages = new Pages(byId("zone"));
    this.form = new Form(byId("fields"));
    this.reasons = new Reasons(byId("reasons"));
    this.rail = new Rail(byId("rail"));
    this.find = new Find(byId("findbar"), this.pages);
    this.history = new History(byId("drawer"), (error, id) => this.trouble(error, id));
    this.bar = new Bar();
    this.verbs = new Verbs(this);
    this.filling = new Filling(this);
    this.drafts = new Drafts(me.name, putDraft, (error, id) => this.trouble(error, id));
    this.ahead = new Ahead(byId("zone"), me.name);
    this.claim = new Claim(this);
    this.lease = new Lease({ renew: () => this.claim.renew(), tick: () => this.bar.tick(), lost: () => this.claim.lose(null) });
    this.check = new Check({ came: (...answer) => this.checked(...answer), failed: (error, id) => this.trouble(error, id) });
    this.knock = new Knock({ away: () => this.reach(false), back: () => this.reach(true) });
    this.marks = "";
    this.seenAt = -Infinity; // when the current document became visible after another
    this.connect();
  }

  connect() {
    const { form, pages, rail } = this;
    form.addEventListener("focus", ({ detail }) => this.focused(detail.name));
    form.addEventListener("line", ({ detail }) => this.lined(detail));
    form.addEventListener("typed", ({ detail }) => this.typed(detail));
    form.addEventListener("take", ({ detail }) => this.filling.taken(detail.which));
    this.reasons.addEventListener("go", ({ detail }) => form.focusRow(detail.name));
    pages.addEventListener("box", ({ detail }) => detail.name && form.focusRow(detail.name));
    pages.addEventListener("drawn", ({ detail }) => this.filling.drawn(detail));
    pages.addEventListener("word", ({ detail }) => this.filling.word(detail));
    pages.addEventListener("page", ({ detail }) => rail.here(detail.page));
    pages.addEventListener("zoom", ({ detail }) => (byId("zoom").textContent = `${Math.round(100 * detail.zoom)} %`));
    rail.addEventListener("page", ({ detail }) => pages.turnTo(detail.page));
    this.find.addEventListener("take", ({ detail }) => this.filling.fill(detail));
    this.find.addEventListener("closed", () => form.focusRow(form.current || this.item.names[0]));
    document.addEventListener("click", (event) => {
      const verb = event.target.closest?.("[data-verb]")?.dataset.verb;
      if (verb && !this.hasty(verb, event)) this.run(verb);
    });
    addEventListener("popstate", ({ state }) => (state?.item ? this.load(state.item) : location.reload()));
    addEventListener("pagehide", () => this.drafts.flush());
    addEventListener("online", () => this.bar.offline && this.knock.begin());
    listen(this);
    keys(sheet());
  }

  // Opening.

  async load(id) {
    try {
      this.open(await get(id));
    } catch (error) {
      if (error.status === 404) return this.gone(id);
      if (!isAway(error)) return void toast(explain(error), "bad");
      this.knock.begin();
      setTimeout(() => this.load(id), 2000);
    }
  }

  open(whole, { push = false, item = new Item(whole) } = {}) {
    this.check.stop();
    this.find.close();
    byId("desk").hidden = false;
    byId("nothing").hidden = true;
    if (this.item && this.item.id !== item.id) this.waitForPaint();
    this.item = item;
    this.marks = "";
    this.before = null;
    this.lost = null;
    this.savedAt = null;
    this.words = new Words(whole.document.id);
    this.lease.clock(whole);
    this.lease.begin();
    this.lease.hold(whole.claim?.mine ? whole.claim.until : null);
    if (this.mine && !item.dirty) this.recall(this.drafts.find(whole));
    if (push) history.pushState({ item: item.id }, "", `/review/${encodeURIComponent(item.id)}`);
    else history.replaceState({ item: item.id }, "", `/review/${encodeURIComponent(item.id)}`);
    document.title = `${whole.name} · tabellion`;
    this.pages.show(whole.document.id, whole.document.pages || []);
    this.rail.show(whole.document.id, whole.document.pages || [], whole.previous);
    this.form.show(item, () => this.mine || Boolean(this.lost));
    this.reasons.show(item);
    this.claim.begin();
    this.bar.show(this);
    this.mark();
    item.onchange ||= ({ detail }) => this.changed(item, detail.names);
    item.addEventListener("change", item.onchange);
    this.form.focusRow(item.next(null) || item.names[0]);
    if (this.history.open) this.history.toggle(true, item.id);
    if (item.dirty) this.check.soon(item);
    if (this.mine) this.lookAhead();
  }

  // A slow machine takes a while to draw the document: it is not visible until then.
  waitForPaint() {
    this.seenAt = Infinity;
    requestAnimationFrame(() => setTimeout(() => (this.seenAt = performance.now())));
  }

  get mine() {
    return Boolean(this.item?.whole.claim?.mine) && !this.lost;
  }

  // Held by this person, or about to be.
  get ours() {
    return this.mine || Boolean(this.lost?.coming);
  }

  // Restores earlier input: from this browser, or from the server if it was another one.
  recall(draft) {
    if (!draft || !Object.keys(draft.edits || {}).length) return;
    this.item.restore(draft);
    if (!this.item.dirty) return;
    toast(t("review.draft_back", { n: this.item.edits.size }), "", 4);
    if (this.item.conflicts().length) this.verbs.run(() => this.verbs.merge());
  }

  lookAhead() {
    const current = this.item.id;
    const look = () => this.item?.id === current && this.ahead.look(current).then((whole) => this.item?.id === current && this.rail.coming(whole), () => this.rail.coming(null));
    (window.requestIdleCallback || setTimeout)(look);
  }

  nothing() {
    this.vacate("nothing_waits");
    history.pushState({}, "", "/queue");
  }

  // The document was deleted.
  gone(id) {
    this.drafts.forget(id);
    this.vacate("gone_away");
  }

  // Shows that there is no document, why, and where to go from here.
  vacate(why) {
    this.check.stop();
    this.item = null;
    this.lost = null;
    this.lease.hold(null);
    const place = byId("nothing");
    place.querySelector("h1").textContent = t(`review.${why}`);
    place.querySelector("p").textContent = t(`review.${why}_note`);
    place.querySelector("button").hidden = !may("reviewer");
    byId("desk").hidden = true;
    place.hidden = false;
    document.title = `${t(`review.${why}`)} · tabellion`;
    place.querySelector("a").focus();
  }

  async refresh() {
    const edits = this.item.draft();
    const whole = await get(this.item.id);
    this.open(whole);
    if (!this.mine && Object.keys(edits.edits).length) this.drafts.store(whole.id, { ...edits, at: new Date().toISOString() });
  }

  // Handles the error of a background request for the shown document.
  trouble(error, id) {
    if (!this.item || this.item.id !== id) return;
    if (isAway(error)) this.knock.begin();
    else if (error.status === 404) this.gone(id);
    else if (error.code === "not_held" || error.code === "item_closed") void this.claim.lose(error.problem.holder ?? null);
  }

  async reach(there) {
    this.bar.offline = !there;
    if (this.item) this.bar.banner();
    if (!there || !this.item) return;
    toast(t("review.back"), "good", 2.5);
    this.pages.reload();
    if (this.lost && !this.lost.coming) void this.claim.look(this.item.id);
    if (this.lease.until !== null) await this.lease.ask();
    await this.drafts.flush();
    this.check.soon(this.item);
  }

  // Changes.

  changed(item, names) {
    if (item !== this.item) return;
    this.form.update(names);
    if (this.mine || this.lost) this.drafts.keep(item, { here: !this.mine });
    this.check.soon(item);
    this.later();
  }

  // Redraws at most once per frame, after the key press has been handled.
  later() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      if (!this.item) return;
      this.reasons.update();
      this.bar.update();
      this.mark();
    });
  }

  mark() {
    const { item } = this;
    const marks = item.names.map((name) => ({ name, place: item.place(name), state: item.state(name) })).filter((mark) => mark.place).map(({ name, place, state }) => ({ name, state: `state-${state}`, page: place.page, box: place.box, label: item.fields.get(name).label || name }));
    const sign = JSON.stringify([item.id, marks]);
    if (sign === this.marks) return;
    this.marks = sign;
    this.pages.draw(marks);
  }

  checked(item, answer, sent) {
    if (item !== this.item) return;
    item.issues = answer.issues;
    for (const [name, verdict] of Object.entries(answer.fields || {})) if (same(sent[name], item.value(name))) item.checked[name] = verdict;
    for (const name of item.edits.keys()) if (name !== this.form.current) this.settleText(name);
    this.form.update(item.names);
    this.later();
  }

  typed({ name, value, cell }) {
    if (!this.mine && !this.lost) return;
    this.item.type(name, value, cell || "text");
  }

  focused(name) {
    if (this.before && this.before !== name) this.settleText(this.before);
    this.before = name;
    this.pages.focus(name, this.item.place(name));
    this.reasons.about(name);
  }

  // Marks the current row of a table, on whichever page it is.
  async lined({ name, line }) {
    const { item, form, pages } = this;
    if (line === null) return pages.focus(name, item.place(name));
    const numbers = pages.leaves.map((leaf) => leaf.number);
    const first = numbers.indexOf(item.fields.get(name).page);
    const place = await this.filling.seen(lineOf(this.words, numbers.slice(Math.max(first, 0)), item.value(name) || [], line));
    if (place && item === this.item && form.current === name && form.line === line) pages.underline(name, place);
  }

  // When a field loses the focus, its text is replaced by the parsed value: 14.1.26 becomes 2026-01-14.
  settleText(name = this.form.current) {
    const edit = this.item?.edits.get(name);
    if (edit?.action === "correct" && Array.isArray(edit.value) && filled(edit.value).length < edit.value.length) return this.item.type(name, filled(edit.value));
    const verdict = this.item?.checked[name];
    if (edit?.action !== "correct" || !verdict || verdict.error || same(verdict.value, edit.value) || verdict.value === null) return;
    const field = this.item.fields.get(name);
    if (!isTable(field) && typeof verdict.value === "object") return;
    edit.value = isTable(field) ? verdict.value : textOf(verdict.value);
    const last = this.item.past.findLast((entry) => entry.name === name);
    if (last?.after) last.after = { ...last.after, value: edit.value };
    this.form.update([name]);
    this.drafts.keep(this.item, { here: !this.mine });
  }

  editable() {
    if (this.mine || this.lost) return true;
    if (may("reviewer")) toast(t("review.claim_first"), "warn", 2.5);
    return false;
  }

  // Commands by name: from keys, buttons and banners.

  key(verb, event) {
    const on = event.target;
    const button = on.closest?.("button, a, summary, [role=button]");
    if (verb === "confirm" && (button || on.matches?.("input[type=search]") || (on.matches?.("textarea") && event.shiftKey))) return false;
    if (verb === "nextField" || verb === "previousField") {
      const inside = on.closest?.(".slot");
      if (!inside || on.closest(".cells")) return false;
      return this.form.step(verb === "nextField" ? 1 : -1);
    }
    const idle = byId("nothing").hidden ? ["escape"] : ["claim", "escape"]; // while a document is loading, no other is claimed
    if (!this.item && !idle.includes(verb)) return false;
    return this.hasty(verb, event) ? undefined : this.run(verb);
  }

  // Whether the key or click was meant for the previous document, because this one has only just appeared.
  hasty(verb, event) {
    return DECIDING.has(verb) && event.timeStamp - this.seenAt < GLANCE;
  }

  run(verb) {
    if (verb in ACTS) return ACTS[verb](this);
    if (!may(FOR_OPERATORS.has(verb) ? "operator" : "reviewer")) return undefined;
    if (FOR_HOLDERS.has(verb) && !this.mine) return void this.editable();
    return void this.verbs[verb]?.();
  }

  confirm() {
    const name = this.form.current;
    if (!name) return this.form.focusRow(this.item.next(null) || this.item.names[0]);
    if (!this.editable()) return;
    this.settleText(name);
    if (!this.item.confirm(name)) {
      this.form.flash(name);
      return;
    }
    const next = this.item.next(name);
    if (next) this.form.focusRow(next);
    else byId("approve").focus();
  }

  change(work) {
    const name = this.form.current;
    if (!name || !this.editable()) return;
    work(name);
    if (!this.form.root.contains(document.activeElement)) this.form.focusRow(name);
  }

  back(step) {
    if (!this.editable()) return;
    const inside = this.form.inside(); // if the person is typing, keep the focus in the input
    const name = step === "undo" ? this.item.undo() : this.item.redo();
    if (name && inside) this.form.edit(name, inside);
    else if (name) this.form.focusRow(name);
  }

  edit() {
    if (this.form.current && this.editable()) this.form.edit(this.form.current);
  }

  escape() {
    if (!byId("findbar").hidden) return this.find.close();
    if (this.history.open) return void this.history.toggle(false);
    const inside = document.activeElement?.closest?.(".slot");
    if (inside && document.activeElement !== inside) return inside.focus();
    return this.leave();
  }

  async leave() {
    if (this.item && (this.mine || this.lost)) await this.drafts.flush();
    location.assign("/queue");
  }
}

const desk = new Desk();
desk.load(data.item);
