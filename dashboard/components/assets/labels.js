// Names and values at the right end of the lines, pushed apart; at the cursor when there is one.

import { interval, number } from "./format.js";
import { el } from "./dom.js";

const LINE = 14;
const IN_TITLE = 3;

export function indexAt(panel, seconds) {
  const { start, step, count } = panel.x;
  const index = Math.floor((seconds - start) / step + 1e-9);
  return index >= 0 && index < count ? index : -1;
}

// The last index in view at which the panel knows something.
export function lastKnown(panel, until) {
  for (let i = Math.min(indexAt(panel, until - 1e-6), panel.x.count - 1); i >= 0; i -= 1) {
    if (panel.series.some((series) => known(series, i))) return i;
  }
  return panel.x.count - 1;
}

function known(series, i) {
  return series.high[i] !== null || Boolean(series.low && series.low[i] !== null);
}

export function valueText(series, i, missing) {
  if (i < 0 || !known(series, i)) return missing;
  if (series.interval) return interval(series.low[i], series.high[i]);
  return number(series.high[i]);
}

// Layers of a stack are named at their middle, lines at their value.
function positionOf(plot, series, column, i) {
  const high = plot.data[1 + 2 * column][i];
  const low = plot.data[2 + 2 * column][i];
  const value = series.stack && high !== null && high !== undefined ? (high + low) / 2 : high;
  if (value === null || value === undefined) return plot.height / 2;
  const y = plot.valToPos(value, "y");
  return Math.max(4, Math.min(plot.bbox.height / devicePixelRatio, y));
}

function pushApart(items, height) {
  items.sort((a, b) => a.y - b.y);
  if (items.length) items[0].y = Math.max(items[0].y, LINE / 2);
  for (let i = 1; i < items.length; i += 1) {
    items[i].y = Math.max(items[i].y, items[i - 1].y + LINE);
  }
  for (let i = items.length - 1, limit = height - LINE / 2; i >= 0; i -= 1, limit -= LINE) {
    items[i].y = Math.min(items[i].y, limit);
  }
}

function swatch(series, colours) {
  if (!series.colour) return null;
  const mark = el("i", { cls: "sw", hidden: true });
  mark.style.background = colours[series.colour];
  mark.style.opacity = series.fill && series.fill > 0.2 ? series.fill : 1;
  return mark;
}

// Wide: one absolutely placed line per series.
export function placeLabels(host, plot, panel, i, colours) {
  const items = panel.series.map((series, n) => ({
    y: positionOf(plot, series, n, i), cls: series.bold ? "lv bold" : "lv", label: series.label,
    mark: swatch(series, colours), value: valueText(series, i, panel.missing),
  }));
  for (const limit of panel.limits || []) {
    items.push({
      y: plot.valToPos(limit.value, "y"), cls: "lv", label: limit.label, mark: null,
      value: number(limit.value),
    });
  }
  pushApart(items, plot.height - plot.axes[0]._size);
  host.replaceChildren(...items.map(({ y, cls, label, mark, value }) => {
    const row = el("div", { cls, title: label },
      mark, el("span", { cls: "ln" }, label), el("span", { cls: "vv" }, value));
    row.style.top = `${y - LINE / 2 + 1}px`;
    return row;
  }));
}

// Narrow: the values that matter most in the title line; traces come with the most important last.
export function titleValues(panel, i) {
  const shown = panel.series.filter((series) => !series.bandOnly);
  const bold = shown.filter((series) => series.bold);
  return [...bold, ...shown.filter((series) => !series.bold).reverse()].slice(0, IN_TITLE)
    .map((series) => `${series.label} ${valueText(series, i, panel.missing)}`)
    .join(", ");
}
