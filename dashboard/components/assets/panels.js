// All panels on one time axis: one range, one cursor, one zoom. New data keeps all three.

import { button, el, once } from "./dom.js";
import { clock, day, local } from "./format.js";
import { indexAt, lastKnown, placeLabels, titleValues } from "./labels.js";
import { AXIS_X, columns, newPlot, plotOptions } from "./plot.js";
import { dataTable } from "./table.js";
import { applyTheme } from "./theme.js";

const boards = new WeakMap();
const NARROW = 640;
const KEYS = [
  ["← →", "move the cursor one step, ten with Shift"], ["+ −", "zoom in and out"],
  ["0", "whole range again"], ["Drag", "zoom to a stretch"], ["?", "this list"],
];
let boardCount = 0;

export default function render(component) {
  const { data, parentElement, setTriggerValue } = component;
  let board = boards.get(parentElement);
  if (!board) {
    board = new Board(parentElement);
    boards.set(parentElement, board);
  }
  // A trigger and not a state: back to the whole range must be heard also when the zoom came from
  // the URL and no state was ever set.
  board.send = (zoom) => setTriggerValue("zoom", zoom);
  board.show(data);
  return () => board.closeSoon();
}

class Board {
  constructor(parent) {
    boardCount += 1;
    this.key = `stallscope-${boardCount}`;
    this.parent = parent;
    this.plots = [];
    this.rows = [];
    this.zoom = undefined;
    this.at = null;
    this.built = "";
    this.root = el("div", { cls: "board" });
    this.root.tabIndex = 0;
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "Panels on one time axis. Press ? for keys.");
    this.lane = el("div", { cls: "lane" });
    this.body = el("div", { cls: "body" });
    this.time = el("div", { cls: "time", hidden: true });
    this.foot = el("div", { cls: "foot" });
    this.below = el("div", {});
    this.root.append(this.lane, this.body, this.time, this.foot, this.below);
    parent.append(this.root);
    this.root.addEventListener("keydown", (event) => this.keyPressed(event));
    this.root.addEventListener("mouseleave", () => this.moveTo(null));
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.root);
  }

  show(data) {
    clearTimeout(this.closing);
    this.data = data;
    if (this.zoom === undefined) this.zoom = data.zoom || null;
    // A reply to an older question must not move the range under the reader's hands.
    if (!this.range || Boolean(data.zoom) === Boolean(this.zoom)) this.range = data.range;
    this.colours = applyTheme(this.root);
    this.layOut();
  }

  // Everything that a plot cannot change once it stands.
  signature() {
    const panels = this.data.panels.map((panel) => [
      panel.key, panel.title, panel.unit, panel.sub, panel.height, panel.log, panel.max,
      panel.stepped, panel.reason, panel.limits,
      panel.series.map((s) => [
        s.label, s.style, s.colour, s.fill, s.bandOnly, s.stack, Boolean(s.low),
      ]),
    ]);
    return JSON.stringify([this.colours.name, this.width, panels]);
  }

  layOut() {
    this.width = Math.floor(this.root.clientWidth);
    if (!this.width) return;
    this.narrow = this.width < NARROW;
    this.root.classList.toggle("narrow", this.narrow);
    const signature = this.signature();
    if (signature === this.built) this.refresh();
    else this.build(signature);
    this.drawFoot();
  }

  build(signature) {
    this.plots.forEach((plot) => plot && plot.destroy());
    this.plots = [];
    this.rows = this.data.panels.map((panel) => this.row(panel));
    this.body.replaceChildren(...this.rows.map((row) => row.element));
    this.data.panels.forEach((panel, index) => this.fillRow(panel, index));
    this.built = signature;
    this.labelSoon();
  }

  row(panel) {
    const sub = el("span", { cls: "sub" });
    const now = el("span", { cls: "now" });
    const gutter = el("div", { cls: "gutter" },
      el("b", {}, panel.title), el("span", { cls: "unit" }, panel.unit), sub, now);
    const plot = el("div", { cls: "plot" });
    const values = el("div", { cls: "values" });
    const element = el("div", { cls: "row" }, gutter, plot, values);
    return { element, plot, values, sub, now };
  }

  fillRow(panel, index) {
    const { plot } = this.rows[index];
    const height = panel.height + (index === this.data.panels.length - 1 ? AXIS_X : 0);
    plot.style.height = `${height}px`;
    if (panel.reason) {
      plot.append(el("div", { cls: "reason" }, panel.reason));
      this.plots.push(null);
      return;
    }
    plot.setAttribute("role", "img");
    const size = { width: plot.clientWidth, height };
    this.plots.push(newPlot(plotOptions(this, index, size), columns(panel), plot));
  }

  refresh() {
    this.data.panels.forEach((panel, index) => {
      const plot = this.plots[index];
      if (!plot) return;
      plot.setData(columns(panel), false);
      plot.setScale("x", { min: this.range[0], max: this.range[1] });
    });
    this.labelSoon();
  }

  // uPlot fits its scales after the current task; positions asked for before that are those of
  // the last picture.
  labelSoon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.updateLabels();
      this.drawLane();
    });
  }

  updateLabels() {
    this.data.panels.forEach((panel, index) => {
      const { plot, values, sub, now } = this.rows[index];
      plot.setAttribute("aria-label", panel.alt);
      const gap = this.gapAt(panel);
      sub.textContent = gap ? gap.reason : panel.sub;
      sub.classList.toggle("warn", Boolean(gap));
      const drawn = this.plots[index];
      if (!drawn) return;
      const i = this.at === null ? lastKnown(panel, this.range[1]) : indexAt(panel, this.at);
      if (this.narrow) now.textContent = titleValues(panel, i);
      else placeLabels(values, drawn, panel, i, this.colours);
    });
    this.drawTime();
  }

  gapAt(panel) {
    if (this.at === null) return null;
    return (panel.gaps || []).find((gap) => this.at >= gap.from && this.at < gap.to) || null;
  }

  drawTime() {
    const plot = this.plots.filter(Boolean).at(-1);
    this.time.hidden = this.at === null || !plot;
    if (this.time.hidden) return;
    const left = plot.root.getBoundingClientRect().left - this.root.getBoundingClientRect().left;
    this.time.textContent = clock(this.at);
    this.time.title = local(this.at);
    this.time.style.left = `${left + plot.bbox.left / devicePixelRatio + plot.valToPos(this.at, "x")}px`;
    this.time.style.top = `${this.body.offsetTop + this.body.offsetHeight - AXIS_X + 2}px`;
  }

  // Changes stand above the panels as diamonds; their dotted rule runs through all of them.
  drawLane() {
    const marks = (this.data.marks || []).filter(
      (mark) => mark.at >= this.range[0] && mark.at <= this.range[1]);
    const plot = this.plots.find(Boolean);
    this.lane.hidden = !marks.length || !plot;
    if (this.lane.hidden) return;
    const box = plot.root.getBoundingClientRect().left - this.root.getBoundingClientRect().left;
    const left = box + plot.bbox.left / devicePixelRatio;
    const right = left + plot.bbox.width / devicePixelRatio;
    this.lane.replaceChildren(el("b", {}, this.data.lane || "Changes"), ...marks.map((mark) => {
      const x = left + plot.valToPos(mark.at, "x");
      const item = el("span", { cls: "mark", title: `${mark.label}, ${clock(mark.at)} UTC` },
        el("i", { cls: "diamond", hidden: true }), el("span", {}, mark.label));
      if (x > (left + right) / 2) item.classList.add("left");
      item.style.left = `${x}px`;
      return item;
    }));
  }

  drawFoot() {
    const zoomed = Boolean(this.zoom);
    const text = zoomed
      ? `${day(this.range[0])}, ${clock(this.range[0])} to ${clock(this.range[1])} UTC`
      : "";
    once(this.foot, [this.data.note, text, this.tableOpen, this.helpOpen], () => [
      el("span", { cls: "note" }, this.data.note, text ? ` ${text}` : ""),
      zoomed ? button("Whole range", () => this.zoomTo(null), "quiet") : null,
      button(this.tableOpen ? "Hide table" : "Show as table", () => this.toggle("tableOpen"), "quiet"),
      button("Keys", () => this.toggle("helpOpen"), "quiet"),
    ].filter(Boolean));
    this.below.replaceChildren(
      this.helpOpen ? el("dl", { cls: "keys" }, KEYS.map(([key, does]) => [
        el("dt", {}, key), el("dd", {}, does)])) : "",
      this.tableOpen ? dataTable(this.data, this.range) : "");
  }

  toggle(what) {
    this[what] = !this[what];
    this.drawFoot();
  }

  cursorMoved(plot) {
    const { left } = plot.cursor;
    const at = left === null || left === undefined || left < 0 ? null : plot.posToVal(left, "x");
    if (at === this.at) return;
    this.at = at;
    this.labelSoon();
  }

  moveTo(at) {
    const plot = this.plots.find(Boolean);
    if (!plot) return;
    const left = at === null ? -10 : plot.valToPos(at, "x");
    plot.setCursor({ left, top: at === null ? -10 : 4 }, true, true);
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 5) return;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    const zoom = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    clearTimeout(this.zooming);
    // All panels report the same drag; one of them is enough.
    this.zooming = setTimeout(() => this.zoomTo(zoom), 0);
  }

  zoomTo(zoom) {
    const wide = zoom && zoom[1] - zoom[0] < 2 ? [zoom[0], zoom[0] + 2] : zoom;
    this.zoom = wide;
    if (wide) this.range = wide;
    this.send(wide ? wide.map((seconds) => Math.round(seconds * 1e6)) : []);
    this.layOut();
  }

  scaleBy(factor) {
    const middle = this.at === null ? (this.range[0] + this.range[1]) / 2 : this.at;
    const half = ((this.range[1] - this.range[0]) * factor) / 2;
    this.zoomTo([middle - half, middle + half]);
  }

  keyPressed(event) {
    if (event.target !== this.root || event.ctrlKey || event.metaKey || event.altKey) return;
    const panel = this.data.panels.find((candidate) => !candidate.reason);
    if (!panel) return;
    const stride = panel.x.step * (event.shiftKey ? 10 : 1);
    const from = this.at === null ? this.range[1] - panel.x.step : this.at;
    const clamp = (at) => Math.max(this.range[0], Math.min(this.range[1] - 1e-3, at));
    const actions = {
      ArrowLeft: () => this.moveTo(clamp(from - stride)),
      ArrowRight: () => this.moveTo(clamp(from + stride)),
      "+": () => this.scaleBy(0.5), "=": () => this.scaleBy(0.5), "-": () => this.scaleBy(2),
      0: () => this.zoomTo(null), "?": () => this.toggle("helpOpen"),
      Escape: () => this.moveTo(null),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  resized() {
    if (this.data && Math.floor(this.root.clientWidth) !== this.width) this.layOut();
  }

  // Streamlit may call the cleanup of a run that a newer run has replaced already.
  closeSoon() {
    this.closing = setTimeout(() => {
      if (this.root.isConnected) return;
      this.observer.disconnect();
      this.plots.forEach((plot) => plot && plot.destroy());
      boards.delete(this.parent);
    }, 1000);
  }
}
