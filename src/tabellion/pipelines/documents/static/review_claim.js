// The claim on the document that is shown: had, lost, seen coming; and while somebody else has it, whether that has ended.

import { api, data, may, me } from "./base.js";
import { same } from "./review_item.js";
import { get, isAway, post } from "./review_net.js";

const LOOK = 15000; // milliseconds between looks at what somebody else has
const OPEN = new Set(["pending", "in_review"]);

export const isOpen = (whole) => OPEN.has(whole.status);

// Until when an item that is assigned to somebody is kept for them, in milliseconds since 1970; 0: anybody may help.
const keptUntil = async (whole) => {
  const [people, trail] = await Promise.all([api("GET", "/api/people"), api("GET", `/api/review/items/${encodeURIComponent(whole.id)}/history`)]);
  const owner = people.data.people.find(({ name }) => name === whole.assigned_to);
  const given = trail.data.entries.findLast(({ action }) => action === "assigned" || action === "reassigned");
  if (!owner?.available || !given) return 0;
  return Math.min(Date.parse(given.at) + 1000 * data.kept, Date.parse(whole.due_at));
};

export class Claim {
  constructor(desk) {
    this.desk = desk;
    this.kept = 0; // until when the item is kept for whom it is assigned to; null: not known yet
    this.timer = 0;
  }

  // Whether there is any use in claiming what is shown.
  get worth() {
    const { claim, escalated } = this.desk.item.whole;
    return may("operator") || (may("reviewer") && !claim && !escalated && this.kept === 0);
  }

  // Another document is shown, or the same one stands otherwise.
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

  // Once a second: what was kept for somebody long enough is for anybody.
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

  // How the item stands now that is not this person's.
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

  // The item that is shown is this person's now; nothing moves on the screen.
  took(whole) {
    const { desk } = this;
    const { item } = desk;
    if (!same(item.names, whole.fields.map((field) => field.name))) return desk.open(whole);
    desk.lost = null;
    desk.lease.clock(whole);
    desk.lease.begin();
    desk.lease.hold(whole.claim?.mine ? whole.claim.until : null);
    const draft = desk.drafts.find(whole); // before the item changes and, being without edits, takes its place
    item.accept(whole);
    this.begin();
    if (!item.dirty) desk.recall(draft);
    else if (item.conflicts().length) desk.verbs.run(() => desk.verbs.merge());
    desk.form.update(item.names);
    desk.bar.show(desk);
    if (desk.history.open) desk.history.load();
    return desk.lookAhead();
  }

  // The next document is shown before the server has said yes to this one, so that nobody waits for it.
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

  // What was typed stays in sight, and in this browser.
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
