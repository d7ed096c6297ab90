// Uploads: files from a button or dropped anywhere, each with its own progress and its own answer.
import { byId, bytes, capital, data, el, icon, number, Problem, renewed, signedOut, t, tell, token } from "./base.js";
import { localized } from "./messages.js";
import { bar } from "./states.js";

const AT_ONCE = 3, MOST = 500;
const waiting = [];
let running = 0, taken = 0, refusals = 0, all = 0, heard = () => {};

/** Begins to listen for files; `onTaken` is told whenever one was taken in. */
export function start(onTaken) {
  heard = onTaken;
  const picker = byId("files"), drop = byId("drop");
  byId("upload").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => { add([...picker.files]); picker.value = ""; });
  byId("uploads-close").addEventListener("click", close);
  let depth = 0;
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => { if (carries(event)) { event.preventDefault(); depth += 1; drop.hidden = false; } });
  addEventListener("dragover", (event) => { if (carries(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; } });
  addEventListener("dragleave", (event) => { if (carries(event)) { depth -= 1; if (depth <= 0) { depth = 0; drop.hidden = true; } } });
  addEventListener("drop", async (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth = 0;
    drop.hidden = true;
    add(await dropped(event.dataTransfer));
  });
  addEventListener("beforeunload", (event) => { if (running || waiting.length) event.preventDefault(); });
}

function close() {
  for (const row of byId("upload-list").querySelectorAll("[data-over]")) row.remove();
  if (!running && !waiting.length) { byId("uploads").hidden = true; [taken, refusals, all] = [0, 0, 0]; }
}

/** The files that were dropped, those in folders too. */
async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files];
  const found = [];
  const walk = async (entry) => {
    if (found.length >= MOST) return;
    if (entry.isFile) return void found.push(await new Promise((settle, fail) => { entry.file(settle, fail); }));
    const reader = entry.createReader();
    for (;;) {
      const some = await new Promise((settle, fail) => { reader.readEntries(settle, fail); });
      if (!some.length) return;
      for (const one of some) await walk(one);
    }
  };
  for (const entry of entries) await walk(entry);
  return found.filter((file) => !file.name.startsWith("."));
}

function add(files) {
  if (!files.length) return;
  byId("uploads").hidden = false;
  for (const file of files.slice(0, MOST)) {
    all += 1;
    const one = { file, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, said: el("div", { class: "upload-said small" }) };
    one.row = el("li", {}, icon("file"), el("div", { class: "upload-what" },
      el("div", { class: "row spread" }, el("span", { class: "cut", title: file.name }, file.name), el("span", { class: "muted small nowrap" }, bytes(file.size))), one.said));
    byId("upload-list").prepend(one.row);
    if (file.size > data.upload_bytes) refused(one, t("documents.too_large", { size: bytes(data.upload_bytes) }));
    else if (!file.size) refused(one, t("documents.empty_file"));
    else { one.said.replaceChildren(el("span", { class: "muted" }, t("documents.upload_waits"))); waiting.push(one); }
  }
  count();
  pump();
}

function count() {
  const over = taken + refusals, told = [t("documents.uploads_taken", { n: taken, count: number(taken) })];
  if (refusals) told.push(t("documents.uploads_refused", { n: refusals, count: number(refusals) }));
  byId("uploads-title").textContent = over < all ? t("documents.uploaded_of", { done: number(over), n: number(all) }) : told.join(", ");
}

function pump() {
  while (running < AT_ONCE && waiting.length) send(waiting.shift());
}

function send(one, again = true) {
  running += 1;
  const form = new FormData();
  form.append("file", one.file, one.file.name);
  const type = byId("upload-type")?.value;
  if (type) form.append("type", type);
  const model = byId("upload-model")?.value;
  if (model) form.append("model", model);
  const meter = bar(0, "", t("documents.uploading")), share = el("span", { class: "muted" }, "0 %");
  one.said.replaceChildren(el("div", { class: "progress" }, meter, share));
  const request = new XMLHttpRequest();
  request.open("POST", "/api/documents");
  request.setRequestHeader("X-CSRF-Token", token());
  request.setRequestHeader("Idempotency-Key", one.key);
  request.setRequestHeader("Accept", "application/json");
  request.upload.addEventListener("progress", (event) => {
    if (!event.lengthComputable) return;
    const now = Math.round((100 * event.loaded) / event.total);
    meter.firstChild.style.width = `${now}%`;
    meter.setAttribute("aria-valuenow", now);
    share.textContent = now < 100 ? `${now} %` : t("documents.checking");
  });
  request.addEventListener("load", () => { ended(); answered(one, request, again); });
  request.addEventListener("error", () => { ended(); refused(one, t("base.offline"), true); });
  request.addEventListener("abort", ended);
  request.send(form);
}

function ended() {
  running -= 1;
  setTimeout(pump);
}

async function answered(one, request, again) {
  let told = null;
  try { told = JSON.parse(request.responseText); } catch { /* not ours: told below */ }
  if (request.status === 403 && told?.code === "csrf_failed" && again && (await renewed().catch(() => false))) return send(one, false);
  if (request.status === 401) signedOut();
  if (request.status !== 202 || !told?.documents?.length) {
    const problem = new Problem(request.status, told);
    const fix = told?.fix && !tell(`base.problem_${problem.code}`) ? `. ${capital(localized(told, "fix"))}.` : "";
    const original = told?.original && el("a", { href: `/documents/${told.original}` }, t("documents.look_at_original"));
    return refused(one, [problem.message, fix, " ", original], request.status >= 500 || [401, 429].includes(request.status) || problem.code === "csrf_failed");
  }
  const [made] = told.documents;
  const link = el("a", { href: `/documents/${made.id}` }, t(made.duplicate_of ? "documents.is_duplicate" : "documents.is_taken"));
  const original = made.duplicate_of && [" · ", el("a", { href: `/documents/${made.duplicate_of}` }, t("documents.look_at_original"))];
  one.said.replaceChildren(el("span", { class: made.duplicate_of ? "text-warn" : "text-good" }, icon(made.duplicate_of ? "copy" : "check"), " ", link, original));
  taken += 1;
  over(one);
  heard();
}

function refused(one, sentence, again = false) {
  const retry = again && el("button", { type: "button", class: "small-button", onclick() { delete one.row.dataset.over; refusals -= 1; waiting.push(one); count(); pump(); } }, t("documents.try_again"));
  one.said.replaceChildren(el("span", { class: "text-bad", role: "alert" }, icon("stop"), " ", sentence), " ", retry || "");
  refusals += 1;
  over(one);
}

function over(one) {
  one.row.dataset.over = "";
  count();
}
