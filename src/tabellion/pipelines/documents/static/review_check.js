// Checks the rules while the person types: requests the server after a short pause, and never blocks.

import { api } from "./base.js";

const PAUSE = 220; // milliseconds

export class LiveCheck {
  constructor({ onResult, onError }) {
    this.onResult = onResult;
    this.onError = onError;
    this.timer = null;
    this.request = null;
  }

  // Whether the check of the last input is still pending.
  get isPending() {
    return this.timer !== null || this.request !== null;
  }

  schedule(item) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(item), PAUSE);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.request?.abort();
    this.request = null;
  }

  async run(item) {
    clearTimeout(this.timer);
    this.timer = null;
    this.request?.abort();
    const controller = new AbortController();
    this.request = controller;
    const fields = {};
    for (const name of item.edits.keys()) fields[name] = item.value(name);
    try {
      const { data } = await api("POST", `/api/review/items/${encodeURIComponent(item.id)}/check`, { fields }, { signal: controller.signal });
      if (this.request === controller) this.onResult(item, data, fields);
    } catch (error) {
      if (error.name !== "AbortError") this.onError(error, item.id);
    } finally {
      if (this.request === controller) this.request = null;
    }
  }
}
