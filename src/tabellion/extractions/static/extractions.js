// The list of extractions: filters, paging, live status, and uploads for OCR.
import { ago, api, byId, capital, el, empty, events, explain, icon, keys, liveMark, may, moment, number, t, toast } from "./base.js";
import { errors, kind, note, status, title } from "./extraction_states.js";
import { liveList } from "./live_list.js";

function cells(extraction) {
  const name = title(extraction);
  const wrong = errors(extraction).filter((error) => error.over).map((error) => `${t(error.word)} ${error.text}`).join(" · ");
  const inputs = Object.entries(extraction.inputs).filter(([, value]) => value !== name).map(([, value]) => value).join(" · ");
  const under = wrong ? el("span", { class: "small text-bad cut", title: wrong }, capital(wrong)) : inputs ? el("span", { class: "small muted cut" }, inputs) : null;
  return [
    el("td", { class: "name" }, el("div", {}, icon("file"), el("div", {}, el("a", { href: `/extractions/${encodeURIComponent(extraction.id)}`, class: "cut", title: extraction.id }, name), under))),
    el("td", {}, el("div", { class: "row tight" }, status(extraction), note(extraction))),
    el("td", { class: "not-narrow nowrap" }, kind(extraction)),
    el("td", { class: "number wide-only" }, number(extraction.pages)),
    el("td", { class: "wide-only" }, el("span", { class: "cut mono small", title: extraction.worker ?? "" }, extraction.worker ?? "")),
    el("td", { class: "right nowrap muted", title: moment(extraction.created_at), dataset: { at: extraction.created_at ?? "" } }, ago(extraction.created_at)),
  ];
}

function nothing(filtered) {
  const send = may("operator") && el("button", { type: "button", class: "primary", onclick: () => byId("files").click() }, icon("upload"), t("extractions.upload"));
  return filtered
    ? empty("search", t("extractions.none_found"), t("extractions.none_found_text"))
    : empty("file", t("extractions.none"), may("operator") ? t("extractions.none_text") : "", send);
}

const list = liveList({ name: "extractions", cells, nothing, reach: Infinity });

// -- files -------------------------------------------------------------------------------------------------------

async function sendAll(files) {
  for (const file of files) {
    try {
      await api("POST", `/api/extractions/ocr?${new URLSearchParams({ name: file.name, document_number: file.name.slice(0, 100) })}`, file);
      list.refresh();
    } catch (error) {
      toast(`${file.name}: ${explain(error)}`, "bad");
    }
  }
}

// -- the page ----------------------------------------------------------------------------------------------------

if (may("operator")) {
  const picker = byId("files");
  byId("upload").addEventListener("click", () => picker.click());
  picker.addEventListener("change", () => { sendAll([...picker.files]); picker.value = ""; });
  keys([{ key: "u", does: t("extractions.upload"), run: () => picker.click() }]);
}
events("/api/overview/events", { overview: list.refresh }, liveMark(list.refresh));
