// Charts: bars over time, sparklines, a ring. Plain SVG, coloured by classes, updated in place.

import { el, icon, language, number, t } from "./base.js";

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Round ticks of an axis: multiples of 1, 2 or 5 times a power of ten, in at most `most` steps. */
export function steps(highest, most = 4, whole = true) {
  const rough = Math.max(highest, whole ? 1 : 1e-6) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].map((factor) => factor * power).find((factor) => factor >= rough - 1e-12);
  const step = whole ? Math.max(1, size) : size;
  const count = Math.max(1, Math.ceil(highest / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, place) => Number((place * step).toPrecision(12)));
}

const EDGE = { right: 10, top: 10, bottom: 24 };
const LETTER = 6.7; // the approximate width of a character on the axis, in pixels
let drawn = 0;

/**
 * Stacked bars over time, with an axis, a legend, a tooltip and a table with the same values.
 * `kinds`: [{key, word, css}], the lowest first; `axis` and `tooltip` format a time; `write` formats a value.
 */
export class Bars {
  constructor(host, { title, kinds, axis, tooltip, write = (value) => number(value), nothing, integers = true, room = 84 }) {
    this.title = title;
    this.kinds = kinds;
    this.axis = axis;
    this.tooltip = tooltip;
    this.write = write;
    this.nothing = nothing;
    this.integers = integers;
    this.room = room;
    this.id = `chart-${(drawn += 1)}`;
    this.figure = svg("svg", { class: "chart-svg", role: "img", "aria-labelledby": `${this.id}-title ${this.id}-desc` },
      svg("title", { id: `${this.id}-title` }), svg("desc", { id: `${this.id}-desc` }));
    this.back = svg("g", { class: "chart-back" });
    this.body = svg("g", { class: "chart-body" });
    this.figure.append(this.back, this.body);
    this.note = el("div", { class: "chart-note", hidden: true, "aria-hidden": "true" });
    this.frame = el("div", { class: "chart-frame" }, this.figure, this.note);
    this.legend = kinds.length > 1 ? el("div", { class: "chart-legend" }, kinds.map((kind) =>
      el("span", {}, el("i", { class: `swatch ${kind.css}` }), kind.word))) : null;
    this.table = el("div", { class: "chart-table table-wrap", tabindex: "0", role: "region", "aria-label": title });
    this.more = el("details", { class: "chart-more" }, el("summary", { class: "small" }, icon("right"), t("dashboard.as_table")), this.table);
    this.more.addEventListener("toggle", () => this.fillTable());
    host.replaceChildren(...[this.legend, this.frame, this.more].filter(Boolean));
    this.frame.addEventListener("pointermove", (event) => this.point(event));
    this.frame.addEventListener("pointerleave", () => this.point(null));
    this.columns = [];
    new ResizeObserver(() => this.draw()).observe(this.frame);
  }

  /** `since`: a Date; `step`: seconds; `values`: {key: [numbers]}; the last period is the current one. */
  update({ since, step, values }) {
    this.series = { since, step, values, count: values[this.kinds[0].key].length };
    this.draw();
    this.fillTable();
  }

  moment(place) {
    return new Date(this.series.since.getTime() + place * this.series.step * 1000);
  }

  total(place) {
    return this.kinds.reduce((sum, { key }) => sum + this.series.values[key][place], 0);
  }

  draw() {
    const width = this.frame.clientWidth, height = this.frame.clientHeight;
    if (!this.series || width < 60 || height < 60) return;
    const { count, values } = this.series;
    const highest = Math.max(0, ...Array.from({ length: count }, (_, place) => this.total(place)));
    const ticks = steps(highest, height > 150 ? 4 : 2, this.integers);
    this.left = 16 + LETTER * Math.max(2, ...ticks.map((tick) => this.write(tick).length));
    const top = ticks.at(-1), across = width - this.left - EDGE.right, down = height - EDGE.top - EDGE.bottom;
    const x = (place) => this.left + (place * across) / count;
    const y = (value) => EDGE.top + down - (value / top) * down;
    this.figure.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.back.replaceChildren(...this.grid(ticks, x, y, width, height, highest));
    while (this.columns.length > count) this.columns.pop().group.remove();
    while (this.columns.length < count) this.column();
    const gap = across / count > 6 ? 2 : 1;
    this.columns.forEach(({ group, rects }, place) => {
      group.setAttribute("class", place === count - 1 ? "running" : "");
      let floor = 0;
      this.kinds.forEach(({ key }, number) => {
        const value = values[key][place];
        const high = value ? Math.max(1.5, (value / top) * down) : 0;
        set(rects[number], { x: x(place) + gap / 2, width: Math.max(1, across / count - gap), y: y(floor) - high, height: high });
        floor += value;
      });
    });
    this.describe();
  }

  column() {
    const rects = this.kinds.map(({ css }) => svg("rect", { class: css, rx: 1 }));
    const group = svg("g", {}, ...rects);
    this.body.append(group);
    this.columns.push({ group, rects });
  }

  grid(ticks, x, y, width, height, highest) {
    const lines = ticks.flatMap((tick) => [
      svg("line", { x1: this.left, x2: width - EDGE.right, y1: y(tick), y2: y(tick), class: tick ? "line" : "ground" }),
      text({ x: this.left - 8, y: y(tick) + 4, class: "axis end" }, this.write(tick)),
    ]);
    const apart = Math.max(1, Math.ceil(this.series.count / Math.max(2, Math.floor((width - this.left) / this.room))));
    const sizes = this.series.step === 3600 ? [1, 2, 3, 6, 12, 24] : [1, 2, 3, 5, 6, 10, 12, 15, 20, 30];
    const size = sizes.find((candidate) => candidate >= apart) ?? apart;
    for (let place = this.series.count - 1; place >= 0; place -= 1) {
      const at = this.moment(place);
      const round = this.series.step === 60 ? at.getMinutes() % size : this.series.step === 3600 ? at.getHours() % size : (this.series.count - 1 - place) % size;
      const middle = x(place) + (x(1) - x(0)) / 2;
      if (round === 0 && middle > this.left + 14 && middle < width - 16) lines.push(text({ x: middle, y: height - 6, class: "axis middle" }, this.axis(at)));
    }
    if (!highest) lines.push(text({ x: width / 2, y: height / 2 - 8, class: "axis middle nothing" }, this.nothing));
    return lines;
  }

  /** Sets the description for screen readers. */
  describe() {
    const [title, desc] = this.figure.children;
    put(title, this.title);
    const sums = this.kinds.map(({ key, word }) => `${word}: ${this.write(this.series.values[key].reduce((a, b) => a + b, 0))}`);
    put(desc, t("dashboard.chart_desc", { from: this.tooltip(this.moment(0)), sums: sums.join(", ") }));
  }

  point(event) {
    if (!this.series || !event) {
      this.note.hidden = true;
      this.columns[this.pointed]?.group.classList.remove("pointed");
      return;
    }
    const box = this.frame.getBoundingClientRect(), across = box.width - this.left - EDGE.right;
    const place = Math.floor(((event.clientX - box.left - this.left) / across) * this.series.count);
    this.columns[this.pointed]?.group.classList.remove("pointed");
    if (place < 0 || place >= this.series.count) return void (this.note.hidden = true);
    this.pointed = place;
    this.columns[place].group.classList.add("pointed");
    this.note.replaceChildren(el("strong", {}, this.tooltip(this.moment(place))), ...[...this.kinds].reverse().map(({ key, word, css }) =>
      el("span", {}, el("i", { class: `swatch ${css}` }), word, el("span", { class: "value" }, this.write(this.series.values[key][place])))));
    this.note.hidden = false;
    const middle = this.left + ((place + 0.5) * across) / this.series.count;
    const left = Math.min(Math.max(middle - this.note.offsetWidth / 2, 4), box.width - this.note.offsetWidth - 4);
    this.note.style.transform = `translateX(${Math.round(left)}px)`;
  }

  fillTable() {
    if (!this.more.open || !this.series) return;
    const rows = Array.from({ length: this.series.count }, (_, place) => this.series.count - 1 - place).map((place) =>
      el("tr", {}, el("th", { scope: "row" }, this.tooltip(this.moment(place))),
        this.kinds.map(({ key }) => el("td", { class: "right" }, this.write(this.series.values[key][place])))));
    const scrollTop = this.table.scrollTop;
    this.table.replaceChildren(el("table", {}, el("caption", { class: "unseen" }, this.title),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("dashboard.time")), this.kinds.map(({ word }) => el("th", { scope: "col", class: "right" }, word)))),
      el("tbody", {}, rows)));
    this.table.scrollTop = scrollTop;
  }
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    const rendered = String(Math.round(value * 100) / 100);
    if (element.getAttribute(name) !== rendered) element.setAttribute(name, rendered);
  }
}

function text(attributes, content) {
  const element = svg("text", attributes);
  element.textContent = content;
  return element;
}

/** Sets the text of an element, if it differs. */
export function put(element, content) {
  const rendered = String(content ?? "");
  if (element.textContent !== rendered) element.textContent = rendered;
  return element;
}

/** A sparkline: done jobs, with failed ones on top. */
export function spark(title) {
  const done = svg("path", { class: "spark-done" }), failed = svg("path", { class: "spark-failed" });
  const label = svg("title");
  const element = svg("svg", { class: "spark", viewBox: "0 0 120 24", role: "img", preserveAspectRatio: "none" }, label,
    svg("path", { class: "spark-ground", d: "M0 23.5h120" }), done, failed);
  const column = (place, count, floor, high) => `M${(place * 120) / count + 0.25} ${24 - floor - high}h${120 / count - 0.5}v${high}h-${120 / count - 0.5}z`;
  element.update = (series) => {
    const count = series.done.length, top = Math.max(1, ...series.done.map((doneCount, place) => doneCount + series.failed[place]));
    let below = "", above = "";
    series.done.forEach((value, place) => {
      const low = value ? Math.max(1.5, (value / top) * 22) : 0, other = series.failed[place];
      if (low) below += column(place, count, 0, low);
      if (other) above += column(place, count, low, Math.max(2, (other / top) * 22));
    });
    if (done.getAttribute("d") !== below) done.setAttribute("d", below);
    if (failed.getAttribute("d") !== above) failed.setAttribute("d", above);
    put(label, title(series));
  };
  return element;
}

/** A share as a ring, with the share in its middle. */
export function ring(label) {
  const round = 2 * Math.PI * 42;
  const arc = svg("circle", { class: "ring-arc", cx: 50, cy: 50, r: 42, "stroke-dasharray": `0 ${round}`, transform: "rotate(-90 50 50)" });
  const middle = text({ class: "ring-text", x: 50, y: 50 }, "");
  const title = svg("title");
  const element = svg("svg", { class: "ring", viewBox: "0 0 100 100", role: "img" }, title,
    svg("circle", { class: "ring-ground", cx: 50, cy: 50, r: 42 }), arc, middle);
  element.update = (share) => {
    const hasShare = share !== null && share !== undefined;
    const kind = !hasShare ? "idle" : share >= 0.95 ? "good" : share >= 0.8 ? "warn" : "bad";
    element.setAttribute("class", `ring ring-${kind}`);
    arc.setAttribute("stroke-dasharray", `${hasShare ? share * round : 0} ${round}`);
    put(middle, hasShare ? formatShare(share) : "–");
    put(title, label(share));
  };
  return element;
}

/** A percentage that is 100 % only for all, and 0 % only for nothing. */
export function formatShare(share) {
  const shown = share > 0 && share < 0.005 ? 0.01 : share < 1 && share > 0.995 ? 0.99 : share;
  return new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 }).format(shown);
}
