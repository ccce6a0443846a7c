// Colours of both themes, and which of the two the page is in.

const SHARED = {
  dark: {
    bg: "#0E1217", s1: "#141A20", s2: "#1B222A", line: "#29323C", line2: "#3A4550",
    ink: "#E8ECF1", ink2: "#AEB8C4", ink3: "#8C98A6", grid: "#FFFFFF12", hatch: "#FFFFFF1C",
    bad: "#FF6B5E", badbg: "#2B1716", warn: "#F0B429", warnbg: "#2A2113", ok: "#4CC38A",
    h2d_copy: "#5460E6", d2h_copy: "#D0E2FC", weight_offload: "#A2C2FF", link_degraded: "#17C8C8",
    kv_reload: "#DB7408", nvme_latency: "#F8E52A", nvme_queue: "#B33C02", load: "#2F6F52",
    prefill: "#8DC461", preemption: "#089566", throttle: "#F45075", numa: "#8A5186",
    host_cpu: "#C98EFF", api_stall: "#BC60C2", unexplained: "#8E99A6",
  },
  light: {
    bg: "#FFFFFF", s1: "#F7F8FA", s2: "#ECEFF3", line: "#DCE1E7", line2: "#B9C2CC",
    ink: "#161B21", ink2: "#47525E", ink3: "#626E7B", grid: "#0B152012", hatch: "#0B152020",
    bad: "#C4281C", badbg: "#FCEAE8", warn: "#8A5A00", warnbg: "#FCF2DC", ok: "#17794A",
    h2d_copy: "#4F46D0", d2h_copy: "#8EA5E2", weight_offload: "#3485FB", link_degraded: "#00B3A0",
    kv_reload: "#BF6200", nvme_latency: "#CBB200", nvme_queue: "#880003", load: "#004B36",
    prefill: "#5AA845", preemption: "#0B7C59", throttle: "#D32E5A", numa: "#573269",
    host_cpu: "#AB60C8", api_stall: "#8F1D98", unexplained: "#77828F",
  },
};

// Streamlit hands its theme down as custom properties; the background tells which one it is.
export function themeName(element) {
  const colour = getComputedStyle(element).getPropertyValue("--st-background-color").trim();
  const match = /^#?([0-9a-f]{6})/i.exec(colour);
  if (match) {
    const value = parseInt(match[1], 16);
    return ((value >> 16) & 255) + ((value >> 8) & 255) + (value & 255) < 384 ? "dark" : "light";
  }
  const parts = colour.match(/\d+/g);
  return parts && Number(parts[0]) < 128 ? "dark" : "light";
}

// Sets the colours as custom properties on an element and returns them.
export function applyTheme(element) {
  const name = themeName(element);
  const colours = SHARED[name];
  for (const [key, value] of Object.entries(colours)) {
    element.style.setProperty(`--${key.replace(/_/g, "-")}`, value);
  }
  element.dataset.theme = name;
  return { name, ...colours };
}
