// How extractions stand, drawn the same way in the list and in the reader.
import { badge, el, tell } from "./base.js";
import { localized } from "./messages.js";

const STATUS = {
  EN_ATTENTE: ["idle", "clock"], EN_TRAITEMENT: ["info", "again"], COMPLETE: ["idle", "clock"], OCR_PROCESSING: ["info", "again"],
  EXTRACTION_COMPLETE: ["good", "check"], ERREUR: ["bad", "stop"],
};
export const LIVE = new Set(["EN_ATTENTE", "EN_TRAITEMENT", "COMPLETE", "OCR_PROCESSING"]);

export const status = (one) => badge(...(STATUS[one.status] ?? ["idle", ""]), tell(`extractions.status_${one.status}`, one.status));

export const kind = (one) => (one.document_type ? tell(`extractions.type_${one.document_type}`, one.document_type) : "");

/** What a document is called: what was searched for, or its key. */
export const title = (one) => one.inputs.document_number ?? one.inputs.lot ?? one.id;

/** The errors of both halves of its life, each with its name. */
export function errors(one) {
  return [["error_message", "extractions.extraction_failed"], ["ocr_error", "extractions.ocr_failed"]].filter(([name]) => one[name])
    .map(([name, word]) => ({ word, text: localized(one, name), over: one.status === "ERREUR", name }));
}

export const note = (one) => (one.note ? el("span", { class: "muted small nowrap" }, one.note) : null);
