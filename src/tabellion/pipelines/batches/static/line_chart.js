// Lines over the last minutes, with bands, a legend, a tooltip and a table with the same values. Plain SVG.
import { el, icon, language, number, t } from "./base.js";
import { put, steps, svg } from "./charts.js";

const EDGE = { right: 10, top: 10, bottom: 24 }, LETTER = 6.7; // pixels
const CLOCK = new Intl.DateTimeFormat(language, { timeStyle: "medium", hourCycle: "h23" });
const GAP = 15; // seconds without a sample after which a line is interrupted
let drawn = 0;

/**
 * `kinds`: [{key, word, css}]; samples have `at` (seconds), a number or null for each key, and `band` (whether the background is marked).
 * Samples older than `longest` seconds are dropped; the axis starts with `shortest` seconds and grows.
 */
export class LineChart {
  constructor(host, { title, kinds, band, write = (value) => number(value, value < 10 ? 1 : 0), shortest = 120, longest = 600 }) {
    this.title = title;
    this.kinds = kinds;
    this.write = write;
    this.shortest = shortest;
    this.longest = longest;
    this.samples = [];
    const id = `lines-${(drawn += 1)}`;
    this.name = svg("title", { id: `${id}-title` });
    this.description = svg("desc", { id: `${id}-desc` });
    this.back = svg("g", { class: "chart-back" });
    this.bands = svg("g", { class: "chart-bands" });
    this.cursor = svg("line", { class: "chart-cursor", visibility: "hidden" });
    this.lines = Object.fromEntries(kinds.map(({ key, css }) => [key, svg("path", { class: `chart-line ${css}` })]));
    this.figure = svg("svg", { class: "chart-svg", role: "img", "aria-labelledby": `${id}-title ${id}-desc` },
      this.name, this.description, this.bands, this.back, ...Object.values(this.lines), this.cursor);
    this.note = el("div", { class: "chart-note", hidden: true, "aria-hidden": "true" });
    this.frame = el("div", { class: "chart-frame" }, this.figure, this.note);
    const legend = el("div", { class: "chart-legend" }, kinds.map((kind) => el("span", {}, el("i", { class: `swatch ${kind.css}` }), kind.word)),
      band ? el("span", {}, el("i", { class: "swatch band" }), band) : null);
    this.table = el("div", { class: "chart-table table-wrap", tabindex: "0", role: "region", "aria-label": title });
    this.more = el("details", { class: "chart-more" }, el("summary", { class: "small" }, icon("right"), t("dashboard.as_table")), this.table);
    this.more.addEventListener("toggle", () => this.fillTable());
    host.replaceChildren(legend, this.frame, this.more);
    this.frame.addEventListener("pointermove", (event) => this.point(event.clientX - this.frame.getBoundingClientRect().left));
    this.frame.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.draw()).observe(this.frame);
    put(this.name, title);
  }

  add(sample) {
    this.samples.push(sample);
    while (this.samples[0].at < sample.at - this.longest) this.samples.shift();
    this.draw();
    this.fillTable();
  }

  draw() {
    const width = this.frame.clientWidth, height = this.frame.clientHeight;
    if (!this.samples.length || width < 60 || height < 60) return;
    const last = this.samples.at(-1).at, span = Math.max(this.shortest, last - this.samples[0].at);
    const highest = Math.max(0.1, ...this.samples.flatMap((sample) => this.kinds.map(({ key }) => sample[key] ?? 0)));
    const ticks = steps(highest, 3, false);
    const left = 16 + LETTER * Math.max(2, ...ticks.map((tick) => this.write(tick).length));
    const across = width - left - EDGE.right, down = height - EDGE.top - EDGE.bottom;
    this.x = (at) => left + across * (1 - (last - at) / span);
    const y = (value) => EDGE.top + down * (1 - value / ticks.at(-1));
    this.figure.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.back.replaceChildren(...this.grid(ticks, y, { left, right: width - EDGE.right, bottom: height, last, span }));
    for (const { key } of this.kinds) this.lines[key].setAttribute("d", this.path(key, y));
    this.bands.replaceChildren(...this.samples.slice(1).flatMap((sample, place) => (sample.band && sample.at - this.samples[place].at < GAP
      ? [svg("rect", { x: this.x(this.samples[place].at).toFixed(1), width: (this.x(sample.at) - this.x(this.samples[place].at) + 0.5).toFixed(1), y: EDGE.top, height: down })] : [])));
    this.cursor.setAttribute("y1", String(EDGE.top));
    this.cursor.setAttribute("y2", String(EDGE.top + down));
    const newest = this.samples.at(-1);
    put(this.description, this.kinds.map(({ key, word }) => `${word}: ${this.value(newest, key)}`).join(", "));
  }

  path(key, y) {
    let text = "", before = null;
    for (const sample of this.samples) {
      const value = sample[key];
      if (value === null || value === undefined) before = null;
      else {
        text += `${before === null || sample.at - before > GAP ? "M" : "L"}${this.x(sample.at).toFixed(1)} ${y(value).toFixed(1)}`;
        before = sample.at;
      }
    }
    return text;
  }

  grid(ticks, y, { left, right, bottom, last, span }) {
    const write = (attributes, content) => { const element = svg("text", attributes); element.textContent = content; return element; };
    const lines = ticks.flatMap((tick) => [
      svg("line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: tick ? "line" : "ground" }),
      write({ x: left - 8, y: y(tick) + 4, class: "axis end" }, this.write(tick)),
    ]);
    const apart = Math.ceil(span / 60 / 4);
    for (let minutes = 0; minutes * 60 <= span; minutes += apart) {
      const x = this.x(last - minutes * 60);
      if (x > left + 14) lines.push(write({ x: minutes ? x : right, y: bottom - 6, class: minutes ? "axis middle" : "axis end" }, minutes ? t("batch.minutes_ago", { n: minutes }) : t("batch.now")));
    }
    return lines;
  }

  value(sample, key) {
    return sample[key] === null || sample[key] === undefined ? "–" : this.write(sample[key]);
  }

  point(x) {
    const near = x === null || !this.samples.length || !this.x ? null
      : this.samples.reduce((best, sample) => (Math.abs(this.x(sample.at) - x) < Math.abs(this.x(best.at) - x) ? sample : best));
    this.note.hidden = near === null;
    this.cursor.setAttribute("visibility", near ? "visible" : "hidden");
    if (!near) return;
    this.note.replaceChildren(el("strong", {}, CLOCK.format(near.at * 1000)), ...this.kinds.map(({ key, word, css }) =>
      el("span", {}, el("i", { class: `swatch ${css}` }), word, el("span", { class: "value" }, this.value(near, key)))));
    const at = this.x(near.at);
    this.cursor.setAttribute("x1", at.toFixed(1));
    this.cursor.setAttribute("x2", at.toFixed(1));
    // Beside the cursor: above it, the note would hide the lines of a chart that is this low.
    const place = at - this.note.offsetWidth - 12 >= 0 ? at - this.note.offsetWidth - 12 : at + 12;
    this.note.style.transform = `translateX(${Math.round(place)}px)`;
  }

  fillTable() {
    if (!this.more.open) return;
    const scrollTop = this.table.scrollTop;
    this.table.replaceChildren(el("table", {}, el("caption", { class: "unseen" }, this.title),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, t("dashboard.time")), this.kinds.map(({ word }) => el("th", { scope: "col", class: "right" }, word)))),
      el("tbody", {}, this.samples.toReversed().map((sample) => el("tr", {}, el("th", { scope: "row" }, CLOCK.format(sample.at * 1000)),
        this.kinds.map(({ key }) => el("td", { class: "right" }, this.value(sample, key))))))));
    this.table.scrollTop = scrollTop;
  }
}
