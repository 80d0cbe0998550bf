// The end of the talk: where it is in sight, it stays there while the talk grows or the window changes.
import { $ } from "./dom.js";

let follows = true;
let size = ""; // of the talk and its window, when somebody last scrolled

export function toEnd() {
  $("scroll").scrollTop = $("scroll").scrollHeight;
  follows = true;
}

export function keepEnd() {
  if (follows) toEnd();
}

export function start() {
  const scroll = $("scroll");
  scroll.addEventListener("scroll", () => {
    const now = `${scroll.scrollHeight} ${scroll.clientHeight} ${scroll.clientWidth}`;
    // If the size is another, nobody scrolled: the text was laid out anew.
    if (scroll.scrollTop + scroll.clientHeight >= scroll.scrollHeight - 24) follows = true;
    else if (now === size) follows = false;
    size = now;
  });
  new ResizeObserver(() => $("empty").hidden && keepEnd()).observe(scroll);
}
