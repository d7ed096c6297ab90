// One extraction: a page image beside its text, its facts, and actions.
import { api, byId, capital, data, duration, el, empty, events, explain, icon, keys, liveMark, may, moment, money, notice, number, sure, t, textOr, toast } from "./base.js";
import { localized } from "./messages.js";
import { errors, kind, LIVE, note, status } from "./extraction_states.js";

const where = `/api/extractions/${encodeURIComponent(data.id)}`;
const leaf = byId("leaf"), paper = byId("paper"), body = byId("text");
let shown = null, texts = null, page = Math.max(1, Number(new URLSearchParams(location.search).get("page")) || 1), due = 0;

const count = () => shown?.pages ?? texts?.length ?? 1;

// -- pages -------------------------------------------------------------------------------------------------------

function showPage(to) {
  page = Math.max(1, Math.min(count(), to));
  byId("page-place").textContent = t("extraction.page_of", { n: number(page), of: number(count()) });
  byId("page-before").disabled = page <= 1;
  byId("page-after").disabled = page >= count();
  const query = page > 1 ? `?page=${page}` : "";
  if (location.search !== query) history.replaceState(null, "", `${location.pathname}${query}`);
  drawText();
  drawPicture();
}

function drawPicture() {
  const source = shown?.has_file ? `${where}/pages/${page}.png?width=1400` : "";
  if (leaf.dataset.source === source) return;
  leaf.dataset.source = source;
  byId("zoom").hidden = !source;
  if (!source) return leaf.replaceChildren(empty("file", t("extraction.no_file"), t("extraction.no_file_text")));
  const picture = el("img", { src: source, alt: t("extraction.page_of", { n: page, of: count() }), draggable: "false" });
  picture.addEventListener("load", () => { if (leaf.dataset.source === source) { leaf.replaceChildren(picture); paper.scrollTop = 0; } });
  picture.addEventListener("error", async () => {
    if (leaf.dataset.source !== source) return;
    let why = "";
    try { await api("GET", source, null, { headers: { Accept: "*/*" } }); } catch (error) { why = explain(error); }
    byId("zoom").hidden = true;
    leaf.replaceChildren(empty("warn", t("extraction.no_picture"), why));
  });
  if (!leaf.querySelector("img")) leaf.replaceChildren(el("span", { class: "ghost leaf-ghost" }));
}

function drawText() {
  const about = shown?.metadata?.pages?.[page - 1];
  const facts = about ? [textOr(`extraction.source_${about.source}`, about.source), about.confidence === null ? "" : t("extraction.sure", { share: sure(about.confidence) })] : [];
  byId("page-about").textContent = facts.filter(Boolean).join(" · ");
  byId("copy").hidden = texts === null;
  if (texts === null) {
    const waits = shown && LIVE.has(shown.status);
    return body.replaceChildren(shown ? empty(waits ? "clock" : "stop", t(waits ? "extraction.not_yet" : "extraction.no_text"), localized(shown, "note")) : el("span", { class: "ghost" }));
  }
  const text = texts[page - 1] ?? "";
  body.replaceChildren(about?.error ? notice("bad", "stop", capital(about.error)) : text ? text : el("span", { class: "muted" }, t("extraction.blank")));
}

// -- facts and actions -------------------------------------------------------------------------------------------

function factRows() {
  const about = shown.metadata ?? {};
  const rows = [
    ["type", kind(shown)], ...Object.entries(shown.inputs), ["created", moment(shown.created_at)], ["started", moment(shown.ocr_started_at)],
    ["worker", shown.worker], ["attempts", shown.ocr_attempts === null ? "" : t("extraction.attempts_of", { n: number(shown.ocr_attempts), of: number(shown.ocr_max_attempts) })],
    ["model", about.model === "local" ? t("extraction.model_local") : about.model], ["confidence", typeof about.confidence === "number" ? sure(about.confidence) : ""],
    ["cost", about.cost ? money(about.cost, "USD") : ""], ["seconds", about.seconds === undefined ? "" : duration(about.seconds)], ["key", el("span", { class: "mono" }, shown.id)],
  ];
  return rows.filter(([, value]) => value).flatMap(([name, value]) => [el("dt", {}, textOr(`extraction.fact_${name}`, name)), el("dd", {}, value)]);
}

function drawAll() {
  byId("standing").replaceChildren(...[status(shown), note(shown)].filter(Boolean));
  byId("about").replaceChildren(...factRows());
  byId("notices").replaceChildren(...errors(shown).map((error) => notice(error.over ? "bad" : "idle", error.over ? "stop" : "warn", el("strong", {}, t(error.word)), " ", capital(error.text))));
  const queue = shown.status === "ERREUR" && (shown.ocr_error ? "ocr" : "extraction");
  byId("actions").replaceChildren(...[
    shown.has_file && el("a", { class: "button", href: `${where}/file` }, icon("download"), t("base.download")),
    queue && data.queues.includes(queue) && may("operator") && el("button", { type: "button", id: "again", onclick: () => retry(queue) }, icon("again"), t("base.try_again")),
  ].filter(Boolean));
  showPage(page);
}

async function retry(queue) {
  try {
    await api("POST", `/api/queues/${queue}/retry`, { keys: [data.id] });
    toast(t("extraction.is_queued"), "good");
    load();
  } catch (error) {
    toast(explain(error), "bad");
  }
}

async function load() {
  try {
    const { data: extraction } = await api("GET", where);
    const fresh = extraction.has_text && (texts === null || shown?.ocr_started_at !== extraction.ocr_started_at);
    shown = extraction;
    if (fresh) texts = (await api("GET", `${where}/text`)).data.pages;
    if (!extraction.has_text) texts = null;
    drawAll();
  } catch (error) {
    if (!shown) byId("notices").replaceChildren(notice("bad", "stop", explain(error)));
  }
}

function refresh() {
  if (shown && !LIVE.has(shown.status)) return;
  due ||= setTimeout(async () => { await load(); due = 0; }, 700);
}

// -- the page ----------------------------------------------------------------------------------------------------

byId("page-before").addEventListener("click", () => showPage(page - 1));
byId("page-after").addEventListener("click", () => showPage(page + 1));
byId("zoom").addEventListener("click", () => byId("zoom").setAttribute("aria-pressed", String(paper.classList.toggle("zoomed"))));
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(texts?.[page - 1] ?? "");
    toast(t("extraction.copied"), "good");
  } catch (error) {
    toast(explain(error), "bad");
  }
});
keys([
  { key: "[", does: t("base.previous_page"), run: () => showPage(page - 1) },
  { key: "]", does: t("base.next_page"), run: () => showPage(page + 1) },
  { key: "z", does: t("base.zoom"), run: () => byId("zoom").click() },
]);
events("/api/overview/events", { overview: refresh }, liveMark(load));
load();
