// What the type checker cannot know of our pages.

// Elements are those of our templates: whoever looks for one knows what it is, and browser tests see that it is there.
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}
interface Document {
  getElementById(id: string): any;
}
interface Element {
  closest(selectors: string): any;
}

// Events of our own carry what they tell in `detail`; what is clicked is an element, or has no ancestors to look for.
interface EventTarget {
  addEventListener(type: string, listener: (event: any) => void, options?: boolean | AddEventListenerOptions): void;
  closest?(selectors: string): any;
}
