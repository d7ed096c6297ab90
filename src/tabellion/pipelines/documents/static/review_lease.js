// The lease of this tab: renewed while the person works here, left to expire otherwise; and the time spent.

const OFTEN = 60; // seconds between renewals, or a third of the lease if that is less
const AWAY = 600; // seconds without input after which the lease is left to expire
const PAUSED = 60; // seconds without input that no longer count as work

export class Lease {
  constructor({ renew, tick, lost }) {
    this.renew = renew;
    this.tick = tick;
    this.lost = lost;
    this.until = null;
    this.skew = 0;
    this.seconds = 0;
    this.keystrokes = 0;
    this.touched = Date.now();
    for (const type of ["keydown", "pointerdown", "wheel"])
      addEventListener(type, (event) => this.touch(event), { capture: true, passive: true });
    setInterval(() => this.beat(), 1000);
    addEventListener("visibilitychange", () => this.beat());
  }

  // The offset of the server's clock, from the deadline and the time left until it.
  clock(whole) {
    if (typeof whole.sla_left === "number" && whole.due_at) this.skew = Date.parse(whole.due_at) - 1000 * whole.sla_left - Date.now();
  }

  now() {
    return Date.now() + this.skew;
  }

  hold(until) {
    this.until = until ? Date.parse(until) : null;
    this.span = this.until ? (this.until - this.now()) / 1000 : 0;
    this.renewed = Date.now();
  }

  begin() {
    this.seconds = 0;
    this.keystrokes = 0;
    this.touched = Date.now();
  }

  get left() {
    return this.until === null ? null : Math.round((this.until - this.now()) / 1000);
  }

  get idle() {
    return (Date.now() - this.touched) / 1000;
  }

  touch(event) {
    const back = this.idle > AWAY;
    this.touched = Date.now();
    if (event.type === "keydown" && !event.repeat && !["Control", "Shift", "Alt", "Meta"].includes(event.key)) this.keystrokes += 1;
    if (back && this.until !== null) this.ask();
  }

  beat() {
    if (this.until !== null) {
      if (!document.hidden && this.idle < PAUSED) this.seconds += 1;
      const due = Math.min(OFTEN, this.span / 3);
      if ((Date.now() - this.renewed) / 1000 >= due && this.idle < AWAY) this.ask();
      if (this.left <= 0 && !this.asking) this.lost();
    }
    this.tick(this.left);
  }

  async ask() {
    if (this.asking) return;
    this.asking = true;
    this.renewed = Date.now();
    try {
      const until = await this.renew();
      if (until && this.until !== null) this.hold(until);
    } finally {
      this.asking = false;
    }
  }
}
