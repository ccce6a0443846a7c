// The same data as a table: for screen readers, for copying, for doubt.

import { clock } from "./format.js";
import { el } from "./dom.js";
import { indexAt, valueText } from "./labels.js";

const ROWS = 60;

export function dataTable(data, range) {
  const panels = data.panels.filter((panel) => !panel.reason);
  const head = el("tr", {}, el("th", {}, "UTC"), panels.flatMap((panel) => panel.series.map(
    (series) => el("th", {}, `${panel.title}, ${series.label}, ${panel.unit}`))));
  const step = Math.max((range[1] - range[0]) / ROWS, 1);
  const rows = [];
  for (let at = range[1] - step; at >= range[0]; at -= step) rows.push(row(panels, at));
  return el("div", { cls: "tablebox", role: "region", label: "Panels as a table" },
    el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
}

function row(panels, at) {
  return el("tr", {}, el("td", {}, clock(at)), panels.flatMap((panel) => {
    const i = indexAt(panel, at);
    return panel.series.map((series) => el("td", {}, valueText(series, i, panel.missing)));
  }));
}
