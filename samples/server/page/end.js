// The end of the talk: if it is in sight, it stays there while the talk grows or the window changes.
import { $ } from "./dom.js";

const kNear = 24; // points from the end that are as good as it

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

// Brings an element to a height in the window, as far as the talk reaches.
export function keepAt(element, y) {
  $("scroll").scrollTop += element.getBoundingClientRect().top - y;
  look();
}

// Who goes up, if by one line, reads. A text that grows or is laid out anew moves nothing up but to its end.
function look() {
  const { scrollTop, scrollHeight, clientHeight } = $("scroll");
  const rest = scrollHeight - clientHeight - scrollTop;
  if (rest > 2 && scrollTop < top - 1) follows = false;
  else if (rest <= kNear) follows = true;
  if (follows) top = scrollTop;
}

export function start() {
  $("scroll").addEventListener("scroll", look);
  new ResizeObserver(() => $("empty").hidden && keepEnd()).observe($("scroll"));
}
