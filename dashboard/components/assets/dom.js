// Builds elements from data. Text goes in as text nodes and nothing else: no name that came from an
// engine, a disk or a URL can become markup.

export function el(tag, options, ...children) {
  const element = document.createElement(tag);
  const { cls, title, role, label, hidden, tip } = options || {};
  if (cls) element.className = cls;
  if (title) element.title = title;
  if (role) element.setAttribute("role", role);
  if (label) element.setAttribute("aria-label", label);
  if (tip) element.dataset.tip = tip;
  if (hidden) element.setAttribute("aria-hidden", "true");
  fill(element, children);
  return element;
}

function fill(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// Runs of text; {b: "..."} is bold, {code: "..."} is code.
export function prose(runs) {
  return runs.map((run) => {
    if (typeof run === "string") return run;
    return run.b !== undefined ? el("b", {}, run.b) : el("code", {}, run.code);
  });
}

// A link inside the dashboard; anything but a plain path of our own is shown as text. A query goes
// along as parameter q: it fills the editor of the SQL page.
export function link(text, path, cls, query) {
  if (!/^[a-z-]*$/.test(path)) return el("span", { cls }, text);
  const anchor = el("a", { cls }, text);
  const target = new URL(path || ".", document.baseURI);
  anchor.href = target.pathname + (query ? `?q=${encodeURIComponent(query)}` : "");
  return anchor;
}

// A link to this page with some parameters changed; an empty text takes one out. Where it leads is
// worked out when it is used: the reader may have changed the range meanwhile.
export function pickLink(text, changes, cls, pick) {
  const anchor = el("a", { cls }, text);
  const aim = () => {
    const target = new URL(document.location.href);
    for (const [name, value] of Object.entries(changes)) {
      if (value) target.searchParams.set(name, value);
      else target.searchParams.delete(name);
    }
    anchor.href = target.pathname + target.search;
  };
  aim();
  for (const event of ["pointerdown", "focus"]) anchor.addEventListener(event, aim);
  anchor.addEventListener("click", (event) => {
    aim();
    if (!pick || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    pick(changes);
  });
  return anchor;
}

// Drawn, not typed: fonts without these signs would show a box.
const SHAPES = {
  dot: ["M4 7a3 3 0 1 0 6 0a3 3 0 1 0-6 0Z", true], ring: ["M3 7a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", false],
  dotted: ["M3 7a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", false], triangle: ["M7 2.5L12 11.5H2Z", false],
  barred: ["M3 7a4 4 0 1 0 8 0a4 4 0 1 0-8 0ZM4.2 9.8L9.8 4.2", false],
  cross: ["M3.5 3.5L10.5 10.5M10.5 3.5L3.5 10.5", false],
};

export function shape(name, tone) {
  const space = "http://www.w3.org/2000/svg";
  const [path, filled] = SHAPES[name] || SHAPES.cross;
  const drawn = document.createElementNS(space, "svg");
  drawn.setAttribute("viewBox", "0 0 14 14");
  drawn.setAttribute("class", `shape ${tone}`);
  drawn.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(space, "path");
  line.setAttribute("d", path);
  line.setAttribute("class", filled ? "filled" : name);
  drawn.append(line);
  return drawn;
}

export function button(text, action, cls) {
  const element = el("button", { cls: cls || "btn" }, text);
  element.type = "button";
  element.addEventListener("click", action);
  return element;
}

// Replaces the content only when the data differs, so that focus, selection and scroll survive.
export function once(element, data, build) {
  const text = JSON.stringify(data);
  if (element.dataset.shown === text) return;
  element.dataset.shown = text;
  element.replaceChildren(...[build(data)].flat(Infinity).filter(Boolean));
}
