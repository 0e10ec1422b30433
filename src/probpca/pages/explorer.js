"use strict";
// The page: one point among the components, one chosen row, and their reconstructions.

const MOST_SLIDERS = 12;
const N_DRAWS = 8;
const data = readData();
const model = openModel(data);
const plane = document.getElementById("plane");
const handle = makeHandle(data.noun);
const groups = openGroups(data);
const state = { z: new Float64Array(model.q), row: data.first, group: groups.length ? 0 : -1, a: 0, b: Math.min(1, model.q - 1), own: data.sameUnits, round: 0, draws: [] };
const pixels = data.imageShape ? reachOfPixels(data, model) : null;
let reach = reachOfValues(data, model, state.own);
let scales = planeScales(model, state.a, state.b);

function sayComponent(k) {
  return `${data.componentNames[k]} (${say(100 * data.ratio[k], 3)}%)`;
}

/** Drawings are as wide as the room they have, so that their letters keep their size. */
function drawPlane() {
  fitPlane(plane, model.q);
  fitProfile(document.getElementById("profile"), data.features);
  scales = planeScales(model, state.a, state.b);
  const words = { across: sayComponent(state.a), up: model.q === 1 ? "" : sayComponent(state.b) };
  const chosen = svg("g", { id: "chosen", "aria-hidden": "true" });
  plane.replaceChildren(planeAxes(scales, words), planeRows(model, scales, state.a, state.b, lookOfRow), chosen, handle);
  markRow();
  show();
}

/** Colour, shape and group of a row. */
function lookOfRow(i) {
  if (state.group < 0) return { colour: "var(--row)", shape: CIRCLE, group: "" };
  return { ...groups[state.group].lookOf(i), group: groups[state.group].sayOf(i) };
}

function placeOf(z) {
  return [scales.x(z[state.a]), scales.y(model.q === 1 ? 0 : z[state.b])];
}

/** A ring around the chosen row, and where its neighbours were drawn. */
function markRow() {
  const marks = state.draws.map(({ z }) => {
    const [x, y] = placeOf(z);
    return svg("path", { class: "draw", d: `M${x} ${y - 5}l5 5l-5 5l-5 -5z` });
  });
  const [cx, cy] = placeOf(model.latentOf(state.row));
  marks.push(svg("circle", { class: "ring", cx, cy, r: 13 }));
  document.getElementById("chosen").replaceChildren(...marks);
}

/** Everything that follows the point. */
function show() {
  const x = decode(model.loadings, state.z);
  const row = model.valuesOf(state.row);
  handle.setAttribute("transform", `translate(${placeOf(state.z).join(" ")})`);
  handle.setAttribute("aria-valuenow", state.z[state.a].toFixed(2));
  handle.setAttribute("aria-valuetext", sayPoint());
  showSliders();
  if (pixels) showPictures(x, row);
  else drawProfile(document.getElementById("profile"), data, model, state.own, reach, { x, row, neighbours: state.draws });
  document.getElementById("profile").setAttribute("aria-label", `Reconstruction at the point. ${sayPoint()}`);
  if (document.getElementById("numbers").open) listNumbers();
}

function sayPoint() {
  const parts = [`${data.componentNames[state.a]}: ${say(state.z[state.a], 3)}`];
  if (model.q > 1) parts.push(`${data.componentNames[state.b]}: ${say(state.z[state.b], 3)}`);
  return parts.join(", ");
}

function showPictures(x, row) {
  const unit = inUnits(data, true);
  const own = (values) => Array.from(values, (value, j) => unit(j, value));
  paint(document.getElementById("picture"), data.imageShape, own(x), pixels);
  document.getElementById("picture").setAttribute("aria-label", `Reconstruction at the point, as an image. ${sayPoint()}`);
  paint(document.getElementById("row-picture"), data.imageShape, own(row), pixels);
  const name = model.names[state.row];
  document.getElementById("row-picture").setAttribute("aria-label", `The chosen row, ${name}, as an image`);
  write("row-caption", `the chosen row: ${name}`);
}

function showNeighbourPictures() {
  const unit = inUnits(data, true);
  const made = state.draws.map(({ x }, k) => {
    const canvas = element("canvas", "", { role: "img", class: "neighbour-picture", "aria-label": `Neighbour ${k + 1} of the chosen row` });
    paint(canvas, data.imageShape, Array.from(x, (value, j) => unit(j, value)), pixels);
    return canvas;
  });
  document.getElementById("neighbour-pictures").replaceChildren(...made);
}

/** All values in the units of the data, for eyes and for screen readers. */
function listNumbers() {
  const unit = inUnits(data, true);
  const x = decode(model.loadings, state.z);
  const row = model.valuesOf(state.row);
  const head = ["column", "reconstruction", "95% from", "to", "chosen row", ...state.draws.map((_, k) => `neighbour ${k + 1}`)];
  document.getElementById("number-head").replaceChildren(...head.map((text) => element("th", text, { scope: "col" })));
  const lines = data.features.map((name, j) => {
    const half = data.width * data.noise[j];
    const values = [x[j], x[j] - half, x[j] + half, row[j], ...state.draws.map((draw) => draw.x[j])];
    const line = document.createElement("tr");
    line.append(element("th", name, { scope: "row", title: name }), ...values.map((value) => element("td", say(unit(j, value), 5) || "missing")));
    return line;
  });
  document.getElementById("number-table").replaceChildren(...lines);
}

function moveTo(across, up) {
  const within = (value, [low, high]) => Math.min(Math.max(value, low), high);
  state.z[state.a] = within(across, scales.across);
  if (model.q > 1 && state.a !== state.b) state.z[state.b] = within(up, scales.up);
  show();
}

function toMean() {
  state.z.fill(0);
  show();
}

function choose(row) {
  state.row = row;
  state.z = Float64Array.from(model.latentOf(row));
  state.round = 0;
  sayChosen(model.names[row]);
  drawNeighbours();
}

/** The same row and round give the same neighbours. */
function drawNeighbours() {
  const normal = normals(1 + data.rows[state.row] * 1009 + state.round * 7919);
  state.draws = Array.from({ length: N_DRAWS }, () => drawNeighbour(data, model, state.row, normal));
  write("neighbours-note", `${N_DRAWS} random rows that the model finds as plausible as ${model.names[state.row]}, given its observed cells. The charts show them.`);
  if (pixels) showNeighbourPictures();
  markRow();
  show();
}

function makeSliders() {
  const made = Array.from({ length: Math.min(model.q, MOST_SLIDERS) }, (_, k) => {
    const [low, high] = reachOf(model, k);
    const label = element("label", "");
    const words = element("span", `${data.componentNames[k]}: `);
    words.append(element("output", ""));
    const input = element("input", "", { type: "range", min: low, max: high, step: "any", "data-component": k });
    input.addEventListener("input", () => {
      state.z[k] = Number(input.value);
      show();
    });
    label.append(words, input);
    return label;
  });
  document.getElementById("sliders").replaceChildren(...made);
}

function showSliders() {
  for (const input of document.querySelectorAll("#sliders input")) {
    const value = state.z[Number(input.dataset.component)];
    input.value = value;
    input.parentElement.querySelector("output").textContent = value.toFixed(2).replace("-", MINUS);
  }
}

function listen() {
  listenToChooser(model.names, data.rows, () => state.row, choose);
  listenToPlane(plane, (x, y) => moveTo(scales.x.invert(x), scales.y.invert(y)), choose);
  listenToKeys(plane, (dx, dy) => moveTo(state.z[state.a] + dx, state.z[state.b] + dy), toMean);
  document.getElementById("to-mean").addEventListener("click", toMean);
  document.getElementById("numbers").addEventListener("toggle", listNumbers);
  document.getElementById("again").addEventListener("click", () => {
    state.round += 1;
    drawNeighbours();
  });
  let frame = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(drawPlane);
  });
  for (const [id, field] of [["across", "a"], ["up", "b"]]) {
    document.getElementById(id).addEventListener("change", (event) => {
      state[field] = Number(event.target.value);
      drawPlane();
    });
  }
  document.getElementById("colour").addEventListener("change", (event) => {
    state.group = Number(event.target.value);
    sayColours();
    drawPlane();
  });
  document.getElementById("units").addEventListener("change", (event) => {
    state.own = event.target.value === "own";
    reach = reachOfValues(data, model, state.own);
    show();
  });
}

function sayColours() {
  document.getElementById("legend").replaceChildren(...(state.group < 0 ? [] : legendOf(groups[state.group])));
}

function dress() {
  const components = Array.from({ length: model.q }, (_, k) => sayComponent(k));
  fillSelect("across", components, state.a);
  fillSelect("up", components, state.b);
  document.getElementById("up-control").hidden = model.q === 1;
  fillSelect("colour", groups.map(({ name }) => clip(name, 40)), Math.max(state.group, 0));
  document.getElementById("colour-control").hidden = groups.length === 0;
  sayColours();
  document.getElementById("units").value = state.own ? "own" : "sd";
  const image = Boolean(pixels);
  document.getElementById("pictures").hidden = !image;
  for (const id of ["profile", "units-control", "row-key"]) document.getElementById(id).style.display = image ? "none" : "";
  const halves = data.noise.map((noise, j) => data.width * noise * data.scale[j]);
  const [least, most] = [Math.min, Math.max].map((end) => say(halves.reduce((one, other) => end(one, other)), 2));
  const noise = least === most ? `\u00b1 ${least} in each column` : `\u00b1 ${least} to \u00b1 ${most}, depending on the column`;
  write("band-note", `What the model predicts for a row with the ${data.noun} scores of the point. 95% of such rows lie within ${noise}.`);
}

dress();
makeSliders();
fillChooser(model.names);
drawPlane();
choose(data.first);
listen();
document.body.dataset.ready = "true";
