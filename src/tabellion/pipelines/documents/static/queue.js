// The review queue: open items, their order and the reasons for it; kept up to date by the server's events.

import { api, badge, byId, data as pageData, el, empty, events, explain, fieldTitle, icon, keys, liveMark, me, moment, number, placeBefore, relative, rememberPlace, rowKeys, t, textOr, toast } from "./base.js";
import { localized } from "./messages.js";
import { countdown, formatSpan, urgency } from "./durations.js";

const PARTS = ["confidence", "proximity", "complexity", "value"];
const CHIPS = 3, NAMED = 2; // reasons shown in a row, and fields shown for a reason
const PAGE = 50, MOST = 200; // items in the first request, and at most in one
const FILTERS = ["type", "reason", "q"];
const VIEWS = {
  open: { status: "open" },
  mine: { status: "open", assigned: "me" },
  none: { status: "open", assigned: "none" },
  escalated: { status: "open", escalated: "true" },
  overdue: { status: "open", overdue: "true" },
  done: { status: "done" },
};
const COUNTED = { open: ({ pending, in_review }) => pending + in_review, mine: ({ mine }) => mine, escalated: ({ escalated }) => escalated, overdue: ({ overdue }) => overdue };
const ENDED = { approved: ["good", "check"], corrected: ["human", "pencil"], rejected: ["bad", "cross"] };

const rows = byId("rows");
const why = byId("why");
let view = "open";
let items = [];
let next = null;
let shown = PAGE; // how many items the user has opened
let requests = 0;
let timer = 0;
let skew = 0;

// Requests.

const filters = () => Object.fromEntries(FILTERS.map((name) => [name, byId(name).value.trim()]).filter(([, value]) => value));
const queryOf = (parameters) => new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
const buildQuery = (cursor, limit) => queryOf({ ...VIEWS[view], ...filters(), limit, cursor });

/** Puts the view and filters into the URL, so that it can be bookmarked and shared. */
function updateUrl() {
  const query = queryOf({ view: view === "open" ? "" : view, ...filters() }).toString();
  history.replaceState(history.state, "", query ? `?${query}` : location.pathname);
}

let restoredScroll = null; // the former scroll position, until the rows are loaded
let focusIndex = null; // the index of the first row of the next page, until it is loaded

/** Loads so many items from the first one on, or the next ones; outdated responses are ignored. */
async function load({ more = false, count = PAGE, refresh = false } = {}) {
  const request = ++requests;
  if (more) focusIndex = items.length;
  else if (!refresh) focusIndex = null;
  let found = more ? [...items] : [], cursor = more ? next : null;
  const target = (shown = more ? found.length + PAGE : Math.max(PAGE, count));
  updateUrl();
  try {
    do {
      const { data } = await api("GET", `/api/review/items?${buildQuery(cursor, Math.min(MOST, target - found.length))}`);
      if (request !== requests) return;
      const present = new Set(found.map((item) => item.id)); // priorities may change between two pages
      found = [...found, ...data.items.filter((item) => !present.has(item.id))];
      cursor = data.next;
      const known = data.items.find((item) => typeof item.sla_left === "number" && item.due_at);
      if (known) skew = Date.parse(known.due_at) - 1000 * known.sla_left - Date.now();
      showCounts(data.counts);
    } while (cursor && found.length < target);
    [items, next] = [found, cursor];
    show();
    if (restoredScroll !== null) scrollTo(0, restoredScroll);
    restoredScroll = null;
    if (focusIndex !== null) rows.children[focusIndex]?.querySelector("a").focus();
    focusIndex = null;
  } catch (error) {
    if (request === requests) toast(explain(error), "bad");
  }
}

const reload = () => load({ count: shown, refresh: true });

const schedule = (pause = 300, work = reload) => {
  clearTimeout(timer);
  timer = setTimeout(work, pause);
};

function showCounts(counts) {
  for (const button of document.querySelectorAll("[data-view]")) {
    const count = COUNTED[button.dataset.view]?.(counts);
    button.querySelector("b").textContent = count ?? "";
    button.classList.toggle("alarm", button.dataset.view === "overdue" && count > 0);
  }
  byId("done-today").hidden = !counts.done_today;
  byId("done-today").replaceChildren(icon("check"), t("queue.done_today", { n: counts.done_today }));
}

// Rendering. Unchanged rows are kept, so that the focus stays.

function show() {
  const before = new Map([...rows.querySelectorAll("tr[data-row]")].map((row) => [row.dataset.row, row]));
  const focused = document.activeElement?.closest?.("tr[data-row]")?.dataset.row;
  const lines = items.map((item) => {
    const signature = JSON.stringify(item, (key, value) => (key === "sla_left" ? undefined : value));
    const old = before.get(item.id);
    if (old && old.dataset.sign === signature) return old;
    const row = makeRow(item);
    row.dataset.sign = signature;
    if (old?.classList.contains("here")) row.classList.add("here");
    return row;
  });
  const same = lines.length === rows.children.length && lines.every((row, at) => row === rows.children[at]);
  if (!same) {
    rows.replaceChildren(...lines);
    if (focused) rows.querySelector(`tr[data-row="${CSS.escape(focused)}"] a`)?.focus({ preventScroll: true });
  }
  byId("due-head").textContent = t(view === "done" ? "queue.ended" : "base.due");
  byId("pager").hidden = !next;
  const filtered = view !== "open" || Object.keys(filters()).length > 0;
  const clear = el("button", { type: "button", onclick: clearFilters }, t("queue.clear"));
  byId("none").hidden = items.length > 0;
  byId("none").replaceChildren(filtered ? empty("search", t("queue.empty_filtered"), t("queue.empty_filtered_note"), clear) : empty("check", t("queue.empty"), t("queue.empty_note")));
  tick();
}

function makeRow(item) {
  const link = el("a", { href: item.url, class: "title" }, item.name);
  const under = [item.type && (pageData.types[item.type] ?? item.type), t("queue.pages", { n: item.pages ?? 1 }), relative((Date.parse(item.created_at) - Date.now() - skew) / 1000)];
  return el("tr", { "data-row": item.id },
    el("td", { class: "what" }, link, el("div", { class: "muted small" }, under.filter(Boolean).join(" · "))),
    el("td", {}, score(item)),
    el("td", {}, reasons(item)),
    el("td", { class: "nowrap" }, due(item)),
    el("td", {}, holderCell(item)));
}

const share = (part) => (part ? part.points ?? part.value * part.weight : 0);

function score(item) {
  const most = Math.max(...items.map((other) => other.priority), 0.2); // the most urgent item has the longest bar
  const bars = PARTS.map((name) => el("i", { class: `part-${name}`, style: { width: `${(100 * share(item.parts?.[name])) / most}%` } }));
  return el("button", { type: "button", class: "score quiet", title: t("queue.why_here"), "aria-label": `${t("queue.priority")} ${points(item.priority)}. ${t("queue.why_here")}`, "aria-haspopup": "dialog", onclick: (event) => explainPriority(item, event.currentTarget) },
    el("b", {}, points(item.priority)), el("span", { class: "parts" }, bars));
}

const points = (value) => Math.round(100 * value);

function reasons(item) {
  const title = (path) => fieldTitle(path.split("[")[0], pageData.fields[item.type]?.[path.split("[")[0]]); // for a cell, the title of its table
  const shown = item.reasons.slice(0, CHIPS).map((reason) => {
    const rest = (reason.fields?.length ?? 0) - NAMED;
    const of = reason.fields?.length ? ` ${reason.fields.slice(0, NAMED).map(title).join(", ")}${rest > 0 ? ` +${rest}` : ""}` : "";
    return el("span", { class: `cause reason-${reason.code}`, title: localized(reason) }, el("b", {}, textOr(`queue.reason.${reason.code}`, reason.code)), of);
  });
  const rest = item.reasons.slice(CHIPS);
  if (rest.length) shown.push(el("span", { class: "cause", title: rest.map((reason) => localized(reason)).join("\n") }, t("queue.more", { n: rest.length })));
  if (item.escalated) shown.unshift(el("span", { class: "cause escalated", title: t("queue.escalated", { who: item.escalated.by, why: item.escalated.why }) }, icon("warn"), t("queue.is_escalated")));
  return el("div", { class: "causes" }, shown);
}

function due(item) {
  if (item.finished_at) return el("span", { class: "muted" }, moment(item.finished_at));
  if (item.postponed_until && Date.parse(item.postponed_until) > Date.now() + skew) return el("span", { class: "badge idle" }, icon("pause"), t("queue.postponed", { when: relative((Date.parse(item.postponed_until) - Date.now() - skew) / 1000) }));
  return el("span", { class: "badge", "data-due": item.due_at, title: moment(item.due_at) }, icon("clock"), el("span"));
}

/** Why an item was rejected, in the language of the page. */
const rejectionText = ({ rejection, reason }) => (rejection ? [localized(rejection, "text"), rejection.note].filter(Boolean).join(": ") : reason);

function holderCell(item) {
  if (ENDED[item.status]) {
    const [kind, drawing] = ENDED[item.status];
    return el("div", {}, badge(kind, drawing, t(`queue.status.${item.status}`), rejectionText(item)), " ", el("span", { class: "muted" }, item.reviewer || ""));
  }
  if (item.holder) {
    const mine = item.holder === me.name;
    return el("div", {}, badge(mine ? "info" : "human", "person", mine ? t("queue.you_hold") : t("queue.holds", { who: item.holder })), el("div", { class: "muted small", "data-lease": item.lease_until }));
  }
  return el("span", { class: item.assigned_to ? "" : "muted" }, item.assigned_to === me.name ? t("base.you") : item.assigned_to || t("queue.nobody"));
}

function tick() {
  const now = Date.now() + skew;
  for (const node of rows.querySelectorAll("[data-due]")) {
    const left = (Date.parse(node.dataset.due) - now) / 1000;
    node.className = `badge ${{ bad: "bad", warn: "warn", calm: "idle" }[urgency(left)]}`;
    setText(node.lastChild, left < 0 ? t("queue.late", { time: formatSpan(left) }) : t("queue.in", { time: formatSpan(left) }));
  }
  for (const node of rows.querySelectorAll("[data-lease]")) setText(node, t("queue.lease", { time: countdown((Date.parse(node.dataset.lease) - now) / 1000) }));
}

const setText = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

// The explanation of a priority.

function explainPriority(item, button) {
  const lines = PARTS.map((name) => {
    const part = item.parts?.[name] || { value: 0, weight: 0, points: 0 };
    return [
      el("dt", {}, el("i", { class: `dot part-${name}` }), t(`queue.part.${name}`), el("small", { class: "muted" }, t("queue.part_note", { weight: `${number(100 * part.weight)} %`, value: number(part.weight ? share(part) / part.weight : 0, 3) }))),
      el("dd", {}, el("span", { class: "bar" }, el("i", { class: `part-${name}`, style: { width: `${Math.min(100, (100 * share(part)) / (part.weight || 1))}%` } })), el("b", {}, number(100 * share(part), 1))),
    ];
  });
  const place = items.indexOf(item) + 1;
  why.replaceChildren(
    el("h2", {}, place > 1 ? t("queue.why_place", { place }) : t("queue.why_first")),
    el("dl", {}, lines, el("dt", { class: "all" }, item.name), el("dd", { class: "all" }, el("b", {}, t("queue.points", { points: number(100 * item.priority, 1) })))),
  );
  why.showPopover();
  const edge = button.getBoundingClientRect();
  const { width, height } = why.getBoundingClientRect();
  why.style.left = `${Math.max(8, Math.min(edge.left, innerWidth - width - 8))}px`;
  why.style.top = `${edge.bottom + 6 + height > innerHeight ? Math.max(8, edge.top - height - 6) : edge.bottom + 6}px`;
}

// Actions.

async function claim() {
  const button = byId("claim");
  if (!button || button.getAttribute("aria-busy")) return;
  button.setAttribute("aria-busy", "true");
  try {
    const type = byId("type").value;
    const { status, data } = await api("POST", "/api/review/claim", type ? { type } : {});
    if (status === 200 && data) return void location.assign(data.url || `/review/${encodeURIComponent(data.id)}`);
    toast(t("queue.none_free"), "warn");
  } catch (error) {
    toast(explain(error), "bad");
  }
  button.removeAttribute("aria-busy");
}

function choose(name, count) {
  view = name;
  for (const button of document.querySelectorAll("[data-view]")) button.setAttribute("aria-pressed", String(button.dataset.view === name));
  return load({ count });
}

function clearFilters() {
  for (const id of FILTERS) byId(id).value = "";
  choose("open");
}

byId("claim")?.addEventListener("click", claim);
byId("more").addEventListener("click", () => load({ more: true }));
byId("q").addEventListener("input", () => schedule(200, load));
for (const id of ["type", "reason"]) byId(id).addEventListener("change", () => load());
for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => choose(button.dataset.view));

rowKeys(rows);
keys([
  { key: "c", does: t("queue.key_claim"), run: claim },
  { key: "w", does: t("queue.key_why"), run: () => rows.querySelector("tr.here .score, tr .score")?.click() },
  { key: "/", does: t("queue.key_search"), run: () => byId("q").focus() },
  { key: "1", shown: "1…6", does: t("queue.key_views"), run: () => choose("open") },
  ...Object.keys(VIEWS).slice(1).map((name, at) => ({ key: String(at + 2), run: () => choose(name) })),
]);
byId("q").addEventListener("keydown", (event) => event.key === "Escape" && event.target.blur());
setInterval(tick, 1000);

async function openView() {
  const query = new URLSearchParams(location.search), before = placeBefore();
  for (const id of FILTERS) {
    byId(id).value = query.get(id) ?? "";
    if (byId(id).selectedIndex === -1) byId(id).value = ""; // the URL may name a type that no longer exists
  }
  rememberPlace(() => items.length);
  restoredScroll = before?.y ?? null; // an event may load the rows first
  await choose(Object.hasOwn(VIEWS, query.get("view")) ? query.get("view") : "open", before?.shown);
}

openView();
events("/api/review/events", {
  review: (update) => {
    if (update?.counts) showCounts(update.counts);
    schedule();
  },
}, liveMark(reload));
