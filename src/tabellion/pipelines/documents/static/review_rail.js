// The side rail: thumbnails of the pages, and the next document.

import { el, t } from "./base.js";
import { pictureUrl } from "./review_page.js";

const SMALL = 100; // pixels wide, enough for high-density screens

export class Rail extends EventTarget {
  constructor(root) {
    super();
    this.list = el("div", { class: "thumbs" });
    this.next = el("p", { class: "coming", hidden: true });
    this.last = el("p", { class: "coming", hidden: true });
    root.replaceChildren(this.list, this.last, this.next);
  }

  show(documentId, pages, [last] = []) {
    this.list.replaceChildren(
      ...pages.map(({ number }) => {
        const picture = el("img", { src: pictureUrl(documentId, number, SMALL), alt: "", loading: "lazy", width: "56" });
        const button = el("button", { type: "button", class: "thumb quiet", tabindex: "-1", "data-page": number, "aria-label": t("review.page_picture", { n: number }) }, picture, el("span", {}, String(number)));
        button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("page", { detail: { page: number } })));
        return button;
      }),
    );
    this.coming(null);
    this.last.hidden = !last;
    if (last) this.last.replaceChildren(el("b", {}, t("review.gone")), el("a", { href: `/review/${encodeURIComponent(last.id)}`, title: last.name }, last.name));
  }

  here(page) {
    for (const thumb of this.list.children) {
      const now = Number(thumb.dataset.page) === page;
      thumb.classList.toggle("here", now);
      if (now) thumb.setAttribute("aria-current", "true");
      else thumb.removeAttribute("aria-current");
      if (now) thumb.scrollIntoView({ block: "nearest" });
    }
  }

  coming(whole) {
    this.next.hidden = !whole;
    this.next.replaceChildren(...(whole ? [el("b", {}, t("review.coming")), el("span", {}, whole.name)] : []));
    this.next.title = whole?.name || "";
  }
}
