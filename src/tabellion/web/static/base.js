// Shared by every page: texts, requests, dates, toasts, dialogs, event streams and keyboard shortcuts.

import { selectPlural, localized } from "./messages.js";

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

/** The text of a key with its parameters filled in; `n` selects singular or plural. */
export function t(key, params = {}) {
  const text = selectPlural(words[key], params.n);
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (hole, name) => (name in params ? String(params[name]) : hole));
}

/** The text of a key, or `otherwise` if there is none. */
export const textOr = (key, otherwise) => (key in words ? words[key] : otherwise);

/** The title of a field: from its type's file, else from our texts, else from its name. */
export function fieldTitle(name, title) {
  const plain = capital(name.replaceAll("_", " "));
  return title && title !== plain && title !== name ? title : textOr(`fields.${name}`, plain);
}

const DATE = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const RELATIVE = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

/** A time (RFC 3339, or seconds since 1970) in the page's language. */
export function moment(at) {
  if (at === null || at === undefined || at === "") return "";
  const when = new Date(typeof at === "number" ? at * 1000 : at);
  return Number.isNaN(when.getTime()) ? String(at) : DATE.format(when);
}

/** Seconds from now as a text; negative ones are in the past: "in 3 hr.", "5 min. ago". */
export function relative(seconds) {
  const size = Math.abs(seconds);
  if (size < 1) return RELATIVE.format(0, "second");
  const [unit, length] = UNITS.find(([, long]) => size >= long * (long > 1 ? 1 : 0)) ?? UNITS[3];
  return RELATIVE.format(Math.round(seconds / length), unit);
}

/** How long ago a time was, by this machine's clock. */
export const ago = (at) => (at ? relative((new Date(at).getTime() - Date.now()) / 1000) : "");

/** Seconds as a duration: 4 s, 3 min, 2 h 05. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${number(seconds, seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  const minutes = Math.round(seconds / 60);
  if (seconds < 172800) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
  return t("base.days", { n: Math.round(seconds / 86400) });
}

/** A number in the page's language. */
export const number = (value, digits = 0) =>
  value === null || value === undefined ? "" : new Intl.NumberFormat(language, { maximumFractionDigits: digits }).format(value);

/** A share as a percentage. */
export const percent = (share) =>
  share === null || share === undefined ? "" : new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 }).format(share);

/** A confidence as a percentage, rounded down so that it never seems to reach a threshold. */
export const sure = (share) => (typeof share === "number" ? `${Math.floor(100 * share + 1e-6)} %` : "");

/** An amount of money; without a currency, a plain number. */
export function money(amount, currency) {
  if (amount === null || amount === undefined) return "";
  const options = { minimumFractionDigits: 2, maximumFractionDigits: Math.abs(amount) < 0.1 && amount !== 0 ? 4 : 2 };
  try {
    return new Intl.NumberFormat(language, currency ? { ...options, style: "currency", currency } : options).format(amount);
  } catch {
    return `${number(amount, 2)} ${currency}`;
  }
}

/** The size of a file. */
export function bytes(count) {
  const units = language === "fr" ? ["o", "ko", "Mo", "Go"] : ["B", "kB", "MB", "GB"];
  let place = 0;
  for (; count >= 1000 && place < 3; place += 1) count /= 1000;
  return `${number(count, place && count < 100 ? 1 : 0)} ${units[place]}`;
}

// -- building ----------------------------------------------------------------------------------------------------

/** Creates an element: attributes (`class`, `on…` functions, `dataset`, `style`), then children; strings are text, never markup. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false).map(asNode));
  return element;
}

const asNode = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

/** An icon of the sprite. */
export function icon(name, extra = "") {
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawing.setAttribute("class", `icon ${extra}`.trim());
  drawing.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  drawing.append(use);
  return drawing;
}

/** A state: a colour, an icon and a word. */
export const badge = (kind, drawing, text, title) =>
  el("span", { class: `badge ${kind}`, title }, drawing && icon(drawing, drawing === "again" && kind === "info" ? "spin" : ""), text);

/** The placeholder of an empty list, with what to do. */
export const empty = (drawing, title, text, ...more) =>
  el("div", { class: "empty" }, icon(drawing), el("h2", {}, title), text && el("p", {}, text), more);

/** A highlighted message. */
export const notice = (kind, drawing, ...content) =>
  el("div", { class: `notice ${kind}` }, icon(drawing), el("div", {}, content));

export const byId = (id) => document.getElementById(id);

// -- requests ----------------------------------------------------------------------------------------------------

/** An error response, with its problem (RFC 9457). */
export class Problem extends Error {
  constructor(status, problem, headers) {
    super(sentence(problem) || `HTTP ${status}`);
    this.status = status;
    this.problem = problem ?? {};
    this.code = this.problem.code ?? "";
    this.headers = headers;
  }
}

const sentence = (problem) => (problem?.code ? textOr(`base.problem_${problem.code}`, capital(localized(problem, "detail"))) : "");

/** The text with a capital first letter. */
export const capital = (text) => (text ? text[0].toUpperCase() + text.slice(1) : "");

/** The text of an error for people. */
export function explain(error) {
  if (error instanceof Problem) return error.message;
  return error instanceof TypeError ? t("base.offline") : String(error.message ?? error);
}

let isSigningOut = false; // whether the user is signing out

/** @typedef {{ ifMatch?: string, signal?: AbortSignal, headers?: Record<string, string>, again?: boolean }} Options */

/** Sends a request; returns status, data and etag, or throws a Problem. A file is sent as it is: the browser streams it from the disk. */
export async function api(method, path, body = null, /** @type {Options} */ { ifMatch, signal, headers = {}, again = true } = {}) {
  if (isSigningOut && method === "GET") return new Promise(() => {}); // the page is about to be left: nothing needs the answer
  const requestHeaders = { Accept: "application/json", ...headers };
  if (body !== null) requestHeaders["Content-Type"] ??= body instanceof Blob ? body.type || "application/octet-stream" : "application/json";
  if (ifMatch) requestHeaders["If-Match"] = ifMatch;
  if (method !== "GET") requestHeaders["X-CSRF-Token"] = csrf;
  const response = await fetch(path, {
    method, headers: requestHeaders, signal, credentials: "same-origin", redirect: "error",
    body: body === null || body instanceof Blob ? body : JSON.stringify(body),
  });
  const text = await response.text();
  for (const note of notes(t("base.offline"))) note.remove();
  const parsed = text && /json/.test(response.headers.get("content-type") ?? "") ? JSON.parse(text) : null;
  if (response.ok) return { status: response.status, data: parsed, etag: response.headers.get("etag") };
  if (response.status === 403 && parsed?.code === "csrf_failed" && again && me && (await renewCsrf())) {
    return api(method, path, body, { ifMatch, signal, headers, again: false });
  }
  if (response.status === 401 && me) showSignedOut();
  throw new Problem(response.status, parsed, response.headers);
}

/** The CSRF token, for requests that do not use `api`. */
export const token = () => csrf;

/** Fetches a new CSRF token if the same user has signed in again in another tab, so that input here is not lost. */
export async function renewCsrf() {
  const response = await fetch("/api/me", { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (!response.ok) return false;
  const current = await response.json();
  if (current.name !== me.name || current.environment !== me.environment || !current.csrf) return false;
  csrf = current.csrf;
  return true;
}

let isSignedOutShown = false, closedAt = -1, touchedAt = 0; // the last user action before the dialog was closed, and the last one at all
for (const type of ["keydown", "pointerdown", "drop"]) addEventListener(type, (event) => { touchedAt = event.timeStamp; }, { capture: true, passive: true });

/** Shows that the session has ended; the page stays as it is. If the user closes the dialog, it is shown again only after they
 *  do something, not because of requests that the page sends by itself. */
export function showSignedOut() {
  if (isSignedOutShown || touchedAt <= closedAt) return;
  isSignedOutShown = true;
  const next = encodeURIComponent(location.pathname + location.search);
  const box = dialog(t("base.signed_out_title"), [el("p", {}, t("base.signed_out_text"))], [
    el("button", { type: "button", onclick: () => box.close() }, t("base.stay")),
    el("a", { class: "button primary", href: `/sign-in?next=${next}` }, t("base.sign_in")),
  ]);
  whenClosed(box, () => { isSignedOutShown = false; closedAt = touchedAt; });
  document.dispatchEvent(new CustomEvent("signed-out"));
}

// -- live --------------------------------------------------------------------------------------------------------

/** Server-sent events; reconnects after errors, and pauses while the page is hidden: browsers allow few connections. */
export function events(url, listeners, /** @type {{ onopen?: () => void, ondown?: () => void }} */ { onopen, ondown } = {}) {
  let source = null, wait = 1000, timer = 0, hideTimer = 0, isClosed = false;
  const open = () => {
    if (isClosed || source) return;
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
    for (const [name, listener] of Object.entries(listeners)) {
      source.addEventListener(name, (event) => listener(event.data ? JSON.parse(event.data) : null, event));
    }
  };
  const disconnect = () => { clearTimeout(timer); source?.close(); source = null; };
  const handleVisibility = () => {
    clearTimeout(hideTimer);
    if (document.hidden) hideTimer = setTimeout(disconnect, 5000);
    else open();
  };
  document.addEventListener("visibilitychange", handleVisibility);
  addEventListener("pagehide", disconnect);
  addEventListener("pageshow", handleVisibility);
  open();
  return { close() { isClosed = true; disconnect(); document.removeEventListener("visibilitychange", handleVisibility); } };
}

const PATIENCE = 2500; // milliseconds without a connection before it is shown

/** The indicator whether the page is live; `back` is called when the connection returns. */
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

/** The path of the previous page; null after going back or reloading. */
export const cameFrom = arrival === "navigate" ? sessionStorage.getItem("left") : null;
addEventListener("pagehide", () => sessionStorage.setItem("left", location.pathname));

const placeKey = () => `place:${location.pathname}${location.search}`;

/** Stores how much of a list is shown and the scroll position, for coming back. */
export function rememberPlace(shown) {
  history.scrollRestoration = "manual";
  addEventListener("pagehide", () => sessionStorage.setItem(placeKey(), JSON.stringify({ shown: shown(), y: scrollY })));
}

/** The stored place in this list, after going back or reloading; else null. */
export function placeBefore() {
  return arrival === "back_forward" || arrival === "reload" ? JSON.parse(sessionStorage.getItem(placeKey()) ?? "null") : null;
}

// -- notes and dialogs -------------------------------------------------------------------------------------------

const notes = (text) => [...byId("toasts").children].filter((toastElement) => toastElement.firstChild.textContent === text);

/** A message in the corner: good, warn, bad or plain; bad ones stay until they are closed. It replaces one with the same text. */
export function toast(text, kind = "", seconds = kind === "bad" ? 0 : 5) {
  for (const note of notes(text)) note.remove();
  const element = el("div", { class: `toast ${kind}`, role: kind === "bad" ? "alert" : null }, el("div", {}, text),
    el("button", { type: "button", "aria-label": t("base.close"), onclick: () => element.remove() }, icon("cross")));
  byId("toasts").append(element);
  if (seconds) setTimeout(() => element.remove(), seconds * 1000);
  return element;
}

/** A toast that the next page shows. */
export function flash(text, kind = "good") {
  sessionStorage.setItem("flash", JSON.stringify([text, kind]));
}

/** Opens a dialog with a title, a body and buttons; closing removes it from the page. */
export function dialog(title, body, buttons = [], { broad = false } = {}) {
  const id = `dialog-${Math.random().toString(36).slice(2)}`;
  const element = el("dialog", { class: broad ? "broad" : "", "aria-labelledby": id },
    el("div", { class: "dialog-head" }, el("h2", { id }, title),
      el("button", { type: "button", class: "quiet square", "aria-label": t("base.close"), onclick: () => element.close() }, icon("cross"))),
    el("div", { class: "dialog-body" }, body),
    buttons.length ? el("div", { class: "dialog-foot" }, buttons) : el("div", { class: "dialog-foot" }));
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => { if (event.target === element) element.close(); });
  document.body.append(element);
  element.showModal();
  return element;
}

/** Calls `work` as soon as an open dialog is closed. Its `close` event would be too late: it may follow the next key. */
export function whenClosed(box, work) {
  new MutationObserver(work).observe(box, { attributeFilter: ["open"] });
}

/** Asks for confirmation; resolves to whether it was given. */
export function confirm(title, text, yes, { danger = false } = {}) {
  return new Promise((settle) => {
    let confirmed = false;
    const box = dialog(title, [el("p", {}, text)], [
      el("button", { type: "button", onclick: () => box.close() }, t("base.cancel")),
      el("button", { type: "button", class: danger ? "danger primary" : "primary", onclick: () => { confirmed = true; box.close(); } }, yes),
    ]);
    box.addEventListener("close", () => settle(confirmed));
    box.querySelector(".dialog-foot button:last-child").focus();
  });
}

/** A form in a dialog. `work` gets its values; if it throws, the dialog stays and shows the error. Resolves to null if cancelled. */
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
          box.close();
        } catch (error) {
          fault.hidden = false;
          fault.lastChild.textContent = explain(error);
        } finally {
          submit.removeAttribute("aria-busy");
        }
      },
    }, fields, fault, el("div", { class: "dialog-foot" },
      el("button", { type: "button", onclick: () => box.close() }, t("base.cancel")), submit));
    const box = dialog(title, form);
    box.querySelector(":scope > .dialog-foot")?.remove();
    box.addEventListener("close", () => settle(result));
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

const shortcuts = [];

/** Adds keyboard shortcuts to the help that `?` opens; those with `run` are bound. */
export function keys(list) {
  shortcuts.push(...list);
}

/** Whether the user is typing into a field, where shortcuts must not apply. */
export const isTyping = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
    && !/^(checkbox|radio|button|submit|file)$/.test(/** @type {HTMLInputElement} */ (target).type ?? ""));

export function showHelp() {
  const list = el("dl", { class: "keys" }, shortcuts.filter((shortcut) => shortcut.does).map((shortcut) => [
    el("dt", {}, String(shortcut.shown ?? shortcut.key).split(" ").map((key) => [el("kbd", {}, key), " "])), el("dd", {}, shortcut.does)]));
  dialog(t("base.help_title"), [list]);
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const found = shortcuts.find((shortcut) => shortcut.run && shortcut.key === event.key && (!shortcut.when || shortcut.when()));
  if (found) {
    event.preventDefault();
    found.run(event);
  }
});

/** Selects rows of a table with j and k, and opens the selected one with Enter. Rows contain a link. */
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

function storeCookie(name, value) {
  const secure = location.protocol === "https:" ? "; secure" : "";
  document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=lax${secure}`;
}

byId("theme-button")?.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  storeCookie("theme", root.dataset.theme);
});

byId("language")?.addEventListener("change", async (event) => {
  storeCookie("language", event.target.value);
  if (me?.user) await api("PATCH", "/api/me", { language: event.target.value }).catch(() => {});
  location.reload();
});

byId("help-button")?.addEventListener("click", showHelp);

byId("sign-out-button")?.addEventListener("click", async () => {
  try {
    const sent = api("POST", "/sign-out");
    isSigningOut = true;
    await sent;
  } catch (error) {
    isSigningOut = false;
    if (error.status !== 401) return void toast(explain(error), "bad");
  }
  location.assign("/sign-in");
});

byId("away-button")?.addEventListener("click", async () => {
  const away = byId("away-mark").hidden;
  try {
    await api("PATCH", "/api/me", { available: !away });
    showAway(away);
    toast(t(away ? "base.away_done" : "base.back_done"), "good");
    document.dispatchEvent(new CustomEvent("away"));
  } catch (error) {
    toast(explain(error), "bad");
  }
  byId("me-menu").open = false;
});

/** Shows in the header whether the user is away and gets no work. */
export function showAway(away) {
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

const flashed = sessionStorage.getItem("flash");
if (flashed) {
  sessionStorage.removeItem("flash");
  toast(...JSON.parse(flashed));
}

keys([{ key: "?", does: t("base.key_help"), run: showHelp }]);
