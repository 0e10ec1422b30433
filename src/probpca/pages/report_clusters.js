"use strict";
// The page of a mixture: its clusters, one chosen row, and everything that shows it.

const MOST_LISTED = 1000; // rows in the table of all rows
const data = readData();
const known = openClusters(data);
const groups = openGroups(data);
const K = data.weights.length;
const state = { row: data.first, own: data.sameUnits, clusters: [0, Math.min(1, K - 1)], shows: K === 1 ? [1, 1] : [0, 0], inOrder: false, group: 0 };

/** Rows of the page, their clusters and points in the plane. */
function openClusters(data) {
  const known = openCells(data);
  const q = data.components;
  const K = data.weights.length;
  const centres = unpackNumbers(data.centres);
  const within = unpackNumbers(data.within);
  const [low, high] = [data.low, data.high].map((ends) => spread(unpackNumbers(ends), known.missing));
  const points = unpackNumbers(data.points);
  const probability = unpackNumbers(data.probability);
  known.cluster = unpackPositions(data.cluster);
  for (const name of ["distance", "modelP", "log10modelP"]) known[name] = unpackNumbers(data[name]);
  known.probabilityOf = (i) => probability.subarray(i * K, (i + 1) * K);
  known.pointOf = (i) => points.subarray(2 * i, 2 * i + 2);
  known.centreOf = (k) => centres.subarray(k * known.d, (k + 1) * known.d);
  known.withinOf = (k) => within.subarray(k * known.d, (k + 1) * known.d);
  known.loadingsOf = (k) => known.loadings.subarray(k * known.d * q, (k + 1) * known.d * q);
  known.endsOf = (k) => [low[k], high[k]];
  known.fittedOf = (i) => {
    const k = known.cluster[i];
    const centre = known.centreOf(k);
    return decode(known.loadingsOf(k), known.latentOf(i)).map((value, j) => value + centre[j]);
  };
  return known;
}

function pointsOf() {
  return known.names.map((name, i) => {
    const [a, b] = known.pointOf(i);
    return { row: i, name, a, b, said: sayProbability(known.p[i], known.log10p[i]), ...lookOfRow(i) };
  });
}

function colourOf(k) {
  return groups[0].looks[k].colour;
}

/** The ellipse of each cluster, as points on it. */
function regionsOf() {
  return data.centre.flatMap(([x, y], cluster) => {
    const [xx, xy, yy] = data.spread[cluster];
    const first = Math.sqrt(xx);
    const along = xy / first;
    const rest = Math.sqrt(Math.max(yy - along * along, 0));
    return Array.from({ length: 73 }, (_, k) => {
      const [u, v] = [Math.cos((k * Math.PI) / 36), Math.sin((k * Math.PI) / 36)];
      return { k, cluster, colour: colourOf(cluster), a: x + data.radius * first * u, b: y + data.radius * (along * u + rest * v) };
    });
  });
}

/** Bars of one side: means of a cluster with the spread of its rows, or loadings of one of its components. */
function profileOf(side) {
  const k = state.clusters[side - 1];
  const what = state.shows[side - 1];
  const made = data.features.map((name, j) => {
    const value = what === 0 ? known.centreOf(k)[j] : known.loadingsOf(k)[j * data.components + what - 1];
    const half = what === 0 ? known.withinOf(k)[j] : 0;
    return { j, name, value, low: value - half, high: value + half, kind: value >= 0 ? "more" : "less", sure: true, said: say(value, 3), interval: what === 0 ? `${say(value - half, 3)} to ${say(value + half, 3)}` : "not available" };
  });
  made.sort((one, other) => Math.abs(other.value) - Math.abs(one.value));
  const shown = made.slice(0, data.mostBars);
  shown.sort((one, other) => (state.inOrder ? one.j - other.j : other.value - one.value));
  return shown.map((one, place) => ({ ...one, k: place }));
}

/** What a chart shows now, by the names that its layers use. */
function datasetsOf(id) {
  switch (id) {
    case "plane": {
      const points = pointsOf();
      const centres = data.centre.map(([a, b], k) => ({ a, b, name: `C${k}`, colour: colourOf(k) }));
      return { points, chosen: [{ ...points[state.row] }], regions: regionsOf(), centres };
    }
    case "loadings-1":
    case "loadings-2":
      return { loadings: profileOf(Number(id.at(-1))) };
    case "chances":
      return { chances: Array.from(known.probabilityOf(state.row), (value, k) => ({ k, name: `C${k}`, value, said: say(value, 3), colour: colourOf(k) })) };
    case "cells":
      return { cells: drawnCells(cellsOf(data, known, state.row, state.own)) };
    case "causes":
      return { causes: causesOf(cellsOf(data, known, state.row, state.own)) };
    default:
      return {};
  }
}

function drawPlane() {
  return draw("plane", (spec) => {
    title(spec, "x", data.axisTitles[0]);
    title(spec, "y", data.axisTitles[1]);
  });
}

function sayCluster(k) {
  return `C${k} (${say(100 * data.weights[k], 3)}%)`;
}

/** The profile on one side, 1 or 2, and what tells its cluster apart. */
function drawProfile(side) {
  const k = state.clusters[side - 1];
  const what = state.shows[side - 1];
  write(`meaning-${side}`, `${sayCluster(k)}: ${data.sentences[k]}.`);
  const words = what === 0 ? "mean, in standard deviations of all rows" : `loading on component ${what}, in standard deviations of all rows`;
  return draw(`loadings-${side}`, (spec) => title(spec, "x", words));
}

function sayRow(cells) {
  sayVerdict(cells, verdict);
  const z = Array.from(known.latentOf(state.row), (value, k) => `PC${k + 1}: ${say(value, 3)}`);
  write("place", `Scores in C${known.cluster[state.row]}: ${z.join("; ")}. Squared distance D\u00b2 from it: ${say(known.distance[state.row])}. If the mixture were exact: ${sayP(known.modelP[state.row], known.log10modelP[state.row])}.`);
}

function verdict(cells, sayColumn) {
  const i = state.row;
  if (known.missingCounts[i] === known.d) return "This row has no observed cell: all its values are imputed, and its probabilities are the weights of the clusters.";
  const chance = known.probabilityOf(i)[known.cluster[i]];
  const belongs = chance >= data.sure ? `Belongs to C${known.cluster[i]} (probability ${say(chance, 3)}).` : `May belong to several clusters; C${known.cluster[i]} is the most probable (${say(chance, 3)}).`;
  const p = sayProbability(known.p[i], known.log10p[i]);
  if (known.p[i] >= data.odd) return `${belongs} Not unusual: the probability of a row that is at most as likely is ${p}.${sayImputed()}`;
  return `${belongs} Unusual: the probability of a row that is at most as likely is ${p}. Largest contributions: ${sayCauses(cells, sayColumn)}.${sayImputed()}`;
}

/** Rows of all clusters or of one, in the order of the table. */
function listRows() {
  const of = Number(document.getElementById("rows-of").value) - 1;
  const rows = known.names.map((_, i) => i).filter((i) => of < 0 || known.cluster[i] === of);
  const lines = rows.slice(0, MOST_LISTED).map((i) => {
    const line = document.createElement("tr");
    const name = element("th", "", { scope: "row", title: known.names[i] });
    const button = element("button", known.names[i], { type: "button", "data-row": i });
    name.append(button);
    const k = known.cluster[i];
    const texts = [`C${k}`, say(known.probabilityOf(i)[k], 3), sayProbability(known.p[i], known.log10p[i]), known.missingCounts[i].toLocaleString("en-US")];
    line.append(name, ...texts.map((text) => element("td", text)));
    return line;
  });
  document.getElementById("row-table").replaceChildren(...lines);
  write("rows-note", rows.length > MOST_LISTED ? `The first ${MOST_LISTED.toLocaleString("en-US")} of ${rows.length.toLocaleString("en-US")} rows are listed.` : "");
}

function chooseFrom(id) {
  document.getElementById(id).addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(Number(button.dataset.row));
  });
}

function listen() {
  listenToRows();
  chooseFrom("unsure");
  chooseFrom("row-table");
  for (const side of [1, 2]) {
    onChange(`cluster-${side}`, ({ value }) => { state.clusters[side - 1] = Number(value); drawProfile(side); });
    onChange(`what-${side}`, ({ value }) => { state.shows[side - 1] = Number(value); drawProfile(side); });
  }
  onChange("in-order", ({ checked }) => { state.inOrder = checked; sides().forEach(drawProfile); });
  onChange("rows-of", listRows);
  document.getElementById("all-rows").addEventListener("toggle", listRows);
}

/** With one cluster there is nothing to compare. */
function sides() {
  return [1, 2].slice(0, Math.min(K, 2));
}

function fillControls() {
  const shows = ["means", ...Array.from({ length: data.components }, (_, k) => `loadings on PC${k + 1}`)];
  const clusters = data.weights.map((_, k) => sayCluster(k));
  for (const side of [1, 2]) {
    fillSelect(`cluster-${side}`, clusters, state.clusters[side - 1]);
    fillSelect(`what-${side}`, shows, state.shows[side - 1]);
  }
  fillSelect("rows-of", ["all clusters", ...clusters], 0);
  if (K === 1) document.getElementById("loadings-2").closest(".card").hidden = true;
  if (document.querySelector("#unsure tbody tr") === null) document.getElementById("unsure").hidden = true;
  fillRowControls();
}

async function start() {
  fillControls();
  sayColours();
  await Promise.all([draw("criteria"), drawPlane(), ...sides().map(drawProfile), draw("chances"), drawCells(), draw("causes")]);
  listen();
  sayRow(cellsOf(data, known, state.row, state.own));
  document.body.dataset.ready = "true";
}

start();
