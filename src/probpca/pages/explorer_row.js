"use strict";
// The features of a row: a bar each, or side by side where they are many.

const MOST_BARS = 30;
const BAR = { width: 560, left: 168, right: 14, top: 6, bottom: 26, line: 24 };
const CURVE = { width: 560, height: 400, left: 50, right: 22, top: 10, bottom: 34, widest: 80 };

/** Names of features have a third of the width at most. */
function fitProfile(place, features) {
  const longest = features.reduce((most, name) => Math.max(most, widthOfText(name)), 10);
  BAR.width = widthOf(place);
  BAR.left = 16 + Math.min(longest, 160, BAR.width / 3);
  CURVE.width = BAR.width;
  CURVE.height = Math.min(400, Math.round(0.8 * CURVE.width));
  CURVE.widest = Math.min(longest, 80);
}

/** Lowest and highest value of any row, or end of its interval, with a margin: the drawing stands still while the point moves. */
function reachOfValues(data, model, own) {
  const unit = inUnits(data, own);
  let [low, high] = [Infinity, -Infinity];
  const see = (value) => {
    if (!Number.isFinite(value)) return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  };
  for (let j = 0; j < model.d; j += 1) [-2, 2].forEach((x) => see(unit(j, x)));
  for (let i = 0; i < model.n; i += 1) {
    model.valuesOf(i).forEach((x, j) => see(unit(j, x)));
    if (model.d <= MOST_BARS) decode(model.loadings, model.latentOf(i)).forEach((x, j) => [-1, 1].forEach((side) => see(unit(j, x + side * data.width * data.noise[j]))));
  }
  const margin = 0.05 * (high - low);
  return [low - margin, high + margin];
}

/** ``shown``: x, the reconstruction at the point; row, values of the chosen row; neighbours, a list of rows. */
function drawProfile(place, data, model, own, reach, shown) {
  const draw = model.d <= MOST_BARS ? drawBars : drawCurve;
  place.replaceChildren(...draw(place, data, model, inUnits(data, own), reach, shown));
}

function drawBars(place, data, model, unit, reach, shown) {
  const height = BAR.top + BAR.bottom + BAR.line * model.d;
  place.setAttribute("viewBox", `0 0 ${BAR.width} ${height}`);
  const x = linear(reach, [BAR.left, BAR.width - BAR.right]);
  const made = valueTicks(fittingNumbers(reach, BAR.width - BAR.left), (value) => ({ x1: x(value), x2: x(value), y1: BAR.top, y2: height - BAR.bottom }), (value) => ({ x: x(value), y: height - 8, "text-anchor": "middle" }));
  const inside = svg("clipPath", { id: "beside-names" });
  inside.append(svg("rect", { x: BAR.left, y: 0, width: BAR.width - BAR.left, height }));
  const marks = svg("g", { "clip-path": "url(#beside-names)" });
  for (let j = 0; j < model.d; j += 1) {
    const middle = BAR.top + BAR.line * (j + 0.5);
    made.push(featureName(data.features[j], BAR.left - 16, { class: "name", x: BAR.left - 8, y: middle + 4, "text-anchor": "end" }));
    marks.append(...bar(data, unit, x, shown, j, middle));
  }
  return [...made, inside, marks];
}

function bar(data, unit, x, shown, j, middle) {
  const half = data.width * data.noise[j];
  const [zero, value, low, high] = [0, shown.x[j], shown.x[j] - half, shown.x[j] + half].map((v) => x(unit(j, v)));
  const made = [
    svg("rect", { class: "bar", x: Math.min(zero, value), width: Math.abs(value - zero), y: middle - 6, height: 12 }),
    svg("line", { class: "whisker", x1: low, x2: high, y1: middle, y2: middle }),
  ];
  for (const neighbour of shown.neighbours) {
    const at = x(unit(j, neighbour.x[j]));
    made.push(svg("line", { class: "neighbour", x1: at, x2: at, y1: middle - 8, y2: middle + 8 }));
  }
  if (Number.isFinite(shown.row[j])) made.push(svg("circle", { class: "cell", cx: x(unit(j, shown.row[j])), cy: middle, r: 5 }));
  return made;
}

/** As much of a name as there is room for; the title has all of it. */
function featureName(name, room, attributes) {
  const made = svg("text", attributes, clipTo(name, room));
  made.append(svg("title", {}, name));
  return made;
}

function valueTicks(values, line, text) {
  return values.flatMap((value) => [svg("line", { class: "axis", ...line(value) }), svg("text", { class: "tick", ...text(value) }, say(value, 3))]);
}

function drawCurve(place, data, model, unit, reach, shown) {
  CURVE.left = 14 + widestOf(roundNumbers(reach, 8));
  const { width, height, left, right, top, bottom } = CURVE;
  place.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const x = linear([0, model.d - 1], [left, width - right]);
  const y = linear(reach, [height - bottom, top]);
  const at = (values) => Array.from(values, (value, j) => `${x(j).toFixed(1)},${y(unit(j, value)).toFixed(1)}`);
  const end = (side) => shown.x.map((value, j) => value + side * data.width * data.noise[j]);
  const made = valueTicks(roundNumbers(reach, 8), (value) => ({ x1: left, x2: width - right, y1: y(value), y2: y(value) }), (value) => ({ x: left - 6, y: y(value) + 4, "text-anchor": "end" }));
  made.push(...featureTicks(data, x, height - bottom + 18));
  made.push(svg("polygon", { class: "band", points: [...at(end(-1)), ...at(end(1)).reverse()].join(" ") }));
  for (const neighbour of shown.neighbours) made.push(svg("polyline", { class: "neighbour", points: at(neighbour.x).join(" ") }));
  const small = model.d > 120;
  made.push(svg("polyline", { class: small ? "curve thin" : "curve", points: at(shown.x).join(" ") }));
  shown.row.forEach((value, j) => {
    if (Number.isFinite(value)) made.push(svg("circle", { class: "cell", cx: x(j), cy: y(unit(j, value)), r: small ? 1.6 : 3.2 }));
  });
  return made;
}

/** Names of some features, as many as have room. */
function featureTicks(data, x, y) {
  const every = Math.ceil((data.features.length * (CURVE.widest + 12)) / (CURVE.width - CURVE.left));
  const some = data.features.map((name, j) => [name, j]).filter(([, j]) => j % every === 0);
  return some.map(([name, j]) => {
    const middle = Math.min(x(j), CURVE.width - CURVE.widest / 2); // the last one stays inside
    return featureName(name, CURVE.widest, { class: "tick", x: middle, y, "text-anchor": "middle" });
  });
}
