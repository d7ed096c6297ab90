// Rows that stay: what has not changed is not drawn again, so that nothing jumps or flickers.
import { el } from "./base.js";

/** The rows of a table by key: existing rows are changed in place. */
export class Rows {
  constructor(body, make) {
    this.body = body;
    this.make = make;
    this.known = new Map();
  }

  update(items, key) {
    const currentKeys = new Set(items.map(key));
    for (const [name, row] of this.known) {
      if (!currentKeys.has(name)) {
        row.remove();
        this.known.delete(name);
      }
    }
    let after = null;
    for (const item of items) {
      let row = this.known.get(key(item));
      if (row === undefined) {
        row = this.make(item);
        this.known.set(key(item), row);
      }
      row.update(item);
      const place = after ? after.nextElementSibling : this.body.firstElementChild;
      if (place !== row) this.body.insertBefore(row, place);
      after = row;
    }
  }
}

/** Makes the row of an item, whose cells are replaced when it has changed; the focus stays at the same control. */
export const rowOf = (cells) => ({ id }) => {
  const row = el("tr", { dataset: { row: id } }), controls = () => [...row.querySelectorAll("a, button, input")];
  row.update = (item) => {
    const place = controls().indexOf(document.activeElement);
    renew(row, item, cells);
    if (place >= 0) (controls()[place] ?? controls()[0])?.focus({ preventScroll: true });
  };
  return row;
};

/** Replaces the children of an element only if `facts` have changed. */
export function renew(host, facts, make) {
  const mark = JSON.stringify(facts);
  if (host.mark === mark) return;
  host.mark = mark;
  host.replaceChildren(...[make(facts)].flat(Infinity).filter(Boolean));
}
