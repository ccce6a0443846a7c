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

// A link inside the dashboard; anything but a plain path of our own is shown as text.
export function link(text, path, cls) {
  if (!/^[a-z-]*$/.test(path)) return el("span", { cls }, text);
  const anchor = el("a", { cls }, text);
  anchor.href = new URL(path || ".", document.baseURI).pathname;
  return anchor;
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
