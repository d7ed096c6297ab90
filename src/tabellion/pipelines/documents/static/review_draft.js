// Drafts: input is stored in this browser at once and on the server a moment later; either copy survives the other.

const PAUSE = 900; // milliseconds without typing before the draft is sent
const LIFETIME = 14 * 24 * 3600 * 1000; // how long an orphaned draft stays in the browser
const PREFIX = "tabellion.draft.";

export class Drafts {
  constructor(person, send, onError) {
    this.prefix = `${PREFIX}${person}.`;
    this.send = send;
    this.onError = onError;
    this.timer = null;
    this.deleteExpired();
  }

  // Browsers may refuse storage (private windows, quotas); the server's copy is then the only one.
  store(id, body) {
    try {
      if (body) localStorage.setItem(this.prefix + id, JSON.stringify(body));
      else localStorage.removeItem(this.prefix + id);
    } catch {
      return;
    }
  }

  readLocal(id) {
    try {
      return JSON.parse(localStorage.getItem(this.prefix + id));
    } catch {
      return null;
    }
  }

  // `here`: in this browser only, because the server only accepts drafts from the holder.
  save(item, { here = false } = {}) {
    const body = { ...item.toDraft(), at: new Date().toISOString() };
    this.store(item.id, item.isDirty ? body : null);
    if (here) return;
    if (this.unsent && this.unsent.id !== item.id) this.flush();
    this.unsent = { id: item.id, body };
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), PAUSE);
  }

  // Sends the draft now; if that fails, it is sent again with the next one.
  async flush() {
    clearTimeout(this.timer);
    const draft = this.unsent;
    if (!draft) return true;
    this.unsent = null;
    try {
      await (this.sending = this.send(draft.id, draft.body));
      return true;
    } catch (error) {
      this.unsent ||= draft;
      this.onError(error, draft.id);
      return false;
    }
  }

  // Sends the draft now, and returns when everything has been sent or has failed.
  async flushAll() {
    await this.flush();
    await this.sending?.catch(() => null);
  }

  // The item is being decided: drops the unsent draft, and waits for the one being sent.
  async discardUnsent(id) {
    if (this.unsent?.id === id) {
      this.unsent = null;
      clearTimeout(this.timer);
    }
    await this.sending?.catch(() => null);
  }

  // The newer of the two copies.
  find(loaded) {
    const here = this.readLocal(loaded.id);
    const there = loaded.draft?.edits ? loaded.draft : null;
    if (!here || !there) return here || there;
    return (here.at || "") >= (there.at || "") ? here : there;
  }

  forget(id) {
    this.store(id, null);
    if (this.unsent?.id === id) {
      this.unsent = null;
      clearTimeout(this.timer);
    }
  }

  deleteExpired() {
    try {
      for (const key of Object.keys(localStorage)) {
        if (!key.startsWith(PREFIX)) continue;
        const at = Date.parse(JSON.parse(localStorage.getItem(key))?.at);
        if (!(Date.now() - at < LIFETIME)) localStorage.removeItem(key);
      }
    } catch {
      return;
    }
  }
}
