// The claim on the shown document: held, lost, or expected; and while somebody else has it, whether that has ended.

import { api, data, may, me } from "./base.js";
import { same } from "./review_item.js";
import { get, isAway, post } from "./review_net.js";

const LOOK = 15000; // milliseconds between requests while somebody else has the item
const OPEN = new Set(["pending", "in_review"]);

export const isOpen = (whole) => OPEN.has(whole.status);

// Until when an assigned item is reserved for its assignee, in milliseconds since 1970; 0: anybody may claim it.
const keptUntil = async (whole) => {
  const [people, trail] = await Promise.all([api("GET", "/api/people"), api("GET", `/api/review/items/${encodeURIComponent(whole.id)}/history`)]);
  const owner = people.data.people.find(({ name }) => name === whole.assigned_to);
  const assignment = trail.data.entries.findLast(({ action }) => action === "assigned" || action === "reassigned");
  if (!owner?.available || !assignment) return 0;
  return Math.min(Date.parse(assignment.at) + 1000 * data.kept, Date.parse(whole.due_at));
};

export class Claim {
  constructor(desk) {
    this.desk = desk;
    this.kept = 0; // until when the item is reserved for its assignee; null: not known yet
    this.timer = 0;
  }

  // Whether this person could claim the shown item.
  get worth() {
    const { claim, escalated } = this.desk.item.whole;
    return may("operator") || (may("reviewer") && !claim && !escalated && this.kept === 0);
  }

  // Starts over: another document is shown, or its state has changed.
  begin() {
    const { desk } = this;
    const { whole } = desk.item;
    clearTimeout(this.timer);
    const theirs = isOpen(whole) && !whole.claim && whole.assigned_to && whole.assigned_to !== me.name && may("reviewer") && !may("operator");
    this.kept = theirs ? null : 0;
    if (theirs) this.ask(whole);
    this.later();
  }

  async ask(whole) {
    const { desk } = this;
    const until = await keptUntil(whole).catch(() => 0);
    if (desk.item?.whole !== whole) return;
    this.kept = until > desk.lease.now() ? until : 0;
    desk.bar.update();
  }

  // Once a second: ends a reservation that has expired.
  tick() {
    if (!this.kept || this.kept > this.desk.lease.now()) return;
    this.kept = 0;
    this.desk.bar.update();
  }

  later() {
    const { desk } = this;
    clearTimeout(this.timer);
    if (!desk.item || desk.ours || !isOpen(desk.item.whole) || (this.worth && !desk.lost?.holder)) return;
    const { id } = desk.item;
    this.timer = setTimeout(() => this.look(id), LOOK);
  }

  // Fetches the current state of an item that this person does not hold.
  async look(id) {
    const { desk } = this;
    try {
      const whole = await get(id);
      if (desk.item?.id !== id || desk.ours) return;
      const { item, lost } = desk;
      if (whole.claim?.mine) return void this.took(whole);
      if (!isOpen(whole) || (!lost && whole.version !== item.version)) return void desk.open(whole);
      const { claim, assigned_to, escalated, status } = whole;
      const news = !same([claim, assigned_to, escalated], [item.whole.claim, item.whole.assigned_to, item.whole.escalated]);
      Object.assign(item.whole, { claim, assigned_to, escalated, status });
      if (lost) lost.holder = claim?.holder ?? null;
      if (news) this.begin();
      else this.later();
      desk.bar.update();
    } catch (error) {
      desk.trouble(error, id);
      this.later();
    }
  }

  // This person now holds the shown item; nothing moves on the screen.
  took(whole) {
    const { desk } = this;
    const { item } = desk;
    if (!same(item.names, whole.fields.map((field) => field.name))) return desk.open(whole);
    desk.lost = null;
    desk.lease.clock(whole);
    desk.lease.begin();
    desk.lease.hold(whole.claim?.mine ? whole.claim.until : null);
    const draft = desk.drafts.find(whole); // before the item changes, which would replace the draft by an empty one
    item.accept(whole);
    this.begin();
    if (!item.dirty) desk.recall(draft);
    else if (item.conflicts().length) desk.verbs.run(() => desk.verbs.merge());
    desk.form.update(item.names);
    desk.bar.show(desk);
    if (desk.history.open) desk.history.load();
    return desk.lookAhead();
  }

  // Shows the next document before the server has confirmed this one, so that nobody waits for it.
  foresee() {
    const { desk } = this;
    const { whole } = desk.ahead;
    if (!whole || whole.id === desk.item.id || desk.check.pending || desk.item.broken.length) return false;
    desk.open(whole, { push: true });
    desk.lost = { coming: true };
    desk.form.update(desk.item.names);
    desk.bar.update();
    return true;
  }

  async renew() {
    const { id } = this.desk.item;
    try {
      return (await post(id, "renew")).until;
    } catch (error) {
      if (isAway(error) || error.status === 404) this.desk.trouble(error, id);
      else await this.lose(error.problem?.holder ?? null);
      return null;
    }
  }

  // Input stays visible, and stored in this browser.
  async lose(holder) {
    const { desk } = this;
    if (!desk.mine) return;
    const { whole } = desk.item;
    desk.lost = { holder };
    whole.claim = holder ? { mine: false, holder, until: whole.claim.until } : null;
    desk.lease.hold(null);
    desk.drafts.waiting = null;
    desk.drafts.keep(desk.item, { here: true });
    desk.bar.update();
    desk.form.update(desk.item.names);
    await this.look(desk.item.id);
  }
}
