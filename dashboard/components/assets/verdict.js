// The answer in words, and the tiles below it.

import { el, link, once, prose } from "./dom.js";
import { applyTheme } from "./theme.js";

const boxes = new WeakMap();
const SHAPES = { stale: "●", worse: "●" };

export default function render({ data, parentElement }) {
  let box = boxes.get(parentElement);
  if (!box) {
    box = new Verdict(parentElement);
    boxes.set(parentElement, box);
  }
  box.show(data);
  return () => box.closeSoon();
}

class Verdict {
  constructor(parent) {
    this.parent = parent;
    this.root = el("div", { cls: "verdict" });
    // Announced on a change of state, never on a change of value.
    this.said = el("div", { cls: "said", role: "status" });
    this.banners = el("div", {});
    this.tiles = el("div", { cls: "tiles" });
    this.root.append(this.said, this.banners, this.tiles);
    parent.append(this.root);
  }

  show(data) {
    clearTimeout(this.closing);
    applyTheme(this.root);
    once(this.banners, data.banners, () => data.banners.map(banner));
    once(this.said, data.banners.map((one) => one.word.replace(/[\d.,\s].*$/, "")),
      (words) => document.createTextNode(words.join(", ")));
    this.tiles.style.setProperty("--n", Math.max(4, data.tiles.length));
    once(this.tiles, data.tiles, () => data.tiles.map(tile));
  }

  closeSoon() {
    this.closing = setTimeout(() => {
      if (!this.root.isConnected) boxes.delete(this.parent);
    }, 1000);
  }
}

function banner(one) {
  const shape = SHAPES[one.kind] ? `${SHAPES[one.kind]} ` : "";
  return el("div", { cls: `banner ${one.kind}` },
    el("span", { cls: "word" }, `${shape}${one.word}`),
    el("p", {}, prose(one.text)),
    one.link ? link(one.link[0], one.link[1], "btn") : null);
}

function tile(one) {
  return el("section", { cls: `tile ${one.kind}`, label: `${one.name}: ${one.what}` },
    el("div", { cls: "head" }, el("b", {}, one.name),
      el("span", { cls: one.kind === "worse" ? "state warn" : "state" },
        one.kind === "worse" ? "● " : "", one.word)),
    el("div", { cls: "big", title: one.tip }, el("span", { cls: one.unit ? "fig" : "fig words" }, one.figure),
      el("small", {}, one.unit ? `\u00a0${one.unit}` : ""),
      el("span", { cls: "what" }, one.what)),
    el("div", { cls: "under" }, one.under),
    el("dl", {}, one.pairs.map(([name, first, second]) => [
      el("dt", {}, name), el("dd", {}, first), el("dd", { cls: "dim" }, second)])),
    one.lines.filter(Boolean).map((line) => el("div", { cls: "line" }, line)),
    el("div", { cls: "foot" }, el("span", { cls: "warn" }, one.warning || ""), el("span", {}, one.foot)),
    one.more ? el("div", { cls: "line dim" }, one.more) : null);
}
