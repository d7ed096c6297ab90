// Uploads: files from a button or dropped anywhere, each with its own progress and result.
import { byId, bytes, capital, data, el, icon, number, Problem, renewCsrf, showSignedOut, t, textOr, token } from "./base.js";
import { localized } from "./messages.js";
import { progressBar } from "./states.js";

const AT_ONCE = 3, MOST = 500;
const waiting = [];
let running = 0, accepted = 0, rejected = 0, all = 0, notify = () => {};

/** Starts listening for files; `onAccepted` is called whenever one was accepted. */
export function start(onAccepted) {
  notify = onAccepted;
  const picker = byId("files"), drop = byId("drop");
  byId("upload").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => { add([...picker.files]); picker.value = ""; });
  byId("uploads-close").addEventListener("click", close);
  let depth = 0;
  const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => { if (carriesFiles(event)) { event.preventDefault(); depth += 1; drop.hidden = false; } });
  addEventListener("dragover", (event) => { if (carriesFiles(event)) { event.preventDefault(); event.dataTransfer.dropEffect = "copy"; } });
  addEventListener("dragleave", (event) => { if (carriesFiles(event)) { depth -= 1; if (depth <= 0) { depth = 0; drop.hidden = true; } } });
  addEventListener("drop", async (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    drop.hidden = true;
    add(await readDroppedFiles(event.dataTransfer));
  });
  addEventListener("beforeunload", (event) => { if (running || waiting.length) event.preventDefault(); });
}

function close() {
  for (const row of byId("upload-list").querySelectorAll("[data-over]")) row.remove();
  if (!running && !waiting.length) { byId("uploads").hidden = true; [accepted, rejected, all] = [0, 0, 0]; }
}

/** The files that were dropped, including those in folders. */
async function readDroppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  if (!entries.some((entry) => entry.isDirectory)) return [...transfer.files];
  const found = [];
  const walk = async (entry) => {
    if (found.length >= MOST) return;
    if (entry.isFile) return void found.push(await new Promise((settle, fail) => { entry.file(settle, fail); }));
    const reader = entry.createReader();
    for (;;) {
      const batch = await new Promise((settle, fail) => { reader.readEntries(settle, fail); });
      if (!batch.length) return;
      for (const child of batch) await walk(child);
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
    const upload = { file, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, status: el("div", { class: "upload-said small" }) };
    upload.row = el("li", {}, icon("file"), el("div", { class: "upload-what" },
      el("div", { class: "row spread" }, el("span", { class: "cut", title: file.name }, file.name), el("span", { class: "muted small nowrap" }, bytes(file.size))), upload.status));
    byId("upload-list").prepend(upload.row);
    if (file.size > data.upload_bytes) showRefusal(upload, t("documents.too_large", { size: bytes(data.upload_bytes) }));
    else if (!file.size) showRefusal(upload, t("documents.empty_file"));
    else { upload.status.replaceChildren(el("span", { class: "muted" }, t("documents.upload_waits"))); waiting.push(upload); }
  }
  showCounts();
  sendWaiting();
}

function showCounts() {
  const finished = accepted + rejected, texts = [t("documents.uploads_taken", { n: accepted, count: number(accepted) })];
  if (rejected) texts.push(t("documents.uploads_refused", { n: rejected, count: number(rejected) }));
  byId("uploads-title").textContent = finished < all ? t("documents.uploaded_of", { done: number(finished), n: number(all) }) : texts.join(", ");
}

function sendWaiting() {
  while (running < AT_ONCE && waiting.length) send(waiting.shift());
}

function send(upload, again = true) {
  running += 1;
  const form = new FormData();
  form.append("file", upload.file, upload.file.name);
  const type = byId("upload-type")?.value;
  if (type) form.append("type", type);
  const model = byId("upload-model")?.value;
  if (model) form.append("model", model);
  const meter = progressBar(0, "", t("documents.uploading")), share = el("span", { class: "muted" }, "0 %");
  upload.status.replaceChildren(el("div", { class: "progress" }, meter, share));
  const request = new XMLHttpRequest();
  request.open("POST", "/api/documents");
  request.setRequestHeader("X-CSRF-Token", token());
  request.setRequestHeader("Idempotency-Key", upload.key);
  request.setRequestHeader("Accept", "application/json");
  request.upload.addEventListener("progress", (event) => {
    if (!event.lengthComputable) return;
    const now = Math.round((100 * event.loaded) / event.total);
    meter.firstChild.style.width = `${now}%`;
    meter.setAttribute("aria-valuenow", now);
    share.textContent = now < 100 ? `${now} %` : t("documents.checking");
  });
  request.addEventListener("load", () => { handleEnd(); handleResponse(upload, request, again); });
  request.addEventListener("error", () => { handleEnd(); showRefusal(upload, t("base.offline"), true); });
  request.addEventListener("abort", handleEnd);
  request.send(form);
}

function handleEnd() {
  running -= 1;
  setTimeout(sendWaiting);
}

async function handleResponse(upload, request, again) {
  let answer = null;
  try { answer = JSON.parse(request.responseText); } catch { /* not from our server: reported below */ }
  if (request.status === 403 && answer?.code === "csrf_failed" && again && (await renewCsrf().catch(() => false))) return send(upload, false);
  if (request.status === 401) showSignedOut();
  if (request.status !== 202 || !answer?.documents?.length) {
    const problem = new Problem(request.status, answer);
    const fix = answer?.fix && !textOr(`base.problem_${problem.code}`) ? `. ${capital(localized(answer, "fix"))}.` : "";
    const original = answer?.original && el("a", { href: `/documents/${answer.original}` }, t("documents.look_at_original"));
    return showRefusal(upload, [problem.message, fix, " ", original], request.status >= 500 || [401, 429].includes(request.status) || problem.code === "csrf_failed");
  }
  const [doc] = answer.documents;
  const link = el("a", { href: `/documents/${doc.id}` }, t(doc.duplicate_of ? "documents.is_duplicate" : "documents.is_taken"));
  const original = doc.duplicate_of && [" · ", el("a", { href: `/documents/${doc.duplicate_of}` }, t("documents.look_at_original"))];
  upload.status.replaceChildren(el("span", { class: doc.duplicate_of ? "text-warn" : "text-good" }, icon(doc.duplicate_of ? "copy" : "check"), " ", link, original));
  accepted += 1;
  markFinished(upload);
  notify();
}

function showRefusal(upload, sentence, again = false) {
  const retry = again && el("button", { type: "button", class: "small-button", onclick() { delete upload.row.dataset.over; rejected -= 1; waiting.push(upload); showCounts(); sendWaiting(); } }, t("base.try_again"));
  upload.status.replaceChildren(el("span", { class: "text-bad", role: "alert" }, icon("stop"), " ", sentence), " ", retry || "");
  rejected += 1;
  markFinished(upload);
}

function markFinished(upload) {
  upload.row.dataset.over = "";
  showCounts();
}
