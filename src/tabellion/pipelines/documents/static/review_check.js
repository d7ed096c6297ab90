// Checks the rules while the person types: requests the server after a short pause, and never blocks.

import { api } from "./base.js";

const PAUSE = 220; // milliseconds

export class Check {
  constructor({ came, failed }) {
    this.came = came;
    this.failed = failed;
    this.timer = null;
    this.asking = null;
  }

  // Whether the check of the last input is still pending.
  get pending() {
    return this.timer !== null || this.asking !== null;
  }

  soon(item) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(item), PAUSE);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.asking?.abort();
    this.asking = null;
  }

  async now(item) {
    clearTimeout(this.timer);
    this.timer = null;
    this.asking?.abort();
    const request = new AbortController();
    this.asking = request;
    const fields = {};
    for (const name of item.edits.keys()) fields[name] = item.value(name);
    try {
      const { data } = await api("POST", `/api/review/items/${encodeURIComponent(item.id)}/check`, { fields }, { signal: request.signal });
      if (this.asking === request) this.came(item, data, fields);
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error, item.id);
    } finally {
      if (this.asking === request) this.asking = null;
    }
  }
}
