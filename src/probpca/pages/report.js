"use strict";
// The page: one chosen row, and everything that shows it.

const MOST_CAUSES = 12;
const MOST_CELLS = 300;
const data = readData();
const known = openRows(data);
const CLIPPED = 40;
const views = {};
const draws = {};
const state = { row: data.first, a: 0, b: Math.min(1, known.q - 1), own: data.sameUnits };

function pointsOf() {
  return known.names.map((name, i) => ({
    row: i,
    name,
    a: known.latentOf(i)[state.a],
    b: known.q === 1 ? data.rows[i] : known.latentOf(i)[state.b],
    inside: data.inside[i],
    outside: data.outside[i],
    kind: data.p[i] < data.odd ? "unusual" : "usual",
    said: sayProbability(data.p[i], data.log10p[i]),
  }));
}

/** What a chart shows now, by the names that its layers use. */
function datasetsOf(id) {
  const cells = cellsOf(data, known, state.row, state.own);
  const points = id === "latent" || id === "distances" ? pointsOf() : [];
  switch (id) {
    case "latent":
      return { points, chosen: [{ ...points[state.row] }], ellipse: ellipseOf(data, known, state.row, state.a, state.b) };
    case "distances":
      return { points, chosen: [{ ...points[state.row] }] };
    case "cells":
      return { cells: shownCells(cells) };
    case "causes":
      return { causes: causesOf(cells) };
    default:
      return {};
  }
}

async function draw(id, change = () => {}) {
  const spec = JSON.parse(JSON.stringify(data.charts[id]));
  spec.datasets = { ...spec.datasets, ...datasetsOf(id) };
  const place = document.getElementById(id);
  fitNames(spec, data.features, place.clientWidth);
  change(spec);
  const options = { actions: false, renderer: "svg", ast: true, mode: "vega-lite", patch: tellNames };
  const drawn = (draws[id] = (draws[id] || 0) + 1);
  const row = state.row;
  const { view } = await vegaEmbed(place, spec, options);
  if (drawn !== draws[id]) return view.finalize();  // asked for once more in the meantime
  const old = views[id];
  views[id] = view;
  if (old) old.finalize();
  view.addEventListener("click", (_, item) => {
    if (item && item.datum && item.datum.row !== undefined) choose(item.datum.row);
  });
  if (row !== state.row) showRow();
}

function title(spec, channel, words) {
  for (const encoded of encodedIn(spec, channel)) encoded.title = words;
}

function sayComponent(k) {
  return `component ${k + 1} (${say(100 * data.ratio[k], 3)} %)`;
}

function drawLatent() {
  return draw("latent", (spec) => {
    title(spec, "x", sayComponent(state.a));
    title(spec, "y", known.q === 1 ? "number of the row" : sayComponent(state.b));
  });
}

function drawDistances() {
  return draw("distances", (spec) => {
    for (const [channel, values] of [["x", data.inside], ["y", data.outside]]) {
      const ticks = distanceTicks(values);
      for (const encoded of encodedIn(spec, channel)) if (encoded.axis && ticks) encoded.axis.values = ticks;
    }
  });
}

function drawCells() {
  const channel = data.charts.cells.layer[0].encoding.y2 ? "y" : "x";
  return draw("cells", (spec) => title(spec, channel, state.own ? "value" : "standard deviations from the mean"));
}

function showRow() {
  for (const [id, view] of Object.entries(views)) {
    for (const [name, rows] of Object.entries(datasetsOf(id))) {
      if (name !== "points") view.data(name, rows);
    }
    view.runAsync();
  }
  sayRow(cellsOf(data, known, state.row, state.own));
}

/** Cells that are drawn: all of them, or those with the largest shares; an interval without ends is not drawn. */
function shownCells(cells) {
  const hidden = Math.max(cells.length - MOST_CELLS, 0);
  const open = cells.filter((cell) => cell.isOpen).map((cell) => clip(cell.name, CLIPPED));
  const notes = [];
  if (hidden) notes.push(`${MOST_CELLS} of ${cells.length} cells are drawn: those with the largest shares in D\u00b2.`);
  if (open.length) notes.push(`Nothing was ever observed of ${open.slice(0, 5).join(", ")}${open.length > 5 ? " and others" : ""}: the value may be anything.`);
  write("cells-note", notes.join(" "));
  const largest = hidden ? [...cells].sort((one, other) => Math.abs(other.share) - Math.abs(one.share)).slice(0, MOST_CELLS) : cells;
  const drawn = [...largest].sort((one, other) => one.j - other.j);
  return drawn.map((cell) => (cell.isOpen ? { ...cell, low: null, high: null } : cell));
}

/** Cells with the largest shares; a row of which nothing was observed has words in their place. */
function causesOf(cells) {
  const seen = cells.filter((cell) => cell.kind === "observed");
  if (seen.length === 0) return [{ k: 0, j: -1, name: "", share: 0, end: 0, kind: "more", z: "nothing was observed" }];
  seen.sort((one, other) => Math.abs(other.share) - Math.abs(one.share));
  return seen.slice(0, MOST_CAUSES).map((cell, k) => ({
    k,
    j: cell.j,
    name: cell.name,
    share: cell.share,
    end: Math.max(cell.share, 0),
    kind: cell.share >= 0 ? "more" : "less",
    z: `z ${cell.z}`,
  }));
}

function sayRow(cells) {
  const i = state.row;
  const number = sayNumber(data.rows[i]);
  sayChosen(known.names[i]);
  write("chosen-name", data.names[i] === null ? number.replace("r", "R") : `${data.names[i]}, ${number}`);
  write("verdict", verdict(cells, (name) => clip(name, CLIPPED)));
  document.getElementById("verdict").title = cells.some((cell) => cell.name.length > CLIPPED) ? verdict(cells, (name) => name) : "";
  sayPlace();
  sayNumbers(cells);
  if (document.getElementById("all-cells").open) listCells();
  for (const line of document.querySelectorAll("#unusual tbody tr")) {
    line.setAttribute("aria-current", Number(line.querySelector("button").dataset.row) === i);
  }
}

function verdict(cells, sayColumn) {
  const i = state.row;
  const seen = cells.filter((cell) => cell.kind === "observed");
  const filled = cells.length - seen.length;
  const holes = filled ? ` ${filled} of its ${cells.length} cells are missing and were filled in.` : "";
  if (seen.length === 0) return "Nothing was observed of this row: the model can only say what it says of any row.";
  const p = sayProbability(data.p[i], data.log10p[i]);
  const far = `chance alone puts a row at least this far off with probability ${p}.`;
  if (data.p[i] >= data.odd) return `Not unusual: ${far}${holes}`;
  const worst = causesOf(cells).slice(0, 3).map((cause) => `${sayColumn(cause.name)} (${cause.z})`).join(", ");
  return `Unusual: ${far} ${whereOff(i)} The largest shares: ${worst}.${holes}`;
}

function whereOff(i) {
  const within = data.insideP[i] < data.odd;
  const off = data.outsideP[i] < data.odd;
  if (within && off) return "It is extreme among the components, and off them too.";
  if (within) return "It is extreme among the components, but its cells go together as those of other rows do.";
  if (off) return "It is not extreme among the components, but its cells do not go together as those of other rows do.";
  return "Neither part of its distance is extreme alone.";
}

function sayPlace() {
  const z = known.latentOf(state.row);
  const P = known.covarianceOf(state.row);
  const said = Array.from({ length: known.planes }, (_, k) => `${k + 1}: ${say(z[k], 3)} \u00b1 ${say(Math.sqrt(P(k, k)), 2)}`);
  write("place", `Components, with standard deviation: ${said.join("; ")}`);
}

function sayNumbers(cells) {
  const i = state.row;
  const seen = cells.filter((cell) => cell.kind === "observed").length;
  const lines = [
    ["distance D\u00b2", say(data.distance[i]), `${sayP(data.p[i], data.log10p[i])}, of ${counted(seen, "cell")}`],
    ["if exactly Gaussian", "", sayP(data.modelP[i], data.log10modelP[i])],
    ["within, T\u00b2", say(data.inside[i]), sayP(data.insideP[i])],
    ["off, residual", say(data.outside[i]), sayP(data.outsideP[i])],
  ];
  const made = lines.flatMap(([name, value, p]) => [element("dt", name), element("dd", value), element("dd", p)]);
  document.getElementById("numbers").replaceChildren(...made);
}

function listCells() {
  const lines = cellsOf(data, known, state.row, true).map((cell) => {
    const isMissing = cell.kind === "filled in";
    const ends = isMissing ? [say(cell.low), say(cell.high)] : ["", ""];
    const causes = isMissing ? ["", ""] : [saySigned(cell.share, 3), saySigned(cell.score, 3)];
    const line = document.createElement("tr");
    line.append(element("th", cell.name, { scope: "row", title: cell.name }));
    line.append(...[say(cell.value, 5), cell.kind, ...ends, ...causes].map((text) => element("td", text)));
    return line;
  });
  document.getElementById("cell-table").replaceChildren(...lines);
}

function choose(row) {
  state.row = row;
  showRow();
}

function listen() {
  listenToChooser(known.names, data.rows, () => state.row, choose);
  document.getElementById("all-cells").addEventListener("toggle", listCells);
  document.getElementById("unusual").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(Number(button.dataset.row));
  });
  for (const [id, field] of [["across", "a"], ["up", "b"]]) {
    document.getElementById(id).addEventListener("change", async (event) => {
      state[field] = Number(event.target.value);
      await drawLatent();
    });
  }
  document.getElementById("units").addEventListener("change", async (event) => {
    state.own = event.target.value === "own";
    await drawCells();
  });
}

async function start() {
  const components = Array.from({ length: known.planes }, (_, k) => sayComponent(k));
  fillSelect("across", components, state.a);
  fillSelect("up", components, state.b);
  document.getElementById("up").disabled = known.q === 1;
  if (data.charts.cells.layer[0].encoding.y2) write("fit-key", "\u2014");
  document.getElementById("units").value = state.own ? "own" : "sd";
  fillChooser(known.names);
  await Promise.all([draw("scree"), drawLatent(), drawDistances(), drawCells(), draw("causes")]);
  listen();
  sayRow(cellsOf(data, known, state.row, state.own));
  document.body.dataset.ready = "true";
}

start();
