"use strict";
// The plane of two components: axes, rows in the colours of their group, and the point that is dragged.

const PLANE = { width: 560, height: 480, left: 44, right: 12, top: 10, bottom: 40 };
const NARROWEST = 260;

/** The width that an element has on the screen, in pixels. */
function widthOf(place) {
  return Math.max(place.clientWidth, NARROWEST);
}

function fitPlane(plane, q) {
  PLANE.width = widthOf(plane);
  PLANE.height = q === 1 ? 180 : Math.min(480, Math.round(0.9 * PLANE.width));
  plane.setAttribute("viewBox", `0 0 ${PLANE.width} ${PLANE.height}`);
}

function svg(tag, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== "") made.textContent = text;
  return made;
}

/** A linear map between two intervals, and back. */
function linear(from, to) {
  const slope = (to[1] - to[0]) / (from[1] - from[0]);
  const map = (value) => to[0] + (value - from[0]) * slope;
  map.invert = (place) => from[0] + (place - to[0]) / slope;
  return map;
}

/** About so many round numbers in an interval. */
function roundNumbers([low, high], count = 6) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((lead) => lead * power).find((size) => size >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) found.push(k * step);
  return found;
}

/** How wide the widest number is when it is written. */
function widestOf(values) {
  return Math.max(...values.map((value) => widthOfText(say(value, 3))));
}

/** As many round numbers as have room side by side, in pixels. */
function fittingNumbers(reach, room) {
  let found = [];
  for (let count = 8; count >= 2; count -= 1) {
    found = roundNumbers(reach, count);
    if (found.length * (widestOf(found) + 12) <= room) break;
  }
  return found;
}

/** The range of a component: its rows with a margin, and at least three standard deviations. */
function reachOf(model, k) {
  let [low, high] = [-3.2, 3.2];
  for (let i = 0; i < model.n; i += 1) {
    low = Math.min(low, model.latentOf(i)[k] * 1.08);
    high = Math.max(high, model.latentOf(i)[k] * 1.08);
  }
  return [low, high];
}

function planeScales(model, a, b) {
  const up = model.q === 1 ? [-1, 1] : reachOf(model, b);
  PLANE.left = 30 + widestOf(roundNumbers(up, 8));
  const { width, height, left, right, top, bottom } = PLANE;
  return {
    x: linear(reachOf(model, a), [left, width - right]),
    y: linear(up, [height - bottom, top]),
    across: reachOf(model, a),
    up,
  };
}

function planeAxes(scales, words) {
  const { width, height, left, right, top, bottom } = PLANE;
  const made = svg("g", { "aria-hidden": "true" });
  for (const value of fittingNumbers(scales.across, width - left)) {
    const x = scales.x(value);
    made.append(svg("line", { class: "axis", x1: x, x2: x, y1: top, y2: height - bottom }));
    made.append(svg("text", { class: "tick", x, y: height - bottom + 16, "text-anchor": "middle" }, say(value, 3)));
  }
  for (const value of words.up ? roundNumbers(scales.up, 8) : []) {
    const y = scales.y(value);
    made.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: y, y2: y }));
    made.append(svg("text", { class: "tick", x: left - 6, y: y + 4, "text-anchor": "end" }, say(value, 3)));
  }
  const middle = (top + height - bottom) / 2;
  made.append(svg("text", { class: "tick", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, words.across));
  made.append(svg("text", { class: "tick", x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, words.up));
  return made;
}

function planeRows(model, scales, a, b, lookOfRow) {
  const made = svg("g", { "aria-hidden": "true" });
  const size = model.n > 5000 ? 2.2 : 4;
  for (let i = 0; i < model.n; i += 1) {
    const z = model.latentOf(i);
    const { colour, shape, group } = lookOfRow(i);
    const [x, y] = [scales.x(z[a]), scales.y(model.q === 1 ? 0 : z[b])];
    const point = svg("path", { class: "point", d: shape, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${size})`, "data-row": i });
    point.style.fill = colour;
    point.append(svg("title", {}, group ? `${model.names[i]}: ${group}` : model.names[i]));
    made.append(point);
  }
  return made;
}

function makeHandle(noun) {
  const handle = svg("g", { id: "handle", tabindex: 0, role: "slider", "aria-label": `The point in the plane of two ${noun}s; arrow keys move it` });
  handle.append(svg("circle", { r: 9 }));
  return handle;
}

/** Where a pointer is, in the coordinates of the drawing. */
function pointerPlace(plane, event) {
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(plane.getScreenCTM().inverse());
  return [place.x, place.y];
}

/** Tell where the pointer goes while it is down; a click on a row chooses it. */
function listenToPlane(plane, move, choose) {
  let dragging = false;
  plane.addEventListener("pointerdown", (event) => {
    if (event.target.dataset.row !== undefined) {
      choose(Number(event.target.dataset.row));
      return;
    }
    dragging = true;
    plane.setPointerCapture(event.pointerId);
    move(...pointerPlace(plane, event));
    plane.querySelector("#handle").focus({ preventScroll: true, focusVisible: false });
    event.preventDefault();
  });
  plane.addEventListener("pointermove", (event) => {
    if (dragging) move(...pointerPlace(plane, event));
  });
  for (const end of ["pointerup", "pointercancel"]) plane.addEventListener(end, () => (dragging = false));
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

function listenToKeys(plane, step, home) {
  plane.addEventListener("keydown", (event) => {
    if (event.key === "Home") home();
    else if (event.key in STEPS) step(...STEPS[event.key].map((by) => by * (event.shiftKey ? 0.5 : 0.1)));
    else return;
    event.preventDefault();
  });
}
