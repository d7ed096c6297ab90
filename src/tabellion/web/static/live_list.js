// The list of a page: its filters are in the address, more items are loaded on demand, and it is kept up to date.
import { ago, api, byId, el, explain, notice, placeBefore, rememberPlace, rowKeys, t, toast } from "./base.js";
import { renew, rowOf, Rows } from "./rows.js";

const PAGE = 50, MOST = 200; // items that are loaded at first, and at most in one request
const PAUSE = 700; // milliseconds between a change and the refresh, so that many changes are one

/** An element of the page; one that nobody sees if the page has none. */
const part = (id, tag) => byId(id) ?? el(tag);

/** Lists what `/api/PATH` returns under `name`, newest first. `cells` makes the cells of an item's row, or `row` the row itself;
 *  `nothing` makes what is shown when there is none; `fixed` are filters without a control, `beside` loads what else on the page is
 *  to be kept up to date, and a refresh loads at most `reach` items. */
export function liveList({ name, path = name, cells = undefined, row = rowOf(cells), nothing, fixed = {}, beside = async () => {}, reach = MOST }) {
  const form = part("filters", "form"), clear = part("clear", "button"), pager = part("pager", "div"), button = part("more", "button");
  const body = byId("rows"), trouble = byId("trouble"), table = new Rows(body, row);
  let items = [], next = null, applied = {}; // what is shown, the cursor after it, and its filters
  let turn = 0, running = 0, due = 0, inputTimer = 0; // answers of an earlier turn are ignored; a refresh waits for what is running

  const filters = () => ({ ...fixed, ...Object.fromEntries([...new FormData(form)].map(([field, value]) => [field, String(value).trim()]).filter(([, value]) => value)) });

  /** So many items after a cursor, in as few requests as possible, and the cursor after them. */
  async function request(cursor, count) {
    const mine = turn, query = new URLSearchParams({ ...applied, limit: String(Math.min(MOST, count)), ...(cursor ? { cursor } : {}) });
    const { data: page } = await api("GET", `/api/${path}?${query}`);
    const found = page[name], missing = count - found.length;
    if (!page.next || missing <= 0 || mine !== turn) return { found, cursor: page.next ?? null };
    const others = await request(page.next, missing);
    return { found: [...found, ...others.found], cursor: others.cursor };
  }

  const requestNewest = async (count) => (await Promise.all([request(null, count), beside()]))[0];

  /** Waits for an answer; null if what is shown has been requested anew meanwhile. */
  async function wait(answer) {
    const mine = turn;
    running += 1;
    try {
      const got = await answer;
      return mine === turn ? got : null;
    } catch (error) {
      if (mine === turn) throw error;
      return null;
    } finally {
      running -= 1;
    }
  }

  function show(list, cursor) {
    [items, next] = [list, cursor];
    table.update(items, (item) => item.id);
    const filtered = Object.keys(applied).length > 0;
    clear.hidden = !filtered;
    pager.hidden = !next;
    body.closest(".table-wrap").hidden = !items.length;
    byId("nothing").hidden = items.length > 0;
    if (!items.length) renew(byId("nothing"), filtered, nothing);
  }

  /** Loads so many items with the filters of the form. The current rows stay until the response arrives. */
  async function load(count = PAGE) {
    turn += 1;
    [applied, next] = [filters(), null];
    const query = new URLSearchParams(applied).toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
    body.setAttribute("aria-busy", "true");
    try {
      const answer = await wait(requestNewest(count));
      if (!answer) return;
      show(answer.found, answer.cursor);
      trouble.hidden = true;
    } catch (error) {
      const again = el("button", { type: "button", class: "small-button", onclick: () => load(count) }, t("base.try_again"));
      trouble.replaceChildren(notice("bad", "stop", explain(error), " ", again));
      trouble.hidden = false;
      pager.hidden = true;
    }
    for (const row of body.querySelectorAll("tr[aria-hidden]")) row.remove(); // placeholders
    body.removeAttribute("aria-busy");
  }

  async function more() {
    if (!next) return; // other filters have just been chosen
    turn += 1;
    button.setAttribute("aria-busy", "true");
    try {
      const before = items.length, answer = await wait(request(next, PAGE));
      if (!answer) return;
      show([...items, ...answer.found.filter(({ id }) => !table.known.has(id))], answer.cursor);
      body.children[before]?.querySelector("a").focus();
    } catch (error) {
      toast(explain(error), "bad");
    } finally {
      button.removeAttribute("aria-busy");
    }
  }

  /** Loads what is shown again, at most about once a second however much changes. */
  function refresh() {
    due ||= setTimeout(async () => {
      due = 0;
      if (running) return refresh();
      const count = Math.max(PAGE, items.length);
      if (!trouble.hidden) return void load(count);
      try {
        const answer = await wait(requestNewest(Math.min(reach, count)));
        if (answer) merge(answer);
        else refresh();
      } catch {
        // The list stays as it is; the next update tries again.
      }
    }, PAUSE);
  }

  /** Shows the newest items; of the others those after the last one that was found stay, so that there is never a gap. */
  function merge({ found, cursor }) {
    const last = cursor ? items.findIndex(({ id }) => id === found.at(-1).id) : -1;
    const older = last < 0 ? [] : items.slice(last + 1), fresh = items.length ? found.filter(({ id }) => !table.known.has(id)) : [];
    show([...found, ...older], older.length ? next : cursor);
    for (const { id } of fresh) table.known.get(id).classList.add("new");
  }

  /** Changes an item until the next refresh; returns what it was, if it is shown. */
  function change(id, facts) {
    const item = items.find((one) => one.id === id), before = item && { ...item };
    if (item) table.known.get(id).update(Object.assign(item, facts));
    return before;
  }

  form.addEventListener("input", (event) => {
    clearTimeout(inputTimer);
    inputTimer = setTimeout(() => load(), event.target.type === "search" ? 200 : 0);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); load(); });
  clear.addEventListener("click", (event) => {
    event.preventDefault();
    for (const control of form.querySelectorAll("input, select")) control.value = "";
    load();
  });
  button.addEventListener("click", more);
  addEventListener("online", refresh);
  setInterval(() => { for (const cell of body.querySelectorAll("[data-at]")) cell.textContent = ago(cell.dataset.at); }, 20000);
  rowKeys(body);
  const former = placeBefore();
  rememberPlace(() => items.length);
  load(Math.max(PAGE, former?.shown ?? 0)).then(() => { if (former) scrollTo(0, former.y); });
  return { refresh, change };
}
