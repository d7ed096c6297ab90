// The lease of this tab: renewed while the person works here, left to expire otherwise; and the time spent.

const OFTEN = 60; // seconds between renewals, or a third of the lease if that is less
const AWAY = 600; // seconds without input after which the lease is left to expire
const PAUSED = 60; // seconds without input that no longer count as work

export class Lease {
  constructor({ renew, onTick, onExpired }) {
    this.renew = renew;
    this.onTick = onTick;
    this.onExpired = onExpired;
    this.until = null;
    this.skew = 0;
    this.seconds = 0;
    this.keystrokes = 0;
    this.lastInputAt = Date.now();
    for (const type of ["keydown", "pointerdown", "wheel"])
      addEventListener(type, (event) => this.recordInput(event), { capture: true, passive: true });
    setInterval(() => this.tick(), 1000);
    addEventListener("visibilitychange", () => this.tick());
  }

  // The offset of the server's clock, from the deadline and the time left until it.
  syncClock(loaded) {
    if (typeof loaded.sla_left === "number" && loaded.due_at) this.skew = Date.parse(loaded.due_at) - 1000 * loaded.sla_left - Date.now();
  }

  now() {
    return Date.now() + this.skew;
  }

  setExpiry(until) {
    this.until = until ? Date.parse(until) : null;
    this.span = this.until ? (this.until - this.now()) / 1000 : 0;
    this.renewedAt = Date.now();
  }

  resetWork() {
    this.seconds = 0;
    this.keystrokes = 0;
    this.lastInputAt = Date.now();
  }

  get left() {
    return this.until === null ? null : Math.round((this.until - this.now()) / 1000);
  }

  get idle() {
    return (Date.now() - this.lastInputAt) / 1000;
  }

  recordInput(event) {
    const isBack = this.idle > AWAY;
    this.lastInputAt = Date.now();
    if (event.type === "keydown" && !event.repeat && !["Control", "Shift", "Alt", "Meta"].includes(event.key)) this.keystrokes += 1;
    if (isBack && this.until !== null) this.renewNow();
  }

  tick() {
    if (this.until !== null) {
      if (!document.hidden && this.idle < PAUSED) this.seconds += 1;
      const due = Math.min(OFTEN, this.span / 3);
      if ((Date.now() - this.renewedAt) / 1000 >= due && this.idle < AWAY) this.renewNow();
      if (this.left <= 0 && !this.isRenewing) this.onExpired();
    }
    this.onTick(this.left);
  }

  async renewNow() {
    if (this.isRenewing) return;
    this.isRenewing = true;
    this.renewedAt = Date.now();
    try {
      const until = await this.renew();
      if (until && this.until !== null) this.setExpiry(until);
    } finally {
      this.isRenewing = false;
    }
  }
}
