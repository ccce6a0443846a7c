// How old the data is, counted on in the browser: a server that hangs cannot look alive.

import { el, once } from "./dom.js";
import { clock, duration, local } from "./format.js";
import { applyTheme } from "./theme.js";

const boxes = new WeakMap();
const STALE_AFTER_S = 3;
const LOST_AFTER_S = 5;

export default function render({ data, parentElement }) {
  let box = boxes.get(parentElement);
  if (!box) {
    box = new Freshness(parentElement);
    boxes.set(parentElement, box);
  }
  box.show(data);
  return () => box.closeSoon();
}

class Freshness {
  constructor(parent) {
    this.parent = parent;
    this.root = el("div", { cls: "chips" });
    parent.append(this.root);
    this.timer = setInterval(() => this.tick(), 500);
  }

  show(data) {
    clearTimeout(this.closing);
    this.data = data;
    // The server's clock counts, not the reader's: ages are measured from the moment of arrival.
    this.arrived = performance.now() / 1000;
    applyTheme(this.root);
    this.tick();
  }

  tick() {
    const waited = performance.now() / 1000 - this.arrived;
    const now = this.data.now + waited;
    const [tone, text] = freshness(this.data, waited);
    once(this.root, [tone, text, this.data.chips, clock(now)], () => [
      freshChip(tone, text, this.data.newest),
      this.data.chips.map((chip) => el("span", { cls: "chip", title: chip.tip }, chip.text)),
      el("span", { cls: "clock", title: local(now) }, `${clock(now)} UTC`),
    ]);
  }

  closeSoon() {
    this.closing = setTimeout(() => {
      if (this.root.isConnected) return;
      clearInterval(this.timer);
      boxes.delete(this.parent);
    }, 1000);
  }
}

// Whether data is late is known at the moment of an answer; between answers only its age is.
function freshness({ newest, now, every }, waited) {
  if (newest === null) return ["", "No data"];
  const age = now - newest;
  if (age > STALE_AFTER_S) {
    return ["warn", age < 86400 ? `Stale, last data ${clock(newest)} UTC` : `Stale, last data ${duration(age)} ago`];
  }
  if (every === null) return ["", `Not refreshed, as of ${clock(now)} UTC`];
  if (waited > every + LOST_AFTER_S) return ["warn", `No answer for ${duration(waited)}`];
  return ["live", `Live, data ${duration(age + waited)} old`];
}

function freshChip(tone, text, newest) {
  const title = newest === null ? "" : local(newest);
  const dot = tone === "live" ? el("i", { cls: "dot", hidden: true }) : null;
  return el("span", { cls: `chip ${tone}`, title }, dot, tone === "warn" ? "● " : "", text);
}
