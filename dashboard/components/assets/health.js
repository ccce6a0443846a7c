// What works here, what does not, exactly why, and what to do about it.

import { button, el, link, once, prose, shape } from "./dom.js";
import { applyTheme } from "./theme.js";

const boxes = new WeakMap();
const STRIP = { rows: "data", trouble: "failures or dropped rows", looked: "looked, found nothing" };

export default function render({ data, parentElement }) {
  let root = boxes.get(parentElement);
  if (!root) {
    root = el("div", { cls: "health" });
    boxes.set(parentElement, root);
    parentElement.append(root);
  }
  applyTheme(root);
  // Each part by itself: a new age in the table must not take the focus from a button above it.
  const parts = [
    [[data.title, data.text], () => headline(data)],
    [data.search, () => (data.search ? search(data.search) : [])],
    [data.answers, () => answers(data.answers)],
    [[data.sources, data.cost], () => sources(data)],
    [data.lake, () => lake(data.lake)],
  ];
  while (root.children.length < parts.length) root.append(el("div", {}));
  parts.forEach(([shown, build], i) => once(root.children[i], shown, build));
}

function headline(data) {
  return [el("h1", {}, data.title), el("p", { cls: "lead" }, prose(data.text))];
}

function search(data) {
  const copy = button("Copy", () => copyText(data.command, copy));
  return el("section", { cls: "card", label: data.title },
    el("div", { cls: "head" }, el("h2", {}, data.title), el("span", { cls: "chip" }, data.state)),
    el("ul", {}, data.places.map(([place, what]) => el("li", {}, el("code", {}, place), el("span", {}, what)))),
    el("p", { cls: "answer" }, data.answer),
    el("p", { cls: "hint" }, data.hint),
    el("div", { cls: "command" }, el("code", {}, data.command), copy));
}

async function copyText(text, from) {
  try {
    await navigator.clipboard.writeText(text);
    from.textContent = "Command copied";
  } catch {
    from.textContent = "Select and copy";
  }
  setTimeout(() => { from.textContent = "Copy"; }, 2000);
}

const TONES = { Yes: "ok", Partly: "warn" };

function answers(list) {
  return [el("h2", { cls: "section" }, "What this host can answer now"),
    el("div", { cls: "answers" }, list.map((one) => el("div", {},
      el("span", { cls: `word ${TONES[one.word] || ""}` }, one.word),
      el("b", {}, one.question),
      el("span", { cls: "text" }, one.text, " ", one.link ? link(one.link, one.page) : null))))];
}

const HEADS = ["Source", "State", "Exactly", "Last row", "Pace", "Own cost", "Last 24 h"];

function sources(data) {
  return [
    el("h2", { cls: "section" }, "Sources", el("span", { cls: "aside" }, data.cost)),
    el("table", {}, el("thead", {}, el("tr", {}, HEADS.map((head, i) => el("th", { cls: i > 2 && i < 6 ? "num" : "" }, head)))),
      el("tbody", {}, data.sources.map(source)))];
}

function source(one) {
  return el("tr", { cls: one.quiet ? "quiet" : "" },
    el("td", { cls: "name" }, one.name),
    el("td", { cls: "state" }, shape(one.shape, one.tone), one.word),
    el("td", { cls: "exactly" }, one.exactly),
    cell("num", "Last row", one.last), cell("num", "Pace", one.pace), cell("num", "Own cost", one.cost),
    el("td", { cls: "day" }, strip(one)));
}

function cell(cls, name, value) {
  const made = el("td", { cls }, value);
  made.dataset.name = name;
  return made;
}

function strip(one) {
  const filled = one.strip.filter((slot) => slot === "rows").length;
  return el("div", { cls: "strip", role: "img", title: "Quarters of an hour, the newest at the right",
    label: `Data in ${filled} of ${one.strip.length} quarters of an hour of the last day` },
  one.strip.map((slot) => el("i", { cls: slot, title: STRIP[slot] || "nothing ran" })));
}

function lake(lines) {
  return [el("h2", { cls: "section" }, "The lake"),
    el("dl", {}, lines.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))];
}
