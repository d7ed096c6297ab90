// The page area: images of the pages, boxes over them, zoom, and boxes that the person draws.

import { el, t } from "./base.js";

const STEPS = [450, 600, 900, 1200, 1400, 1600, 2000, 2500, 3000]; // widths that the server draws
const PAPER = [595, 842];
const GAP = 14;
const READABLE = [15, 46]; // pixels: no zoom needed if a line of text is this high on the screen
const WANTED = 21;
const CLOSEST = 2.4; // the maximum zoom of a field in a zone as wide as ROOM; higher in narrow ones
const ROOM = 640;
const LEAST = 0.3;
const MOST = 6;
const CLICK_SLACK = 5; // pixels: a drag shorter than this was a click
const SVG = "http://www.w3.org/2000/svg";

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);
const prefersReducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export class Pages extends EventTarget {
  constructor(zone) {
    super();
    this.zone = zone;
    this.strip = el("div", { class: "strip" });
    zone.replaceChildren(this.strip);
    this.sheets = [];
    this.zoom = 1;
    this.isZoomedByHand = false;
    this.isSelecting = false;
    new ResizeObserver(() => this.handleResize()).observe(zone);
    zone.addEventListener("scroll", () => this.handleScroll(), { passive: true });
    zone.addEventListener("wheel", (event) => this.handleWheel(event), { passive: false });
    this.observer = new IntersectionObserver((entries) => this.handleVisibility(entries), { root: zone, rootMargin: "600px" });
    this.listenToDrags();
  }

  emit(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  show(documentId, pages) {
    this.observer.disconnect();
    this.documentId = documentId;
    this.zoom = 1;
    this.isZoomedByHand = false;
    this.rotations = new Map();
    this.current = null;
    this.hits = [];
    this.wordBoxes = null;
    this.sheets = (pages.length ? pages : [{ number: 1 }]).map((page) => this.makeSheet(page));
    this.strip.replaceChildren(...this.sheets.map((sheet) => sheet.node));
    this.layout();
    this.zone.scrollTo(0, 0);
    for (const sheet of this.sheets) this.observer.observe(sheet.node);
    this.page = this.sheets[0].number;
    this.emit("page", { page: this.page });
  }

  makeSheet(page) {
    const image = el("img", { alt: t("review.page_picture", { n: page.number }), draggable: "false" });
    const boxes = el("div", { class: "boxes", "aria-hidden": "true" });
    const paper = el("div", { class: "page-paper loading" }, image, boxes);
    const node = el("div", { class: "sheet", "data-page": page.number }, paper);
    return { number: page.number, size: page.size || PAPER, node, paper, image, boxes, width: 0, isNear: false };
  }

  // Sizes. The widest page fills the zone at zoom 1.

  get fitScale() {
    const widest = Math.max(...this.sheets.map((sheet) => this.sizeOf(sheet)[0]));
    return Math.max(this.zone.clientWidth - 2 * GAP, 120) / widest;
  }

  sizeOf(sheet) {
    const [width, height] = sheet.size;
    return (this.rotations?.get(sheet.number) || 0) % 180 ? [height, width] : [width, height];
  }

  layout() {
    const scale = this.fitScale * this.zoom;
    for (const sheet of this.sheets) {
      const [width, height] = sheet.size.map((side) => side * scale);
      const [outerWidth, outerHeight] = this.sizeOf(sheet).map((side) => side * scale);
      const turn = this.rotations.get(sheet.number) || 0;
      Object.assign(sheet.node.style, { width: `${outerWidth}px`, height: `${outerHeight}px` });
      Object.assign(sheet.paper.style, {
        width: `${width}px`,
        height: `${height}px`,
        transform: turn ? `translate(${(outerWidth - width) / 2}px, ${(outerHeight - height) / 2}px) rotate(${turn}deg)` : "",
      });
      if (sheet.isNear) this.sharpen(sheet);
    }
    this.emit("zoom", { zoom: this.zoom });
  }

  handleResize() {
    if (!this.sheets.length || this.zone.clientWidth === this.lastWidth) return;
    this.lastWidth = this.zone.clientWidth;
    this.layout();
    if (this.current) this.scrollTo(this.current, { smooth: false });
  }

  // Images: a page near the viewport gets one as wide as it is shown, and a sharper one when zoomed.

  handleVisibility(entries) {
    for (const entry of entries) {
      const sheet = this.sheets.find((candidate) => candidate.node === entry.target);
      if (!sheet) continue;
      sheet.isNear = entry.isIntersecting;
      if (sheet.isNear) this.sharpen(sheet);
    }
  }

  sharpen(sheet) {
    const width = widthFor(sheet.size[0] * this.fitScale * this.zoom);
    if (width <= sheet.width || width <= sheet.asked) return;
    sheet.asked = width;
    const picture = new Image();
    picture.onload = () => {
      if (width < sheet.width) return;
      sheet.width = width;
      sheet.image.src = picture.src;
      sheet.paper.classList.remove("loading", "broken");
      this.settleSize(sheet, picture);
    };
    picture.onerror = () => {
      sheet.asked = 0;
      if (!sheet.width) sheet.paper.classList.replace("loading", "broken");
    };
    picture.src = pageImageUrl(this.documentId, sheet.number, width);
  }

  // The image has the true shape of the page; the sizes are from before it was rotated upright.
  settleSize(sheet, picture) {
    const [width, height] = sheet.size;
    const shape = picture.naturalHeight / picture.naturalWidth;
    if (Math.abs(shape - height / width) < 0.01) return;
    sheet.size = [width, width * shape];
    this.layout();
  }

  reload() {
    for (const sheet of this.sheets) if (sheet.isNear && !sheet.width) this.sharpen(sheet);
  }

  // Boxes.

  drawBoxes(marks) {
    for (const sheet of this.sheets) {
      const drawn = marks.filter((mark) => mark.page === sheet.number).map((mark) => {
        const box = el("div", { class: `box ${mark.state}`, "data-name": mark.name }, el("span", { class: "tag" }, mark.label));
        setBox(box, mark.box);
        box.classList.toggle("current", mark.name === this.current?.name);
        return box;
      });
      const others = [...sheet.boxes.querySelectorAll(".hit, .line, .words, .selection-box")];
      sheet.boxes.replaceChildren(...drawn, ...others);
    }
  }

  // Shows a field: scrolls to it, and zooms if its text is too small to read or too large for the screen.
  focus(name, place) {
    this.strip.querySelector(".line")?.remove();
    for (const box of this.strip.querySelectorAll(".box.current")) box.classList.remove("current");
    this.current = place ? { name, ...place } : null;
    if (!place) return;
    this.strip.querySelector(`.sheet[data-page="${place.page}"] .box[data-name="${CSS.escape(name)}"]`)?.classList.add("current");
    this.scrollTo(this.current);
  }

  // Shows a row of a table, which may be pages away from the table's box.
  underline(name, place) {
    const sheet = this.sheets.find((candidate) => candidate.number === place.page);
    if (!sheet) return;
    this.strip.querySelector(".line")?.remove();
    const line = el("div", { class: "line" });
    setBox(line, place.box);
    sheet.boxes.append(line);
    this.current = { name, ...place };
    this.scrollTo(this.current);
  }

  scrollTo({ page, box, quote }, { smooth = true } = {}) {
    const sheet = this.sheets.find((candidate) => candidate.number === page);
    if (!sheet) return;
    if (!this.isZoomedByHand) smooth = !this.zoomTo(sheet, box, quote) && smooth;
    const spot = this.positionOf(sheet, box);
    const { clientWidth, clientHeight } = this.zone;
    const top = spot.top + spot.height / 2 - clientHeight * (spot.height > clientHeight * 0.8 ? 0.5 : 0.42);
    const left = spot.width > clientWidth * 0.9 ? spot.left - GAP : spot.left + spot.width / 2 - clientWidth / 2;
    this.zone.scrollTo({ top, left, behavior: smooth && !prefersReducedMotion() ? "smooth" : "instant" });
  }

  zoomTo(sheet, box, quote) {
    const lines = Math.max(1, (quote || "").split("\n").length);
    const line = ((box[3] - box[1]) * sheet.size[1] * this.fitScale) / (lines > 4 ? Math.max(lines / 4, 4) : lines);
    const widest = (0.94 * this.zone.clientWidth) / ((box[2] - box[0]) * sheet.size[0] * this.fitScale);
    const now = line * this.zoom;
    if (now >= READABLE[0] && now <= READABLE[1] && this.zoom <= widest) return false;
    const zoom = clamp(Math.min(WANTED / line, widest), Math.min(1, widest), Math.max(CLOSEST, (CLOSEST * ROOM) / this.zone.clientWidth));
    if (Math.abs(zoom - this.zoom) < 0.02) return false;
    this.zoom = zoom;
    this.layout();
    return true;
  }

  // The position of a box in the strip, rotated as the page is.
  positionOf(sheet, [x0, y0, x1, y1]) {
    const turn = (this.rotations.get(sheet.number) || 0) % 360;
    const corners = [[x0, y0], [x1, y1]].map(([x, y]) => ({ 0: [x, y], 90: [1 - y, x], 180: [1 - x, 1 - y], 270: [y, 1 - x] })[turn]);
    const [a, b] = [Math.min(corners[0][0], corners[1][0]), Math.min(corners[0][1], corners[1][1])];
    const [c, d] = [Math.max(corners[0][0], corners[1][0]), Math.max(corners[0][1], corners[1][1])];
    const { offsetLeft, offsetTop, offsetWidth, offsetHeight } = sheet.node;
    return { left: offsetLeft + a * offsetWidth, top: offsetTop + b * offsetHeight, width: (c - a) * offsetWidth, height: (d - b) * offsetHeight };
  }

  markHits(hits, at) {
    this.hits = hits;
    for (const sheet of this.sheets) {
      sheet.boxes.querySelectorAll(".hit").forEach((node) => node.remove());
      hits.forEach((hit, place) => {
        if (hit.page !== sheet.number) return;
        const node = el("div", { class: place === at ? "hit now" : "hit" });
        setBox(node, hit.box);
        sheet.boxes.append(node);
      });
    }
    if (hits[at]) this.scrollTo(hits[at], { smooth: false });
  }

  // All words of a page as one shape: thousands of nodes would slow down every key press.
  outline(page, words) {
    const sheet = this.sheets.find((candidate) => candidate.number === page);
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", words.map(([, a, b, c, d]) => `M${a} ${b}H${c}V${d}H${a}Z`).join(""));
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "words");
    svg.setAttribute("viewBox", "0 0 1 1");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.append(path);
    sheet.boxes.querySelectorAll(".words").forEach((node) => node.remove());
    sheet.boxes.append(svg);
  }

  removeOutlines() {
    this.strip.querySelectorAll(".words").forEach((node) => node.remove());
  }

  // Zoom, pages, turning.

  zoomBy(factor, around = null) {
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = this.zone;
    const at = around || [clientWidth / 2, clientHeight / 2];
    const [x, y] = [(scrollLeft + at[0]) / this.zone.scrollWidth, (scrollTop + at[1]) / this.zone.scrollHeight];
    this.zoom = clamp(this.zoom * factor, LEAST, MOST);
    this.isZoomedByHand = true;
    this.layout();
    this.zone.scrollTo({ left: x * this.zone.scrollWidth - at[0], top: y * this.zone.scrollHeight - at[1], behavior: "instant" });
  }

  // Fits the width of the page; from here on the zoom follows the fields again.
  fitPage() {
    this.zoom = 1;
    this.isZoomedByHand = false;
    this.layout();
    this.turnTo(this.page);
  }

  handleWheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    const edge = this.zone.getBoundingClientRect();
    this.zoomBy(event.deltaY < 0 ? 1.15 : 1 / 1.15, [event.clientX - edge.left, event.clientY - edge.top]);
  }

  turnTo(number) {
    const sheet = this.sheets.find((candidate) => candidate.number === number);
    if (sheet) this.zone.scrollTo({ top: sheet.node.offsetTop - GAP, behavior: "instant" });
  }

  pageBy(step) {
    const at = this.sheets.findIndex((sheet) => sheet.number === this.page);
    this.turnTo(this.sheets[clamp(at + step, 0, this.sheets.length - 1)].number);
  }

  rotate() {
    this.rotations.set(this.page, ((this.rotations.get(this.page) || 0) + 90) % 360);
    this.layout();
    this.turnTo(this.page);
  }

  handleScroll() {
    const middle = this.zone.scrollTop + this.zone.clientHeight * 0.4;
    const sheet = this.sheets.findLast((candidate) => candidate.node.offsetTop <= middle) || this.sheets[0];
    if (!sheet || sheet.number === this.page) return;
    this.page = sheet.number;
    this.emit("page", { page: this.page });
  }

  // Drawing: with mouse or pen anywhere on a page; with a finger only while selecting, since fingers scroll.

  listenToDrags() {
    let drag = null;
    this.strip.addEventListener("pointerdown", (event) => {
      const sheet = this.sheets.find((candidate) => candidate.node.contains(event.target));
      if (!sheet || event.button !== 0 || (event.pointerType === "touch" && !this.isSelecting)) return;
      drag = { sheet, from: this.pointOn(sheet, event), x: event.clientX, y: event.clientY, target: event.target };
      this.strip.setPointerCapture(event.pointerId);
      event.preventDefault(); // the current field keeps the focus
    });
    this.strip.addEventListener("pointermove", (event) => {
      if (!drag || Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < CLICK_SLACK) return;
      drag.selection ||= drag.sheet.boxes.appendChild(el("div", { class: "selection-box" }));
      setBox(drag.selection, boxBetween(drag.from, this.pointOn(drag.sheet, event)));
    });
    const endDrag = (event) => {
      if (!drag) return;
      const { sheet, from, selection, target } = drag;
      drag = null;
      selection?.remove();
      if (event.type === "pointercancel") return;
      const to = this.pointOn(sheet, event);
      if (selection) this.emit("drawn", { page: sheet.number, box: boxBetween(from, to) });
      else if (event.ctrlKey || event.metaKey) this.emit("word", { page: sheet.number, x: to[0], y: to[1], add: event.shiftKey });
      else this.emit("box", { name: target.closest(".box")?.dataset.name || null });
    };
    this.strip.addEventListener("pointerup", endDrag);
    this.strip.addEventListener("pointercancel", endDrag);
    this.strip.addEventListener("click", (event) => {
      // Without selecting, a finger cannot draw, but it can tap a box.
      if (event.pointerType === "touch" && !this.isSelecting)
        this.emit("box", { name: event.target.closest(".box")?.dataset.name || null });
    });
  }

  setSelecting(on) {
    this.isSelecting = on;
    this.zone.classList.toggle("selecting", on);
  }

  // A position on the screen as fractions of the page, whatever its rotation.
  pointOn(sheet, event) {
    const edge = sheet.node.getBoundingClientRect();
    const x = clamp((event.clientX - edge.left) / edge.width, 0, 1);
    const y = clamp((event.clientY - edge.top) / edge.height, 0, 1);
    return { 0: [x, y], 90: [y, 1 - x], 180: [1 - x, 1 - y], 270: [1 - y, x] }[(this.rotations.get(sheet.number) || 0) % 360];
  }
}

/** @returns {[number, number, number, number]} */
const boxBetween = ([a, b], [c, d]) => [Math.min(a, c), Math.min(b, d), Math.max(a, c), Math.max(b, d)];

const setBox = (node, [x0, y0, x1, y1]) =>
  Object.assign(node.style, {
    left: `${100 * x0}%`,
    top: `${100 * y0}%`,
    width: `${100 * (x1 - x0)}%`,
    height: `${100 * (y1 - y0)}%`,
  });

export const widthFor = (pixels) => {
  const needed = pixels * Math.min(devicePixelRatio || 1, 2);
  return STEPS.find((step) => step >= needed * 0.95) || STEPS.at(-1);
};

export const pageImageUrl = (documentId, page, width) =>
  `/api/documents/${encodeURIComponent(documentId)}/pages/${page}.png?width=${width}`;
