// Thumbnails of the pages beside them, and the names of the previous and the next document.

import { el, t } from "./base.js";
import { pageImageUrl } from "./review_page.js";

const WIDTH = 100; // pixels wide, enough for high-density screens

export class PageThumbnails extends EventTarget {
  constructor(root) {
    super();
    this.list = el("div", { class: "thumbs" });
    this.next = el("p", { class: "nearby-item", hidden: true });
    this.previous = el("p", { class: "nearby-item", hidden: true });
    root.replaceChildren(this.list, this.previous, this.next);
  }

  show(documentId, pages, [previous] = []) {
    this.list.replaceChildren(
      ...pages.map(({ number }) => {
        const picture = el("img", { src: pageImageUrl(documentId, number, WIDTH), alt: "", loading: "lazy", width: "56" });
        const button = el("button", { type: "button", class: "thumb quiet", tabindex: "-1", "data-page": number, "aria-label": t("review.page_picture", { n: number }) }, picture, el("span", {}, String(number)));
        button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("page", { detail: { page: number } })));
        return button;
      }),
    );
    this.showNext(null);
    this.previous.hidden = !previous;
    if (previous) this.previous.replaceChildren(el("b", {}, t("review.gone")), el("a", { href: `/review/${encodeURIComponent(previous.id)}`, title: previous.name }, previous.name));
  }

  showCurrent(page) {
    for (const thumb of this.list.children) {
      const now = Number(thumb.dataset.page) === page;
      thumb.classList.toggle("here", now);
      if (now) thumb.setAttribute("aria-current", "true");
      else thumb.removeAttribute("aria-current");
      if (now) thumb.scrollIntoView({ block: "nearest" });
    }
  }

  showNext(loaded) {
    this.next.hidden = !loaded;
    this.next.replaceChildren(...(loaded ? [el("b", {}, t("review.coming")), el("span", {}, loaded.name)] : []));
    this.next.title = loaded?.name || "";
  }
}
