// The end of the talk: where it is in sight, it stays there while the talk grows or the window changes.
import { $ } from "./dom.js";

let follows = true;
let top = 0; // of what was in sight when the end last was

export function toEnd() {
  $("scroll").scrollTop = $("scroll").scrollHeight;
  top = $("scroll").scrollTop;
  follows = true;
}

export function keepEnd() {
  if (follows) toEnd();
}

export function start() {
  const scroll = $("scroll");
  scroll.addEventListener("scroll", () => {
    if (scroll.scrollTop + scroll.clientHeight >= scroll.scrollHeight - 24) {
      follows = true;
      top = scroll.scrollTop;
    } else if (scroll.scrollTop < top - 1) {
      follows = false; // somebody went up: a text that grows or is laid out anew moves nothing up but to its end
    }
  });
  new ResizeObserver(() => $("empty").hidden && keepEnd()).observe(scroll);
}
