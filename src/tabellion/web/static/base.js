// What every page has: words, requests, dates, notes, dialogs, live news and the keys that help.

import { counted, localized } from "./messages.js";

const read = (id) => JSON.parse(document.getElementById(id)?.textContent || "{}");

export const facts = read("facts");
export const words = read("words");
export const data = read("data");
export const me = facts.me;
export const language = facts.language || "en";
export const LEVELS = { viewer: 1, reviewer: 2, operator: 3, admin: 4 };
export const may = (role) => Boolean(me) && me.level >= LEVELS[role];

let csrf = facts.csrf;

// -- words -------------------------------------------------------------------------------------------------------

/** The words of a key with its facts filled in; `n` decides between one and many. */
export function t(key, given = {}) {
  const text = counted(words[key], given.n);
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in given ? String(given[name]) : whole));
}

/** The words of a key, or something else where there are none. */
export const tell = (key, otherwise) => (key in words ? words[key] : otherwise);

/** What a field is called: as its type's file says, in words of ours where it says nothing but the name. */
export function fieldTitle(name, given) {
  const plain = capital(name.replaceAll("_", " "));
  return given && given !== plain && given !== name ? given : tell(`fields.${name}`, plain);
}

/** Why somebody did something: of a rejection it is a code, and maybe words after it. */
export function because(reason) {
  const [code, ...rest] = reason.split(": ");
  return [tell(`review.because.${code}`, code), ...rest].join(": ");
}

const DATE = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const RELATIVE = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

/** A moment (RFC 3339, or seconds since 1970) as people write it. */
export function moment(at) {
  if (at === null || at === undefined || at === "") return "";
  const when = new Date(typeof at === "number" ? at * 1000 : at);
  return Number.isNaN(when.getTime()) ? String(at) : DATE.format(when);
}

/** So many seconds from now, negative ones ago: "in 3 hr.", "5 min. ago". */
export function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return RELATIVE.format(0, "second");
  const [unit, length] = UNITS.find(([, long]) => size >= long * (long > 1 ? 1 : 0)) ?? UNITS[3];
  return RELATIVE.format(Math.round(seconds / length), unit);
}

/** How long ago a moment was, from the clock of this machine. */
export const ago = (at) => (at ? relative((new Date(at).getTime() - Date.now()) / 1000) : "");

/** Seconds as a length of time: 4 s, 3 min, 2 h 05. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 172800) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
  return t("base.days", { n: Math.round(seconds / 86400) });
}

/** A number as people write it. */
export const number = (value, digits = 0) =>
  value === null || value === undefined ? "" : new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);

/** A share as a percentage. */
export const percent = (share) =>
  share === null || share === undefined ? "" : new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 }).format(share);

/** How sure something is: never rounded up to what was wanted. */
export const sure = (share) => (typeof share === "number" ? `${Math.floor(100 * share + 1e-6)} %` : "");

/** A sum of money; without a currency, a plain number. */
export function money(amount, currency) {
  if (amount === null || amount === undefined) return "";
  const options = { minimumFractionDigits: 2, maximumFractionDigits: Math.abs(amount) < 0.1 && amount !== 0 ? 4 : 2 };
  try {
    return new Intl.NumberFormat(language, currency ? { ...options, style: "currency", currency } : options).format(amount);
  } catch {
    return `${number(amount, 2)} ${currency}`;
  }
}

/** A size of a file. */
export function bytes(count) {
  const units = language === "fr" ? ["o", "ko", "Mo", "Go"] : ["B", "kB", "MB", "GB"];
  let place = 0;
  for (; count >= 1000 && place < 3; place += 1) count /= 1000;
  return `${number(count, place && count < 100 ? 1 : 0)} ${units[place]}`;
}

// -- building ----------------------------------------------------------------------------------------------------

/** An element: attributes (`class`, `on…` functions, `dataset`, properties), then children; text is always text. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(made.dataset, value);
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false).map(asNode));
  return made;
}

const asNode = (one) => (one instanceof Node ? one : document.createTextNode(String(one)));

/** A drawing of the sprite. */
export function icon(name, extra = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  made.setAttribute("class", `icon ${extra}`.trim());
  made.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  made.append(use);
  return made;
}

/** A state: a colour, a drawing and a word. */
export const badge = (kind, drawing, text, title) =>
  el("span", { class: `badge ${kind}`, title }, drawing && icon(drawing, drawing === "again" && kind === "info" ? "spin" : ""), text);

/** Says that nothing is there, and what to do about it. */
export const empty = (drawing, title, text, ...more) =>
  el("div", { class: "empty" }, icon(drawing), el("h2", {}, title), text && el("p", {}, text), more);

/** A sentence that matters. */
export const notice = (kind, drawing, ...said) =>
  el("div", { class: `notice ${kind}` }, icon(drawing), el("div", {}, said));

export const byId = (id) => document.getElementById(id);

// -- requests ----------------------------------------------------------------------------------------------------

/** What the server refused, with the problem it told. */
export class Problem extends Error {
  constructor(status, problem, headers) {
    super(sentence(problem) || `HTTP ${status}`);
    this.status = status;
    this.problem = problem ?? {};
    this.code = this.problem.code ?? "";
    this.headers = headers;
  }
}

const sentence = (problem) => (problem?.code ? tell(`base.problem_${problem.code}`, capital(localized(problem, "detail"))) : "");

/** A sentence begins with a capital letter. */
export const capital = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");

/** What to tell a person of an error. */
export function explain(error) {
  if (error instanceof Problem) return error.message;
  return error instanceof TypeError ? t("base.offline") : String(error.message ?? error);
}

let leaving = false; // whether somebody is signing out

/** @typedef {{ ifMatch?: string, signal?: AbortSignal, headers?: Record<string, string>, again?: boolean }} Options */

/** One request; gives status, data and etag, or throws a Problem. */
export async function api(method, path, body = null, /** @type {Options} */ { ifMatch, signal, headers = {}, again = true } = {}) {
  if (leaving && method === "GET") return new Promise(() => {}); // the page goes: nobody waits for its news
  const sent = { Accept: "application/json", ...headers };
  if (body !== null) sent["Content-Type"] = "application/json";
  if (ifMatch) sent["If-Match"] = ifMatch;
  if (method !== "GET") sent["X-CSRF-Token"] = csrf;
  const answer = await fetch(path, {
    method, headers: sent, signal, credentials: "same-origin", redirect: "error",
    body: body === null ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  for (const note of notes(t("base.offline"))) note.remove();
  const told = text && /json/.test(answer.headers.get("content-type") ?? "") ? JSON.parse(text) : null;
  if (answer.ok) return { status: answer.status, data: told, etag: answer.headers.get("etag") };
  if (answer.status === 403 && told?.code === "csrf_failed" && again && me && (await renewed())) {
    return api(method, path, body, { ifMatch, signal, headers, again: false });
  }
  if (answer.status === 401 && me) signedOut();
  throw new Problem(answer.status, told, answer.headers);
}

/** The token that changes carry, for requests that do not go through `api`. */
export const token = () => csrf;

/** A new token where the same person has signed in again elsewhere: what was typed here is not lost. */
export async function renewed() {
  const answer = await fetch("/api/me", { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (!answer.ok) return false;
  const told = await answer.json();
  if (told.name !== me.name || told.environment !== me.environment || !told.csrf) return false;
  csrf = told.csrf;
  return true;
}

let toldOut = false, closedAt = -1, touchedAt = 0; // the last touch before the dialog was closed, and the last of all
for (const type of ["keydown", "pointerdown", "drop"]) addEventListener(type, (event) => { touchedAt = event.timeStamp; }, { capture: true, passive: true });

/** The session is over; what is on the page stays there until the person leaves it. Whoever wants to stay is asked again when
 *  they do something, and not by what the page asks by itself. */
export function signedOut() {
  if (toldOut || touchedAt <= closedAt) return;
  toldOut = true;
  const next = encodeURIComponent(location.pathname + location.search);
  const box = dialog(t("base.signed_out_title"), [el("p", {}, t("base.signed_out_text"))], [
    el("button", { type: "button", onclick: () => box.close() }, t("base.stay")),
    el("a", { class: "button primary", href: `/sign-in?next=${next}` }, t("base.sign_in")),
  ]);
  whenClosed(box, () => { toldOut = false; closedAt = touchedAt; });
  document.dispatchEvent(new CustomEvent("signed-out"));
}

// -- live --------------------------------------------------------------------------------------------------------

/** Server-sent events that come back after a break, and rest while nobody looks: browsers allow few connections. */
export function events(url, listeners, /** @type {{ onopen?: () => void, ondown?: () => void }} */ { onopen, ondown } = {}) {
  let source = null, wait = 1000, timer = 0, resting = 0, over = false;
  const open = () => {
    if (over || source) return;
    source = new EventSource(typeof url === "function" ? url() : url);
    source.onopen = () => { wait = 1000; onopen?.(); };
    source.onerror = () => {
      ondown?.();
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        clearTimeout(timer);
        timer = setTimeout(open, wait);
        wait = Math.min(wait * 2, 30000);
      }
    };
    for (const [name, heard] of Object.entries(listeners)) {
      source.addEventListener(name, (event) => heard(event.data ? JSON.parse(event.data) : null, event));
    }
  };
  const shut = () => { clearTimeout(timer); source?.close(); source = null; };
  const turned = () => {
    clearTimeout(resting);
    if (document.hidden) resting = setTimeout(shut, 5000);
    else open();
  };
  document.addEventListener("visibilitychange", turned);
  addEventListener("pagehide", shut);
  addEventListener("pageshow", turned);
  open();
  return { close() { over = true; shut(); document.removeEventListener("visibilitychange", turned); } };
}

const PATIENCE = 2500; // milliseconds without a connection before anybody is alarmed

/** The mark that says whether what is shown is live; `back` is called when it is again, after it was not. */
export function liveMark(back = () => {}) {
  const mark = byId("live");
  let timer = 0, lost = false;
  const say = (kind, word) => {
    mark.className = `live live-${kind}`;
    mark.lastElementChild.textContent = word;
  };
  return {
    onopen() {
      clearTimeout(timer);
      timer = 0;
      say("up", t("base.live"));
      if (lost) back();
      lost = false;
    },
    ondown() {
      lost = true;
      timer ||= setTimeout(() => say("down", t("base.not_live")), PATIENCE);
    },
  };
}

// -- coming back ---------------------------------------------------------------------------------------------------

const arrival = /** @type {PerformanceNavigationTiming} */ (performance.getEntriesByType("navigation")[0])?.type;

/** The page that was here before this one; none where somebody came back or loaded it again. */
export const cameFrom = arrival === "navigate" ? sessionStorage.getItem("left") : null;
addEventListener("pagehide", () => sessionStorage.setItem("left", location.pathname));

const spot = () => `place:${location.pathname}${location.search}`;

/** Remembers how much of a list is shown and how far down one is, for whoever comes back to it. */
export function rememberPlace(shown) {
  history.scrollRestoration = "manual";
  addEventListener("pagehide", () => sessionStorage.setItem(spot(), JSON.stringify({ shown: shown(), y: scrollY })));
}

/** Where one was in this list before, if one has come back to it. */
export function placeBefore() {
  return arrival === "back_forward" || arrival === "reload" ? JSON.parse(sessionStorage.getItem(spot()) ?? "null") : null;
}

// -- notes and dialogs -------------------------------------------------------------------------------------------

const notes = (text) => [...byId("toasts").children].filter((one) => one.firstChild.textContent === text);

/** A note in the corner: good, warn, bad or plain; bad ones stay until they are closed. Nothing is said twice at once. */
export function toast(text, kind = "", seconds = kind === "bad" ? 0 : 5) {
  for (const note of notes(text)) note.remove();
  const made = el("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : null }, el("div", {}, text),
    el("button", { type: "button", "aria-label": t("base.close"), onclick: () => made.remove() }, icon("cross")));
  byId("toasts").append(made);
  if (seconds) setTimeout(() => made.remove(), seconds * 1000);
  return made;
}

/** A note that the next page shows. */
export function flash(text, kind = "good") {
  sessionStorage.setItem("flash", JSON.stringify([text, kind]));
}

/** A dialog with a title, a body and buttons; gone from the page when it is closed. */
export function dialog(title, body, buttons = [], { broad = false } = {}) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const made = el("dialog", { class: broad ? "broad" : "", "aria-labelledby": id },
    el("div", { class: "dialog-head" }, el("h2", { id }, title),
      el("button", { type: "button", class: "quiet square", "aria-label": t("base.close"), onclick: () => made.close() }, icon("cross"))),
    el("div", { class: "dialog-body" }, body),
    buttons.length ? el("div", { class: "dialog-foot" }, buttons) : el("div", { class: "dialog-foot" }));
  made.addEventListener("close", () => made.remove());
  made.addEventListener("click", (event) => { if (event.target === made) made.close(); });
  document.body.append(made);
  made.showModal();
  return made;
}

/** Does something as soon as an open dialog is closed, in whatever way. Its `close` event may come after the next key. */
export function whenClosed(box, work) {
  new MutationObserver(work).observe(box, { attributeFilter: ["open"] });
}

/** Asks before something that cannot be undone; true: yes. */
export function confirm(title, text, yes, { danger = false } = {}) {
  return new Promise((settle) => {
    let said = false;
    const made = dialog(title, [el("p", {}, text)], [
      el("button", { type: "button", onclick: () => made.close() }, t("base.cancel")),
      el("button", { type: "button", class: danger ? "danger primary" : "primary", onclick: () => { said = true; made.close(); } }, yes),
    ]);
    made.addEventListener("close", () => settle(said));
    made.querySelector(".dialog-foot button:last-child").focus();
  });
}

/** A form in a dialog. `work` gets its values and may throw: the dialog stays and tells why. Null: not done. */
export function formDialog(title, fields, yes, work) {
  return new Promise((settle) => {
    let result = null;
    const fault = el("div", { class: "notice bad", hidden: true }, icon("stop"), el("div", {}));
    const submit = el("button", { type: "submit", class: "primary" }, yes);
    const form = el("form", {
      method: "dialog",
      async onsubmit(event) {
        event.preventDefault();
        submit.setAttribute("aria-busy", "true");
        try {
          result = (await work(Object.fromEntries(new FormData(form)))) ?? true;
          made.close();
        } catch (error) {
          fault.hidden = false;
          fault.lastChild.textContent = explain(error);
        } finally {
          submit.removeAttribute("aria-busy");
        }
      },
    }, fields, fault, el("div", { class: "dialog-foot" },
      el("button", { type: "button", onclick: () => made.close() }, t("base.cancel")), submit));
    const made = dialog(title, form);
    made.querySelector(":scope > .dialog-foot")?.remove();
    made.addEventListener("close", () => settle(result));
    form.querySelector("input:not([type=hidden], .unseen), select, textarea")?.focus();
  });
}

/** A labelled input for forms. */
export function field(label, input, hint) {
  const id = input.id || `field-${Math.random().toString(36).slice(2)}`;
  input.id = id;
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return el("div", { class: "field" }, el("label", { for: id }, label), input,
    hint && el("span", { class: "hint", id: `${id}-hint` }, hint));
}

// -- keys --------------------------------------------------------------------------------------------------------

const known = [];

/** Names keys for the help that `?` opens; with `run`, binds them too. */
export function keys(list) {
  known.push(...list);
}

/** Whether somebody is typing, so that letters are letters. */
export const typing = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
    && !/^(checkbox|radio|button|submit|file)$/.test(/** @type {HTMLInputElement} */ (target).type ?? ""));

export function help() {
  const list = el("dl", { class: "keys" }, known.filter((one) => one.does).map((one) => [
    el("dt", {}, String(one.shown ?? one.key).split(" ").map((key) => [el("kbd", {}, key), " "])), el("dd", {}, one.does)]));
  dialog(t("base.help_title"), [list]);
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  const found = known.find((one) => one.run && one.key === event.key && (!one.when || one.when()));
  if (found) {
    event.preventDefault();
    found.run(event);
  }
});

/** Moves through the rows of a table with j and k, and opens the chosen one with Enter. Rows carry a link. */
export function rowKeys(body, { opens = true } = {}) {
  const rows = () => [...body.querySelectorAll("tr[data-row]")].filter((row) => row.checkVisibility());
  const go = (step) => {
    const all = rows();
    if (!all.length) return;
    const place = all.findIndex((row) => row.classList.contains("here"));
    const next = all[Math.max(0, Math.min(all.length - 1, place < 0 ? (step > 0 ? 0 : all.length - 1) : place + step))];
    all[place]?.classList.remove("here");
    next.classList.add("here");
    next.scrollIntoView({ block: "nearest" });
    next.querySelector("a, button")?.focus({ preventScroll: true });
  };
  keys([
    { key: "j", shown: "j", does: t("base.key_next"), run: () => go(1) },
    { key: "k", shown: "k", does: t("base.key_previous"), run: () => go(-1) },
  ]);
  if (!opens) return;
  keys([{ key: "Enter", does: t("base.key_open"), run: () => body.querySelector("tr.here a")?.click(), when: () => body.querySelector("tr.here") && document.activeElement === document.body }]);
  body.addEventListener("click", (event) => {
    if (event.target.closest("a, button, input, select, label") || getSelection().toString()) return;
    event.target.closest("tr[data-row]")?.querySelector("a")?.click();
  });
}

// -- the header --------------------------------------------------------------------------------------------------

function remember(name, value) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=lax${secure}`;
}

byId("theme-button")?.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
});

byId("language")?.addEventListener("change", async (event) => {
  remember("language", event.target.value);
  if (me?.user) await api("PATCH", "/api/me", { language: event.target.value }).catch(() => {});
  location.reload();
});

byId("help-button")?.addEventListener("click", help);

byId("sign-out-button")?.addEventListener("click", async () => {
  try {
    const sent = api("POST", "/sign-out");
    leaving = true;
    await sent;
  } catch (error) {
    leaving = false;
    if (error.status !== 401) return void toast(explain(error), "bad");
  }
  location.assign("/sign-in");
});

byId("away-button")?.addEventListener("click", async () => {
  const away = byId("away-mark").hidden;
  try {
    await api("PATCH", "/api/me", { available: !away });
    absent(away);
    toast(t(away ? "base.away_done" : "base.back_done"), "good");
    document.dispatchEvent(new CustomEvent("away"));
  } catch (error) {
    toast(explain(error), "bad");
  }
  byId("me-menu").open = false;
});

/** Says in the header whether one is away, and gets no work meanwhile. */
export function absent(away) {
  if (!byId("away-button")) return;
  byId("away-mark").hidden = !away;
  byId("away-button").lastElementChild.textContent = t(away ? "base.be_back" : "base.be_away");
}

byId("password-button")?.addEventListener("click", async () => {
  byId("me-menu").open = false;
  const input = (name, kind) => el("input", { name, type: "password", autocomplete: kind, maxlength: 1000 });
  const done = await formDialog(t("base.password"), [
    el("input", { class: "unseen", name: "username", autocomplete: "username", value: me.name, readonly: true, tabindex: "-1", "aria-hidden": "true" }),
    field(t("base.password_current"), input("current", "current-password"), t("base.password_current_hint")),
    field(t("base.password_new"), input("new", "new-password"), t("base.password_new_hint")),
    field(t("base.password_again"), input("again", "new-password")),
  ], t("base.password"), async (values) => {
    if (values.new !== values.again) throw new Error(t("base.password_differs"));
    await api("PUT", "/api/me/password", values.current ? { current: values.current, new: values.new } : { new: values.new });
  });
  if (done) toast(t("base.password_done"), "good");
});

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});

const said = sessionStorage.getItem("flash");
if (said) {
  sessionStorage.removeItem("flash");
  toast(...JSON.parse(said));
}

keys([{ key: "?", does: t("base.key_help"), run: help }]);
