// Drafts: input is stored in this browser at once and on the server a moment later; either copy survives the other.

const PAUSE = 900; // milliseconds without typing before the draft is sent
const KEPT = 14 * 24 * 3600 * 1000; // how long an orphaned draft stays in the browser
const START = "tabellion.draft.";

export class Drafts {
  constructor(person, put, failed) {
    this.start = `${START}${person}.`;
    this.put = put;
    this.failed = failed;
    this.timer = null;
    this.sweep();
  }

  // Browsers may refuse storage (private windows, quotas); the server's copy is then the only one.
  store(id, body) {
    try {
      if (body) localStorage.setItem(this.start + id, JSON.stringify(body));
      else localStorage.removeItem(this.start + id);
    } catch {
      return;
    }
  }

  local(id) {
    try {
      return JSON.parse(localStorage.getItem(this.start + id));
    } catch {
      return null;
    }
  }

  // `here`: in this browser only, because the server only accepts drafts from the holder.
  keep(item, { here = false } = {}) {
    const body = { ...item.draft(), at: new Date().toISOString() };
    this.store(item.id, item.dirty ? body : null);
    if (here) return;
    if (this.waiting && this.waiting.id !== item.id) this.flush();
    this.waiting = { id: item.id, body };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), PAUSE);
  }

  // Sends the draft now; if that fails, it is sent again with the next one.
  async flush() {
    clearTimeout(this.timer);
    const draft = this.waiting;
    if (!draft) return true;
    this.waiting = null;
    try {
      await (this.sending = this.put(draft.id, draft.body));
      return true;
    } catch (error) {
      this.waiting ||= draft;
      this.failed(error, draft.id);
      return false;
    }
  }

  // Sends the draft now, and returns when everything has been sent or has failed.
  async finish() {
    await this.flush();
    await this.sending?.catch(() => null);
  }

  // The item is being decided: drops the unsent draft, and waits for the one being sent.
  async settle(id) {
    if (this.waiting?.id === id) {
      this.waiting = null;
      clearTimeout(this.timer);
    }
    await this.sending?.catch(() => null);
  }

  // The newer of the two copies.
  find(whole) {
    const here = this.local(whole.id);
    const there = whole.draft?.edits ? whole.draft : null;
    if (!here || !there) return here || there;
    return (here.at || "") >= (there.at || "") ? here : there;
  }

  forget(id) {
    this.store(id, null);
    if (this.waiting?.id === id) {
      this.waiting = null;
      clearTimeout(this.timer);
    }
  }

  sweep() {
    try {
      for (const key of Object.keys(localStorage)) {
        if (!key.startsWith(START)) continue;
        const at = Date.parse(JSON.parse(localStorage.getItem(key))?.at);
        if (!(Date.now() - at < KEPT)) localStorage.removeItem(key);
      }
    } catch {
      return;
    }
  }
}
