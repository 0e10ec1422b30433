"use strict";
// The page: the components, one chosen row, and everything that shows it.

const MOST_CAUSES = 12;
const CLIPPED = 40;
const BIPLOT_HEIGHT = 400;
const BIPLOT_AXIS = 62; // width of the labels of its vertical axis
const data = readData();
const known = openRows(data);
const groups = openGroups(data);
const views = {};
const draws = {};
const state = { row: data.first, a: 0, b: Math.min(1, known.q - 1), own: data.sameUnits, components: [0, Math.min(1, known.q - 1)], inOrder: false, group: groups.length ? 0 : -1, arrows: true };

/** Colour, shape and words of a row by the chosen group, or by whether it is unusual. */
function lookOfRow(i) {
  const unusual = known.p[i] < data.odd;
  if (state.group >= 0) {
    const group = groups[state.group];
    return { ...group.lookOf(i), group: group.sayOf(i), edge: unusual ? "var(--chosen)" : "none", unusual };
  }
  const look = unusual ? { colour: "var(--odd)", shape: SHAPES[2] } : { colour: "var(--row)", shape: CIRCLE };
  return { ...look, group: unusual ? "unusual" : "usual", edge: "none", unusual };
}

function pointsOf() {
  return known.names.map((name, i) => ({
    row: i,
    name,
    a: known.latentOf(i)[state.a],
    b: known.q === 1 ? data.rows[i] : known.latentOf(i)[state.b],
    inside: known.inside[i],
    outside: known.outside[i],
    said: sayProbability(known.p[i], known.log10p[i]),
    ...lookOfRow(i),
  }));
}

/** What a chart shows now, by the names that its layers use. */
function datasetsOf(id) {
  switch (id) {
    case "biplot": {
      const points = pointsOf();
      return { points, chosen: [{ ...points[state.row] }], ellipse: ellipseOf(data, known, state.row, state.a, state.b) };
    }
    case "distances": {
      const points = pointsOf();
      return { points, chosen: [{ ...points[state.row] }] };
    }
    case "loadings-1":
    case "loadings-2":
      return { loadings: loadingsOf(data, state.components[Number(id.at(-1)) - 1], state.inOrder) };
    case "scores":
      return { scores: scoresOf(data, known, state.row) };
    case "cells":
      return { cells: drawnCells(cellsOf(data, known, state.row, state.own)) };
    case "causes":
      return { causes: causesOf(cellsOf(data, known, state.row, state.own)) };
    default:
      return {};
  }
}

async function draw(id, change = () => {}, names = data.features) {
  const spec = JSON.parse(JSON.stringify(data.charts[id.replace(/-[12]$/, "")]));
  spec.datasets = { ...spec.datasets, ...datasetsOf(id) };
  const place = document.getElementById(id);
  fitNames(spec, names, place.clientWidth);
  change(spec);
  const options = { actions: false, renderer: "svg", ast: true, mode: "vega-lite", patch: tellNames };
  const drawn = (draws[id] = (draws[id] || 0) + 1);
  const row = state.row;
  const { view } = await vegaEmbed(place, spec, options);
  if (drawn !== draws[id]) return view.finalize();  // drawn again in the meantime
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
  return `${data.componentNames[k]} (${say(100 * data.ratio[k], 3)}%)`;
}

function drawBiplot() {
  const place = document.getElementById("biplot");
  return draw("biplot", (spec) => {
    const size = { width: Math.max(place.clientWidth - BIPLOT_AXIS, 200), height: BIPLOT_HEIGHT };
    const found = biplotOf(data, known, spec.datasets.points, state.a, state.b, size);
    spec.datasets.arrows = state.arrows ? found.arrows : [];
    for (const channel of ["x", "y"]) {
      for (const encoded of encodedIn(spec, channel)) encoded.scale = { ...encoded.scale, domain: found.reach[channel] };
    }
    title(spec, "x", sayComponent(state.a));
    title(spec, "y", known.q === 1 ? "row number" : sayComponent(state.b));
  });
}

function drawDistances() {
  return draw("distances", (spec) => {
    for (const [channel, values] of [["x", known.inside], ["y", known.outside]]) {
      const ticks = distanceTicks(values);
      for (const encoded of encodedIn(spec, channel)) if (encoded.axis && ticks) encoded.axis.values = ticks;
    }
  });
}

/** Loadings of the component on one side, 1 or 2, and what it is in words. */
function drawLoadings(side) {
  const k = state.components[side - 1];
  write(`meaning-${side}`, `${sayComponent(k)}: ${data.meanings[k]}.`);
  return draw(`loadings-${side}`, (spec) => title(spec, "x", `${data.loadingWord} on ${data.componentNames[k]}`));
}

function sayHiddenLoadings() {
  const shown = data.loadingsOf[0].columns.length;
  if (shown < known.d) write("loadings-note", `The ${shown} largest loadings of each ${data.noun} are shown; ${(known.d - shown).toLocaleString("en-US")} smaller ones are left out.`);
}

function drawCells() {
  const channel = data.charts.cells.layer[0].encoding.y2 ? "y" : "x";
  const change = (spec) => title(spec, channel, state.own ? "value" : "standard deviations from the mean");
  return draw("cells", change, namesOfCells());
}

/** Names of the columns that the page holds of the chosen row. */
function namesOfCells() {
  return Array.from(known.columnsOf(state.row), (j) => data.features[j]);
}

function showRow() {
  for (const [id, view] of Object.entries(views)) {
    if (id.startsWith("loadings") || id === "scree") continue;
    for (const [name, rows] of Object.entries(datasetsOf(id))) {
      if (name !== "points") view.data(name, rows);
    }
    if (id === "cells" && known.c < known.d) renameCells(view);
    view.runAsync();
  }
  sayRow(cellsOf(data, known, state.row, state.own));
}

/** Each row has columns of its own, where the page holds only some. */
function renameCells(view) {
  const names = namesOfCells();
  const room = view.signal("roomForNames");
  view.signal("names", names.map((name) => clipTo(name, room))).signal("wholeNames", names);
}

function recolour() {
  for (const id of ["biplot", "distances"]) {
    if (views[id]) views[id].data("points", pointsOf()).runAsync();
  }
  sayColours();
}

function sayColours() {
  const unusual = `unusual, p < ${data.odd}`;
  for (const legend of document.querySelectorAll(".legend")) {
    const entries =
      state.group >= 0
        ? [...legendOf(groups[state.group]), ...(known.p.some((p) => p < data.odd) ? [element("span", `outlined: ${unusual}`)] : [])]
        : [keyEntry({ colour: "var(--row)", shape: CIRCLE }, "usual", ""), keyEntry({ colour: "var(--odd)", shape: SHAPES[2] }, unusual, "")];
    legend.replaceChildren(...entries);
  }
}

/** Cells of the chosen row that the page holds, with a note on those that it leaves out. */
function drawnCells(cells) {
  const open = cells.filter((cell) => cell.isOpen).map((cell) => clip(cell.name, CLIPPED));
  const notes = [];
  if (known.c < known.d) {
    notes.push(`The ${known.c} columns with the largest contributions${known.missingCounts[state.row] ? ", or with the least certain imputed values," : ""} are shown; the page leaves out the other ${(known.d - known.c).toLocaleString("en-US")}.`);
  }
  if (open.length) notes.push(`No cell of ${open.slice(0, 5).join(", ")}${open.length > 5 ? " and other columns" : ""} was ever observed, so these values are unknown.`);
  write("cells-note", notes.join(" "));
  return cells.map((cell) => (cell.isOpen ? { ...cell, low: null, high: null } : cell));
}

/** Cells with the largest contributions; a row without observed cells has words in their place. */
function causesOf(cells) {
  const seen = cells.filter((cell) => cell.kind === "observed");
  if (seen.length === 0) return [{ k: 0, j: -1, name: "", share: 0, end: 0, kind: "more", z: "no cell was observed" }];
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
  sayScores();
  sayNumbers();
  if (document.getElementById("all-cells").open) listCells();
  for (const line of document.querySelectorAll("#unusual tbody tr")) {
    line.setAttribute("aria-current", Number(line.querySelector("button").dataset.row) === i);
  }
}

function verdict(cells, sayColumn) {
  const i = state.row;
  const missing = known.missingCounts[i];
  if (missing === known.d) return "This row has no observed cell: all its values are imputed, and they are the same as for any such row.";
  const p = sayProbability(known.p[i], known.log10p[i]);
  const imputed = missing ? ` ${missing.toLocaleString("en-US")} of its ${counted(known.d, "cell")} ${missing === 1 ? "is" : "are"} missing and ${missing === 1 ? "was" : "were"} imputed.` : "";
  if (known.p[i] >= data.odd) return `Not unusual: the probability that a row is this far from the model, or further, is ${p}.${imputed}`;
  const worst = causesOf(cells).slice(0, 3).map((cause) => `${sayColumn(cause.name)} (${cause.z})`).join(", ");
  return `Unusual: by chance alone, the probability that a row is this far from the model, or further, is ${p}. ${whereFar(i)} Largest contributions: ${worst}.${imputed}`;
}

function whereFar(i) {
  const within = known.insideP[i] < data.odd;
  const off = known.outsideP[i] < data.odd;
  if (within && off) return `Its ${data.noun} scores are extreme, and its values break the pattern of the other rows.`;
  if (within) return `Its ${data.noun} scores are extreme, but its values follow the pattern of the other rows.`;
  if (off) return `Its ${data.noun} scores are not extreme, but its values break the pattern of the other rows.`;
  return `It is somewhat extreme in both ways: in its ${data.noun} scores and in its pattern.`;
}

function sayScores() {
  const z = known.latentOf(state.row);
  const P = known.covarianceOf(state.row);
  const said = Array.from({ length: known.planes }, (_, k) => `${data.componentNames[k]}: ${say(z[k], 3)} \u00b1 ${say(Math.sqrt(P(k, k)), 2)}`);
  const more = known.q > known.planes ? ` The first ${known.planes} of ${known.q} ${data.noun}s are shown.` : "";
  write("place", `Scores and standard errors: ${said.join("; ")}.${more}`);
}

function sayNumbers() {
  const i = state.row;
  const seen = known.d - known.missingCounts[i];
  const lines = [
    ["observed cells", seen.toLocaleString("en-US"), ""],
    ["distance D\u00b2", say(known.distance[i]), sayP(known.p[i], known.log10p[i])],
    ["\u2026 if the model were exact", "", sayP(known.modelP[i], known.log10modelP[i])],
    [`along ${data.noun}s (T\u00b2)`, say(known.inside[i]), sayP(known.insideP[i])],
    [`away from ${data.noun}s`, say(known.outside[i]), sayP(known.outsideP[i])],
  ];
  const made = lines.flatMap(([name, value, p]) => [element("dt", name), element("dd", value), element("dd", p)]);
  document.getElementById("numbers").replaceChildren(...made);
}

function listCells() {
  const lines = cellsOf(data, known, state.row, true).map((cell) => {
    const isMissing = cell.kind === "imputed";
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

/** Call a function with the new value of a control. */
function onChange(id, react) {
  document.getElementById(id).addEventListener("change", (event) => react(event.target));
}

function listen() {
  listenToChooser(known.names, data.rows, () => state.row, choose);
  document.getElementById("all-cells").addEventListener("toggle", listCells);
  document.getElementById("unusual").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(Number(button.dataset.row));
  });
  onChange("across", ({ value }) => { state.a = Number(value); drawBiplot(); });
  onChange("up", ({ value }) => { state.b = Number(value); drawBiplot(); });
  onChange("arrows-shown", ({ checked }) => { state.arrows = checked; drawBiplot(); });
  onChange("colour", ({ value }) => { state.group = Number(value) < groups.length ? Number(value) : -1; recolour(); });
  for (const side of [1, 2]) {
    onChange(`component-${side}`, ({ value }) => { state.components[side - 1] = Number(value); drawLoadings(side); });
  }
  onChange("in-order", ({ checked }) => { state.inOrder = checked; [1, 2].slice(0, known.q).forEach(drawLoadings); });
  onChange("units", ({ value }) => { state.own = value === "own"; drawCells(); });
}

function fillControls() {
  const components = data.componentNames.map((_, k) => sayComponent(k));
  fillSelect("across", components.slice(0, known.planes), state.a);
  fillSelect("up", components.slice(0, known.planes), state.b);
  for (const side of [1, 2]) fillSelect(`component-${side}`, components, state.components[side - 1]);
  if (known.q === 1) document.getElementById("loadings-2").closest(".card").hidden = true;
  fillSelect("colour", [...groups.map(({ name }) => clip(name, CLIPPED)), "unusual rows"], Math.max(state.group, 0));
  for (const id of ["up-control", "arrows-control", "arrows-note"]) document.getElementById(id).hidden = known.q === 1;
  document.getElementById("order-note").hidden = known.q > 1;
  if (data.charts.cells.layer[0].encoding.y2) write("fit-key", "\u2014");
  document.getElementById("units").value = state.own ? "own" : "sd";
  fillChooser(known.names);
}

async function start() {
  fillControls();
  sayColours();
  sayHiddenLoadings();
  const loadings = [1, 2].slice(0, known.q).map(drawLoadings);
  await Promise.all([draw("scree"), drawBiplot(), ...loadings, draw("scores"), drawDistances(), drawCells(), draw("causes")]);
  listen();
  sayRow(cellsOf(data, known, state.row, state.own));
  document.body.dataset.ready = "true";
}

start();
