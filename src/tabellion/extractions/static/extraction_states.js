// The status, type, title and errors of an extraction, for the list and the reader.
import { badge, el, textOr } from "./base.js";
import { localized } from "./messages.js";

const STATUS = {
  EN_ATTENTE: ["idle", "clock"], EN_TRAITEMENT: ["info", "again"], COMPLETE: ["idle", "clock"], OCR_PROCESSING: ["info", "again"],
  EXTRACTION_COMPLETE: ["good", "check"], ERREUR: ["bad", "stop"],
};
export const LIVE = new Set(["EN_ATTENTE", "EN_TRAITEMENT", "COMPLETE", "OCR_PROCESSING"]);

export const status = (extraction) => badge(...(STATUS[extraction.status] ?? ["idle", ""]), textOr(`extractions.status_${extraction.status}`, extraction.status));

export const kind = (extraction) => (extraction.document_type ? textOr(`extractions.type_${extraction.document_type}`, extraction.document_type) : "");

/** The title of a document: what was searched for, or its key. */
export const title = (extraction) => extraction.inputs.document_number ?? extraction.inputs.lot ?? extraction.id;

/** The errors of extraction and OCR. */
export function errors(extraction) {
  return [["error_message", "extractions.extraction_failed"], ["ocr_error", "extractions.ocr_failed"]].filter(([name]) => extraction[name])
    .map(([name, word]) => ({ word, text: localized(extraction, name), over: extraction.status === "ERREUR", name }));
}

export const note = (extraction) => (extraction.note ? el("span", { class: "muted small nowrap" }, localized(extraction, "note")) : null);
