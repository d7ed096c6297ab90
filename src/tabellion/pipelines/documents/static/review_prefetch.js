// Prefetches what will probably come next: its item and the image of its first page.

import { api } from "./base.js";
import { pageImageUrl, widthFor } from "./review_page.js";

export class ItemPrefetch {
  constructor(zone, me) {
    this.zone = zone;
    this.me = me;
    this.loaded = null;
  }

  // The server's order of the queue: its next claim is the first item that this person may have.
  async load(current) {
    this.loaded = null;
    const { data } = await api("GET", "/api/review/items?status=pending&limit=10");
    const isFree = (item) => item.id !== current && !item.escalated && !item.postponed_until && (!item.assigned_to || item.assigned_to === this.me);
    const next = data.items.find(isFree);
    if (!next) return null;
    const loaded = (await api("GET", `/api/review/items/${encodeURIComponent(next.id)}`)).data;
    this.loaded = loaded;
    const page = loaded.document.pages?.[0]?.number || 1;
    this.picture = new Image();
    this.picture.src = pageImageUrl(loaded.document.id, page, widthFor(this.zone.clientWidth - 28));
    return loaded;
  }
}
