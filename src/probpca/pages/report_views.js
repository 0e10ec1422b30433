"use strict";
// What all reports do: colours of rows, charts that follow the chosen row, its cells and their tables.
//
// The script of a page has the data, known, groups and state, pointsOf(), datasetsOf(id) and sayRow(cells).

const MOST_CAUSES = 12;
const CLIPPED = 40;
const views = {};
const draws = {};

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
    if (/^(loadings|scree|criteria)/.test(id)) continue;
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
  for (const id of ["biplot", "plane", "distances"]) {
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

/** Name of the chosen row, what is said about it, and its place in the table of unusual rows. */
function sayVerdict(cells, verdict) {
  const i = state.row;
  const number = sayNumber(data.rows[i]);
  sayChosen(known.names[i]);
  write("chosen-name", data.names[i] === null ? number.replace("r", "R") : `${data.names[i]}, ${number}`);
  write("verdict", verdict(cells, (name) => clip(name, CLIPPED)));
  document.getElementById("verdict").title = cells.some((cell) => cell.name.length > CLIPPED) ? verdict(cells, (name) => name) : "";
  if (document.getElementById("all-cells").open) listCells();
  for (const line of document.querySelectorAll("#unusual tbody tr")) {
    line.setAttribute("aria-current", Number(line.querySelector("button").dataset.row) === i);
  }
}

/** How many cells of the chosen row were imputed; empty if none was. */
function sayImputed() {
  const missing = known.missingCounts[state.row];
  return missing ? ` ${missing.toLocaleString("en-US")} of its ${counted(known.d, "cell")} ${missing === 1 ? "is" : "are"} missing and ${missing === 1 ? "was" : "were"} imputed.` : "";
}

/** The columns with the largest contributions to the distance of the chosen row, in words. */
function sayCauses(cells, sayColumn) {
  return causesOf(cells).slice(0, 3).map((cause) => `${sayColumn(cause.name)} (${cause.z})`).join(", ");
}

function listenToRows() {
  listenToChooser(known.names, data.rows, () => state.row, choose);
  document.getElementById("all-cells").addEventListener("toggle", listCells);
  document.getElementById("unusual").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(Number(button.dataset.row));
  });
  onChange("colour", ({ value }) => { state.group = Number(value) < groups.length ? Number(value) : -1; recolour(); });
  onChange("units", ({ value }) => { state.own = value === "own"; drawCells(); });
}

function fillRowControls() {
  fillSelect("colour", [...groups.map(({ name }) => clip(name, CLIPPED)), "unusual rows"], Math.max(state.group, 0));
  if (data.charts.cells.layer[0].encoding.y2) write("fit-key", "\u2014");
  document.getElementById("units").value = state.own ? "own" : "sd";
  fillChooser(known.names);
}
