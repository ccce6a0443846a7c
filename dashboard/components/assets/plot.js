// One panel: what uPlot is told, and what is drawn beside its lines.

import uPlot from "./uplot.min.js";
import { clock, day, number } from "./format.js";

const AXIS_Y = 40;
const HALF_LABEL = 28;
export const AXIS_X = 22;
const BEYOND = 1e15; // stands for "above the highest bucket"; the plot cuts it off at its edge

const STYLES = {
  p99: { stroke: "ink", width: 1.7 },
  p50: { stroke: "ink2", width: 1.2, dash: [4, 3] },
  p999: { stroke: "ink3", width: 1 },
  main: { stroke: "ink", width: 1.6 },
  second: { stroke: "ink2", width: 1.3, dash: [4, 3] },
  rest: { stroke: "ink3", width: 1 },
};

function look(series) {
  const style = STYLES[series.style] || STYLES.main;
  return { ...style, stroke: series.colour || style.stroke };
}

function alpha(colour, share) {
  return colour + Math.round(share * 255).toString(16).padStart(2, "0");
}

// Columns as uPlot wants them: x, then two per series (upper and lower edge).
export function columns(panel) {
  const { start, step, count } = panel.x;
  const x = Array.from({ length: count }, (_, i) => start + i * step);
  const out = [x];
  const below = new Array(count).fill(0);
  for (const series of panel.series) {
    const [high, low] = series.stack ? stacked(series, below) : edges(series, panel.log);
    out.push(high, low);
  }
  return out;
}

function edges(series, log) {
  const low = series.low || series.high;
  const floor = log ? 1e-6 : 0;
  const high = series.high.map((value, i) => (value === null && low[i] !== null ? BEYOND : value));
  return [high, low.map((value) => (value === null ? null : Math.max(value, floor)))];
}

function stacked(series, below) {
  const low = series.high.map((value, i) => (value === null ? null : below[i]));
  const high = series.high.map((value, i) => (value === null ? null : below[i] + value));
  high.forEach((value, i) => { if (value !== null) below[i] = value; });
  return [high, low];
}

function seriesOptions(panel, colours) {
  const paths = panel.stepped ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear();
  const out = [{}];
  for (const series of panel.series) {
    const style = look(series);
    const stroke = colours[style.stroke];
    const common = { paths, points: { show: lonely, size: 3, fill: stroke, width: 0 } };
    out.push(
      { ...common, width: lineWidth(series, style), dash: style.dash,
        stroke: series.stack ? colours.bg : stroke },
      { paths, points: { show: false }, width: 0, stroke: "transparent" },
    );
  }
  return out;
}

function lineWidth(series, style) {
  if (series.bandOnly) return 0;
  return series.stack ? 1 : style.width;
}

// Dots only where a value has no neighbour to be joined to.
function lonely(u, index) {
  const data = u.data[index];
  for (let i = 0; i < data.length; i += 1) {
    if (data[i] != null && data[i - 1] == null && data[i + 1] == null) return true;
  }
  return false;
}

function bandOptions(panel, colours) {
  return panel.series.flatMap((series, i) => {
    if (!series.low && !series.stack) return [];
    const fill = alpha(colours[look(series).stroke], series.fill);
    return [{ series: [1 + 2 * i, 2 + 2 * i], fill }];
  });
}

// Range of y over what is in view: zero-based, or a whole number of half decades for log axes.
function rangeOf(board, index) {
  return (u) => {
    const panel = board.data.panels[index];
    const [min, max] = visible(u, panel, board.range);
    if (panel.log) return logRange(min, max, panel);
    const top = panel.max || nice(Math.max(max * 1.06, panel.floor || 1e-9));
    return [0, top];
  };
}

// The board's range counts: while uPlot fits y, its own x is still that of the last picture.
function visible(u, panel, [from, to]) {
  let min = Infinity;
  let max = -Infinity;
  for (let s = 1; s < u.data.length; s += 1) {
    u.data[s].forEach((value, i) => {
      if (value === null || value === undefined || value >= BEYOND) return;
      if (u.data[0][i] < from - panel.x.step || u.data[0][i] > to) return;
      if (panel.log && value <= 1e-6) return;
      if (value < min) min = value;
      if (value > max) max = value;
    });
  }
  for (const limit of panel.limits || []) max = Math.max(max, limit.value);
  return [min, max];
}

function logRange(min, max, panel) {
  if (!Number.isFinite(min)) return [1, panel.floor || 100];
  const low = halfDecadeBelow(min * 0.9);
  const high = halfDecadeBelow(max * 1.1) * (Math.log10(max * 1.1) % 1 ? 3.2 : 1);
  return [low, Math.max(high, low * 10)];
}

function halfDecadeBelow(value) {
  const decade = 10 ** Math.floor(Math.log10(value));
  return value >= decade * 3.16 ? decade * 3 : decade;
}

function nice(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * unit >= value * 0.9999);
  return step * unit;
}

function ticks(panel) {
  return (u, axis, min, max) => {
    if (!panel.log) return [0, max / 2, max];
    const out = [];
    for (let decade = 10 ** Math.floor(Math.log10(min)); decade <= max; decade *= 10) {
      for (const factor of [1, 3]) {
        const value = decade * factor;
        if (value >= min * 0.999 && value <= max * 1.001) out.push(value);
      }
    }
    return out.length > 4 ? out.filter((value) => Math.log10(value) % 1 === 0) : out;
  };
}

// A label that would be cut off at the right edge is left out.
function timeTicks(board, values, step) {
  const [from, to] = board.range;
  const edge = to - ((to - from) * HALF_LABEL) / board.width;
  return values.map((value) => {
    if (value > edge) return null;
    if (step >= 3600 && value % 86400 === 0) return day(value);
    return clock(value, step < 60);
  });
}

// The axis is 40 px wide: from 100 000 on numbers are counted in thousands or millions.
function compact(value) {
  if (value >= 1e6) return `${number(value / 1e6)}M`;
  return value >= 1e5 ? `${number(value / 1e3)}k` : number(value);
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800];

// Diagonal lines over a stretch of which nothing is known.
function hatch(u, from, to, colour) {
  const left = Math.max(u.valToPos(from, "x", true), u.bbox.left);
  const right = Math.min(u.valToPos(to, "x", true), u.bbox.left + u.bbox.width);
  if (right - left < 1) return;
  const { ctx } = u;
  const { top, height } = u.bbox;
  const gap = 6 * devicePixelRatio;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  for (let x = Math.floor(left / gap) * gap - height; x < right; x += gap) {
    ctx.moveTo(x, top + height);
    ctx.lineTo(x + height, top);
  }
  ctx.stroke();
  ctx.restore();
}

function rule(u, dash, colour, points) {
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash(dash.map((part) => part * devicePixelRatio));
  ctx.beginPath();
  ctx.moveTo(...points[0]);
  ctx.lineTo(...points[1]);
  ctx.stroke();
  ctx.restore();
}

function drawUnder(board, index) {
  return (u) => {
    const panel = board.data.panels[index];
    for (const gap of panel.gaps || []) hatch(u, gap.from, gap.to, board.colours.hatch);
    const { top, height, left, width } = u.bbox;
    for (const mark of board.data.marks || []) {
      const x = u.valToPos(mark.at, "x", true);
      if (x > left && x < left + width) {
        rule(u, [1, 3], board.colours.ink3, [[x, top - 5], [x, top + height + 5]]);
      }
    }
  };
}

// What of the bold traces lies above a limit, in the colour of a breach.
function fillAbove(u, panel, limit, colour) {
  const { ctx } = u;
  const { left, top, width } = u.bbox;
  const y = u.valToPos(limit, "y", true);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, width, Math.max(0, y - top));
  ctx.clip();
  ctx.fillStyle = alpha(colour, 0.34);
  panel.series.forEach((series, i) => {
    if (series.bold) stretches(u, 1 + 2 * i).forEach((points) => fillDown(u, points, y));
  });
  ctx.restore();
}

// Stretches of a series without a hole, as positions on the canvas.
function stretches(u, index) {
  const out = [[]];
  u.data[index].forEach((value, i) => {
    if (value === null || value === undefined) out.push([]);
    else out.at(-1).push([u.valToPos(u.data[0][i], "x", true), u.valToPos(value, "y", true)]);
  });
  return out.filter((points) => points.length > 1);
}

function fillDown(u, points, y) {
  const { ctx } = u;
  ctx.beginPath();
  ctx.moveTo(points[0][0], y);
  points.forEach(([x, above]) => ctx.lineTo(x, Math.min(above, y)));
  ctx.lineTo(points.at(-1)[0], y);
  ctx.fill();
}

function drawOver(board, index) {
  return (u) => {
    const { left, width } = u.bbox;
    const panel = board.data.panels[index];
    for (const limit of panel.limits || []) {
      const y = u.valToPos(limit.value, "y", true);
      if (limit.breach) fillAbove(u, panel, limit.value, board.colours.bad);
      rule(u, [5, 4], board.colours.ink, [[left, y], [left + width, y]]);
    }
  };
}

// Options of one panel. The board keeps the shared range, theme, data and what to do on events.
export function plotOptions(board, index, size) {
  const panel = board.data.panels[index];
  const { colours } = board;
  const last = index === board.data.panels.length - 1;
  const font = '11.5px "Source Sans", sans-serif';
  const axis = { stroke: colours.ink3, font, ticks: { show: false }, border: { show: false } };
  return {
    ...size,
    pxAlign: 1,
    padding: [6, 0, last ? 0 : 6, 0],
    legend: { show: false },
    select: { show: true },
    cursor: {
      y: false,
      points: { show: false },
      sync: { key: board.key, scales: ["x", null] },
      drag: { x: true, y: false, setScale: false, dist: 5 },
      bind: { dblclick: () => () => { board.zoomTo(null); return null; } },
    },
    scales: {
      x: { time: false, range: () => board.range },
      y: { distr: panel.log ? 3 : 1, range: rangeOf(board, index) },
    },
    axes: [
      { ...axis, size: last ? AXIS_X : 0, gap: 4, space: board.narrow ? 76 : 90, incrs: STEPS,
        values: (u, values, found, space, step) => (last ? timeTicks(board, values, step) : values.map(() => null)),
        grid: { stroke: colours.grid, width: 1 } },
      { ...axis, size: board.narrow ? 34 : AXIS_Y, gap: 6, splits: ticks(panel), filter: (u, values) => values,
        values: (u, values) => values.map(compact), grid: { stroke: colours.grid, width: 1 } },
    ],
    series: seriesOptions(panel, colours),
    bands: bandOptions(panel, colours),
    hooks: {
      drawClear: [drawUnder(board, index)],
      draw: [drawOver(board, index)],
      setCursor: [(u) => board.cursorMoved(u)],
      setSelect: [(u) => board.selected(u)],
    },
  };
}

export function newPlot(options, data, target) {
  return new uPlot(options, data, target);
}
