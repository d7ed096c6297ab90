// Prefetches what will probably come next: its item and the image of its first page.

import { api } from "./base.js";
import { pictureUrl, widthFor } from "./review_page.js";

export class Ahead {
  constructor(zone, me) {
    this.zone = zone;
    this.me = me;
    this.whole = null;
  }

  // The server's order of the queue: its next claim is the first item that this person may have.
  async look(current) {
    this.whole = null;
    const { data } = await api("GET", "/api/review/items?status=pending&limit=10");
    const free = (item) => item.id !== current && !item.escalated && !item.postponed_until && (!item.assigned_to || item.assigned_to === this.me);
    const next = data.items.find(free);
    if (!next) return null;
    const whole = (await api("GET", `/api/review/items/${encodeURIComponent(next.id)}`)).data;
    this.whole = whole;
    const page = whole.document.pages?.[0]?.number || 1;
    this.picture = new Image();
    this.picture.src = pictureUrl(whole.document.id, page, widthFor(this.zone.clientWidth - 28));
    return whole;
  }
}
