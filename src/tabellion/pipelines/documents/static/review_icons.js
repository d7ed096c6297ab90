// Icons: the states of a field and the commands of the screen. Each has its own shape, not only a colour.

const SVG = "http://www.w3.org/2000/svg";

const RING = "M8 1.75a6.25 6.25 0 1 0 0 12.5a6.25 6.25 0 1 0 0-12.5Z";
const SHAPES = {
  auto: ["M4.5 8.4l2.3 2.3 4.7-5"],
  needs_look: ["M1.5 8s2.4-4.2 6.5-4.2S14.5 8 14.5 8s-2.4 4.2-6.5 4.2S1.5 8 1.5 8Z", "M8 6.2a1.8 1.8 0 1 0 0 3.6a1.8 1.8 0 1 0 0-3.6Z"],
  rule_failed: ["M5.3 1.75h5.4l3.55 3.55v5.4l-3.55 3.55H5.3L1.75 10.7V5.3Z", "M8 4.8v3.9", "M8 11v.2"],
  confirmed: [RING, "M5.2 8.2l2 2 3.7-4.2"],
  corrected: ["M10.6 2.6l2.8 2.8-7.6 7.6-3.5.7.7-3.5Z", "M8.9 4.3l2.8 2.8"],
  absent: [RING, "M3.7 12.3l8.6-8.6"],
  empty: ["M5 8h6"],
  lock: ["M3.75 7.25h8.5v6.5h-8.5Z", "M5.5 7V5a2.5 2.5 0 0 1 5 0v2"],
  clock: [RING, "M8 4.5V8l2.3 1.6"],
  person: ["M8 2.2a2.7 2.7 0 1 0 0 5.4a2.7 2.7 0 1 0 0-5.4Z", "M2.8 14c.4-2.8 2.5-4.4 5.2-4.4s4.8 1.6 5.2 4.4"],
  up: ["M8 13V3.5", "M4 7.2l4-4 4 4"],
  search: ["M7 2.25a4.75 4.75 0 1 0 0 9.5a4.75 4.75 0 1 0 0-9.5Z", "M10.5 10.5l3.5 3.5"],
  rotate: ["M13 8a5 5 0 1 1-1.6-3.7", "M13.4 1.8v3.4H10"],
  draw: ["M2.5 5V2.5H5", "M11 2.5h2.5V5", "M13.5 11v2.5H11", "M5 13.5H2.5V11", "M6.5 6.5h3v3h-3Z"],
  history: ["M2.6 8a5.4 5.4 0 1 0 1.7-3.9", "M2.4 2.2v3h3", "M8 5v3.2l2.2 1.4"],
  file: ["M4 1.75h5l3.25 3.25v9.25H4Z", "M9 1.75V5h3.25"],
  close: ["M3.5 3.5l9 9", "M12.5 3.5l-9 9"],
  more: ["M3.2 8v.1", "M8 8v.1", "M12.8 8v.1"],
  plus: ["M8 3v10", "M3 8h10"],
  minus: ["M3 8h10"],
  back: ["M9.5 3L4.5 8l5 5"],
  next: ["M6.5 3l5 5-5 5"],
  bolt: ["M8.8 1.5L3.5 9h3.7l-.6 5.5L12.5 7H8.6Z"],
};

export const icon = (name, label = null) => {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("viewBox", "0 0 16 16");
  if (label) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
  } else {
    svg.setAttribute("aria-hidden", "true");
  }
  for (const shape of SHAPES[name] || []) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", shape);
    svg.append(path);
  }
  return svg;
};
