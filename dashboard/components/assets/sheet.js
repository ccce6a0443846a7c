// A heading, a sentence, figures, a table and what to know about them; every part may be missing.

import { el, link, once, pickLink, prose, shape } from "./dom.js";
import { applyTheme } from "./theme.js";

const boxes = new WeakMap();
const DASH = "–"; // nothing to say: a phone leaves such a cell out

export default function render({ data, parentElement, setTriggerValue }) {
  let root = boxes.get(parentElement);
  if (!root) {
    root = el("section", { cls: "sheet" });
    boxes.set(parentElement, root);
    parentElement.append(root);
    if (data.arrives) arrive(root);
  }
  root.pick = (changes) => setTriggerValue("pick", changes);
  applyTheme(root);
  if (data.title) root.setAttribute("aria-label", data.title);
  // Each part by itself: a new figure must not take the focus from a link or the scroll from a table.
  const parts = [
    [[data.title, data.aside], () => heading(data)],
    [data.text, () => (data.text || []).map(paragraph)],
    [data.figures, () => figures(data.figures || [])],
    [data.table, () => (data.table ? table(root, data.table) : [])],
    [data.notes, () => (data.notes || []).map((runs) => el("p", { cls: "note" }, prose(runs)))],
    [data.links, () => links(root, data.links || [])],
  ];
  while (root.children.length < parts.length) root.append(el("div", {}));
  parts.forEach(([shown, build], i) => once(root.children[i], shown || null, build));
}

// What stood on the page before is taken away bit by bit: where a place is, is settled only then.
function arrive(root) {
  for (const later of [0, 250, 700]) {
    setTimeout(() => {
      const { top } = root.getBoundingClientRect();
      if (top < 60 || top > window.innerHeight / 2) root.scrollIntoView({ block: "start" });
    }, later);
  }
}

function heading(data) {
  return data.title
    ? [el("h2", {}, data.title, data.aside ? el("span", { cls: "aside" }, data.aside) : null)]
    : [];
}

function paragraph(one) {
  return el("p", { cls: one.tone ? "text warns" : "text" },
    one.word ? el("span", { cls: "word" }, one.tone === "warn" ? "● " : "", one.word) : null,
    prose(one.runs));
}

function figures(list) {
  if (!list.length) return [];
  return [el("dl", { cls: "figures" }, list.map((one) => el("div", { title: one.tip },
    el("dt", {}, one.name), el("dd", { cls: "fig" }, one.value), el("dd", { cls: "under" }, one.under))))];
}

function table(root, data) {
  if (!data.rows.length) return [el("p", { cls: "note" }, data.empty)];
  const classes = data.heads.map((head) => (head.num ? "num" : head.wide ? "wide" : ""));
  return [el("table", {},
    el("thead", {}, el("tr", {}, data.heads.map((head, i) => el("th", { cls: classes[i] }, head.text)))),
    el("tbody", {}, data.rows.map((row) => el("tr", { cls: row.quiet ? "quiet" : "" },
      row.cells.map((one, i) => cell(root, one, classes[i], data.heads[i].text, i))))))];
}

function cell(root, one, cls, name, place) {
  const made = el("td", { cls: `${cls} ${place ? "" : "name"} ${one.text === DASH ? "none" : ""}` },
    el("span", { cls: "value" }, one.shape ? shape(one.shape, one.tone || "") : null,
      picked(root, one, "pick") || el("span", { cls: one.tone || "" }, one.text),
      one.sub ? el("span", { cls: "sub" }, one.sub) : null));
  made.dataset.name = name;
  if (one.indent) made.style.setProperty("--indent", one.indent);
  return made;
}

function picked(root, one, cls) {
  if (!one.pick || !Object.keys(one.pick).length) return null;
  return pickLink(one.text, one.pick, cls, (changes) => root.pick(changes));
}

function links(root, list) {
  if (!list.length) return [];
  return [el("div", { cls: "links" }, list.map(
    (one) => picked(root, one, "btn") || link(one.text, one.page, "btn", one.query)))];
}
