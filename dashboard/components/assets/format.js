// Numbers and times at the cursor. The same rules as formats.py, held equal by a test.

const THIN = "\u202f";
const MINUS = "\u2212";

function decimals(size) {
  return size === 0 || size >= 100 ? 0 : 2 - Math.floor(Math.log10(size));
}

export function number(value) {
  const size = Math.abs(value);
  const rounded = Number(size.toFixed(decimals(size)));
  let text = rounded.toFixed(decimals(rounded));
  if (text.includes(".")) text = text.replace(/0+$/, "").replace(/\.$/, "");
  const [whole, fraction] = text.split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  const joined = fraction ? `${grouped}.${fraction}` : grouped;
  return value < 0 && rounded ? MINUS + joined : joined;
}

// What lies between two edges; null above the highest one.
export function interval(lower, upper) {
  if (upper === null) return `> ${number(lower)}`;
  const high = number(upper);
  if (lower <= 0) return `≤ ${high}`;
  const low = number(lower);
  return low === high ? high : `${low}–${high}`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (value) => String(value).padStart(2, "0");

// A moment in UTC, 24 hours.
export function clock(seconds, withSeconds = true) {
  const moment = new Date(seconds * 1000);
  const text = `${two(moment.getUTCHours())}:${two(moment.getUTCMinutes())}`;
  return withSeconds ? `${text}:${two(moment.getUTCSeconds())}` : text;
}

export function day(seconds) {
  const moment = new Date(seconds * 1000);
  return `${moment.getUTCDate()} ${MONTHS[moment.getUTCMonth()]}`;
}

// The reader's own time, for hover.
export function local(seconds) {
  return new Date(seconds * 1000).toLocaleString("en-GB", {
    hourCycle: "h23", timeZoneName: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
    day: "numeric", month: "short",
  });
}

// Seconds since something, as `formats.duration`.
export function duration(seconds) {
  if (seconds < 9.95) return `${number(Math.round(Math.max(0, seconds) * 10) / 10)}\u00a0s`;
  const whole = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => whole >= size);
  const [size, unit] = parts[first];
  const text = `${Math.floor(whole / size)}\u00a0${unit}`;
  if (first === 3) return text;
  const [nextSize, nextUnit] = parts[first + 1];
  const rest = Math.floor((whole % size) / nextSize);
  if (!rest) return text;
  return `${text}\u00a0${nextUnit === "min" ? two(rest) : rest}\u00a0${nextUnit}`;
}
