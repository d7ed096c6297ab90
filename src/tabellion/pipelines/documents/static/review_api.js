// Requests to the server: every call for a review item, and how failures are classified.

import { api, me, Problem } from "./base.js";

const PAUSES = [1000, 2000, 3000, 5000]; // milliseconds between attempts while the server is unreachable
const UNREACHABLE = new Set([502, 503, 504]);

export const isUnreachable = (error) => !(error instanceof Problem) || UNREACHABLE.has(error.status);

const path = (id, verb = "") => `/api/review/items/${encodeURIComponent(id)}${verb}`;

export const get = async (id) => (await api("GET", path(id))).data;
export const post = async (id, verb, body = {}, options = {}) => (await api("POST", path(id, `/${verb}`), body, options)).data;
export const patch = async (id, version, fields) => (await api("PATCH", path(id, "/fields"), { fields }, { ifMatch: `"${version}"` })).data;
export const putDraft = (id, body) => api("PUT", path(id, "/draft"), body);

// An item that this person already holds comes before a new one. `after` is the item they have just left.
export const claimNext = async (after = null) => {
  for (let cursor = ""; cursor !== null; ) {
    const { data } = await api("GET", `/api/review/items?status=in_review&limit=200${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
    const held = data.items.find(({ id, holder }) => holder === me.name && id !== after);
    if (held) return post(held.id, "claim");
    cursor = data.next;
  }
  return (await api("POST", "/api/review/claim", after ? { after } : {})).data;
};

// Retries until the server responds.
export class ConnectionRetry {
  constructor({ onLost, onRestored }) {
    this.onLost = onLost;
    this.onRestored = onRestored;
    this.tries = 0;
    this.timer = null;
  }

  start() {
    if (this.timer !== null) return;
    this.tries = 0;
    this.onLost();
    this.scheduleAttempt();
  }

  scheduleAttempt() {
    this.timer = setTimeout(async () => {
      try {
        const answer = await fetch("/healthz", { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
      } catch {
        this.tries += 1;
        this.scheduleAttempt();
        return;
      }
      this.timer = null;
      this.onRestored();
    }, PAUSES[Math.min(this.tries, PAUSES.length - 1)]);
  }
}
