// The claim on the shown document: held, lost, or expected; and while somebody else has it, whether that has ended.

import { api, data, may, me } from "./base.js";
import { same } from "./review_item.js";
import { get, isUnreachable, post } from "./review_api.js";

const REFRESH_PAUSE = 15000; // milliseconds between requests while somebody else has the item
const OPEN = new Set(["pending", "in_review"]);

export const isOpen = (loaded) => OPEN.has(loaded.status);

// Until when an assigned item is reserved for its assignee, in milliseconds since 1970; 0: anybody may claim it.
const fetchReservation = async (loaded) => {
  const [people, trail] = await Promise.all([api("GET", "/api/people"), api("GET", `/api/review/items/${encodeURIComponent(loaded.id)}/history`)]);
  const owner = people.data.people.find(({ name }) => name === loaded.assigned_to);
  const assignment = trail.data.entries.findLast(({ action }) => action === "assigned" || action === "reassigned");
  if (!owner?.available || !assignment) return 0;
  return Math.min(Date.parse(assignment.at) + 1000 * data.kept, Date.parse(loaded.due_at));
};

export class Claim {
  /** @param {import("./review.js").ReviewScreen} screen */
  constructor(screen) {
    this.screen = screen;
    this.reservedUntil = 0; // until when the item is reserved for its assignee; null: not known yet
    this.timer = 0;
  }

  // Whether this person could claim the shown item.
  get canClaim() {
    const { claim, escalated } = this.screen.item.data;
    return may("operator") || (may("reviewer") && !claim && !escalated && this.reservedUntil === 0);
  }

  // Starts over: another document is shown, or its state has changed.
  restart() {
    const { screen } = this;
    const { data: loaded } = screen.item;
    clearTimeout(this.timer);
    const isReserved = isOpen(loaded) && !loaded.claim && loaded.assigned_to && loaded.assigned_to !== me.name && may("reviewer") && !may("operator");
    this.reservedUntil = isReserved ? null : 0;
    if (isReserved) this.loadReservation(loaded);
    this.scheduleRefresh();
  }

  async loadReservation(loaded) {
    const { screen } = this;
    const until = await fetchReservation(loaded).catch(() => 0);
    if (screen.item?.data !== loaded) return;
    this.reservedUntil = until > screen.lease.now() ? until : 0;
    screen.toolbar.update();
  }

  // Once a second: ends a reservation that has expired.
  tick() {
    if (!this.reservedUntil || this.reservedUntil > this.screen.lease.now()) return;
    this.reservedUntil = 0;
    this.screen.toolbar.update();
  }

  scheduleRefresh() {
    const { screen } = this;
    clearTimeout(this.timer);
    if (!screen.item || screen.isMineOrExpected || !isOpen(screen.item.data) || (this.canClaim && !screen.lost?.holder)) return;
    const { id } = screen.item;
    this.timer = setTimeout(() => this.refresh(id), REFRESH_PAUSE);
  }

  // Fetches the current state of an item that this person does not hold.
  async refresh(id) {
    const { screen } = this;
    try {
      const loaded = await get(id);
      if (screen.item?.id !== id || screen.isMineOrExpected) return;
      const { item, lost } = screen;
      if (loaded.claim?.mine) return void this.accept(loaded);
      if (!isOpen(loaded) || (!lost && loaded.version !== item.version)) return void screen.open(loaded);
      const { claim, assigned_to, escalated, status } = loaded;
      const hasChanged = !same([claim, assigned_to, escalated], [item.data.claim, item.data.assigned_to, item.data.escalated]);
      Object.assign(item.data, { claim, assigned_to, escalated, status });
      if (lost) lost.holder = claim?.holder ?? null;
      if (hasChanged) this.restart();
      else this.scheduleRefresh();
      screen.toolbar.update();
    } catch (error) {
      screen.handleError(error, id);
      this.scheduleRefresh();
    }
  }

  // This person now holds the shown item; nothing moves on the screen.
  accept(loaded) {
    const { screen } = this;
    const { item } = screen;
    if (!same(item.names, loaded.fields.map((field) => field.name))) return screen.open(loaded);
    screen.lost = null;
    screen.lease.syncClock(loaded);
    screen.lease.resetWork();
    screen.lease.setExpiry(loaded.claim?.mine ? loaded.claim.until : null);
    const draft = screen.drafts.find(loaded); // before the item changes, which would replace the draft by an empty one
    item.accept(loaded);
    this.restart();
    if (!item.isDirty) screen.restoreDraft(draft);
    else if (item.findConflicts().length) screen.actions.run(() => screen.actions.merge());
    screen.form.update(item.names);
    screen.toolbar.show(screen);
    if (screen.history.isOpen) screen.history.load();
    return screen.prefetchNext();
  }

  // Shows the next document before the server has confirmed this one, so that nobody waits for it.
  showNextEarly() {
    const { screen } = this;
    const { loaded } = screen.prefetch;
    if (!loaded || loaded.id === screen.item.id || screen.check.isPending || screen.item.failedRules.length) return false;
    screen.open(loaded, { push: true });
    screen.lost = { isExpected: true };
    screen.form.update(screen.item.names);
    screen.toolbar.update();
    return true;
  }

  async renew() {
    const { id } = this.screen.item;
    try {
      return (await post(id, "renew")).until;
    } catch (error) {
      if (isUnreachable(error) || error.status === 404) this.screen.handleError(error, id);
      else await this.lose(error.problem?.holder ?? null);
      return null;
    }
  }

  // Input stays visible, and stored in this browser.
  async lose(holder) {
    const { screen } = this;
    if (!screen.isMine) return;
    const { data: loaded } = screen.item;
    screen.lost = { holder };
    loaded.claim = holder ? { mine: false, holder, until: loaded.claim.until } : null;
    screen.lease.setExpiry(null);
    screen.drafts.unsent = null;
    screen.drafts.save(screen.item, { here: true });
    screen.toolbar.update();
    screen.form.update(screen.item.names);
    await this.refresh(screen.item.id);
  }
}
