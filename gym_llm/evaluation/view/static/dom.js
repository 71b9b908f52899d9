// Elements from names, attributes and children. A string becomes a text node, and nothing is ever parsed as markup:
// that, and not a filter, is why what a model wrote does nothing here.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") for (const [property, set] of Object.entries(value)) element.style.setProperty(property, set);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An HTML element: `h("p", {class: "note", on: {click}}, "text", child)`. Names come from our own code only. */
export function h(name, attributes, ...children) {
  return build(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes, ...children) {
  return build(document.createElementNS(SVG, name), attributes, children);
}

/** A button of the page. */
export function button(label, click, attributes) {
  return h("button", { type: "button", ...attributes, on: { click } }, label);
}

/** Calls `fill` once, when the element comes near the window. */
export function whenNear(element, fill) {
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      fill();
    },
    { rootMargin: "600px" },
  );
  observer.observe(element);
  return element;
}

/** A function that runs at most once per frame, however often it is called. */
export function oncePerFrame(run) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      run();
    });
  };
}

/** Calls `draw` with an element's width when it is not the one that `drawn` returns, at most once per frame. */
export function onNewWidth(element, drawn, draw) {
  const fit = oncePerFrame(() => {
    const width = element.clientWidth;
    if (width && width !== drawn()) draw(width);
  });
  new ResizeObserver(fit).observe(element);
}

/** The pen of a canvas that is given this size, in pixels of the page; it is as sharp as the screen. */
export function penOf(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  Object.assign(canvas, { width: width * scale, height: height * scale });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  return pen;
}
