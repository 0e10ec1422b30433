"use strict";
// The page: the components, one chosen row, and everything that shows it.

const BIPLOT_HEIGHT = 400;
const BIPLOT_AXIS = 62; // width of the labels of its vertical axis
const data = readData();
const known = openRows(data);
const groups = openGroups(data);
const state = { row: data.first, a: 0, b: Math.min(1, known.q - 1), own: data.sameUnits, components: [0, Math.min(1, known.q - 1)], inOrder: false, group: groups.length ? 0 : -1, arrows: true };

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

function sayRow(cells) {
  sayVerdict(cells, verdict);
  sayScores();
  sayNumbers();
}

function verdict(cells, sayColumn) {
  const i = state.row;
  const missing = known.missingCounts[i];
  if (missing === known.d) return "This row has no observed cell: all its values are imputed, and they are the same as for any such row.";
  const p = sayProbability(known.p[i], known.log10p[i]);
  const imputed = sayImputed();
  if (known.p[i] >= data.odd) return `Not unusual: the probability that a row is this far from the model, or further, is ${p}.${imputed}`;
  return `Unusual: by chance alone, the probability that a row is this far from the model, or further, is ${p}. ${whereFar(i)} Largest contributions: ${sayCauses(cells, sayColumn)}.${imputed}`;
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

function listen() {
  listenToRows();
  onChange("across", ({ value }) => { state.a = Number(value); drawBiplot(); });
  onChange("up", ({ value }) => { state.b = Number(value); drawBiplot(); });
  onChange("arrows-shown", ({ checked }) => { state.arrows = checked; drawBiplot(); });
  for (const side of [1, 2]) {
    onChange(`component-${side}`, ({ value }) => { state.components[side - 1] = Number(value); drawLoadings(side); });
  }
  onChange("in-order", ({ checked }) => { state.inOrder = checked; [1, 2].slice(0, known.q).forEach(drawLoadings); });
}

function fillControls() {
  const components = data.componentNames.map((_, k) => sayComponent(k));
  fillSelect("across", components.slice(0, known.planes), state.a);
  fillSelect("up", components.slice(0, known.planes), state.b);
  for (const side of [1, 2]) fillSelect(`component-${side}`, components, state.components[side - 1]);
  if (known.q === 1) document.getElementById("loadings-2").closest(".card").hidden = true;
  for (const id of ["up-control", "arrows-control", "arrows-note"]) document.getElementById(id).hidden = known.q === 1;
  document.getElementById("order-note").hidden = known.q > 1;
  fillRowControls();
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
