"use strict";
// Rows and loadings of the page, as functions of their position.

/** Cells of the rows, their contributions and p-values. */
function openCells(data) {
  const n = data.rows.length;
  const d = data.features.length;
  const c = data.cellsPerRow;
  const missing = unpackBits(data.missing, n * c);
  const columns = data.columns === null ? null : unpackPositions(data.columns);
  const every = Array.from({ length: d }, (_, j) => j);
  const known = {
    n,
    d,
    c,
    q: data.components,
    names: distinctNames(data.names, data.rows),
    loadings: unpackNumbers(data.loadings),
    latent: unpackNumbers(data.latent),
    p: unpackNumbers(data.p),
    log10p: unpackNumbers(data.log10p),
    values: unpackNumbers(data.values),
    contributions: unpackNumbers(data.contributions),
    scores: unpackNumbers(data.scores),
    missing,
    missingCounts: unpackPositions(data.missingCounts),
  };
  known.columnsOf = (i) => (columns === null ? every : columns.subarray(i * c, (i + 1) * c));
  known.latentOf = (i) => known.latent.subarray(i * known.q, (i + 1) * known.q);
  return known;
}

function openRows(data) {
  const known = openCells(data);
  for (const name of ["covariance", "distance", "inside", "outside", "modelP", "log10modelP", "insideP", "outsideP"]) {
    known[name] = unpackNumbers(data[name]);
  }
  known.unit = unpackNumbers(data.loadingUnit);
  const std = spread(unpackNumbers(data.std), known.missing);
  const planes = Math.min(known.q, data.mostComponents);
  const size = (planes * (planes + 1)) / 2;
  const shared = known.covariance.length === size;
  known.planes = planes;
  known.endsOf = (k) => [known.values[k] - data.width * std[k], known.values[k] + data.width * std[k]];
  known.fittedOf = (i) => decode(known.loadings, known.latentOf(i));
  known.loadingOf = (j, k) => known.loadings[j * known.q + k] * known.unit[j];
  known.covarianceOf = (i) => symmetric(known.covariance, shared ? 0 : i * size);
  known.middleOf = middles(known);
  return known;
}

/** Numbers that were kept of missing cells only. */
function spread(kept, missing) {
  const all = new Float32Array(missing.length);
  let next = 0;
  missing.forEach((is, k) => {
    if (is) all[k] = kept[next++];
  });
  return all;
}

/** Ends of the range that holds nine of ten rows, for each component that is drawn. */
function middles(known) {
  return Array.from({ length: known.planes }, (_, k) => {
    const sorted = Float32Array.from({ length: known.n }, (_, i) => known.latent[i * known.q + k]).sort();
    return [0.05, 0.95].map((share) => sorted[Math.round(share * (known.n - 1))]);
  });
}

/** One object for each cell of a row on the page, in units of the data or in standard deviations. */
function cellsOf(data, known, i, own) {
  const fitted = known.fittedOf(i);
  const unit = (j, x) => (own ? data.mean[j] + data.scale[j] * x : x);
  return Array.from(known.columnsOf(i), (j, at) => {
    const k = i * known.c + at;
    const isMissing = known.missing[k] === 1;
    const [low, high] = isMissing ? known.endsOf(k) : [known.values[k], known.values[k]];
    const isOpen = !Number.isFinite(high - low); // nothing was ever observed of the column
    const value = unit(j, known.values[k]);
    return {
      j,
      at,
      name: data.features[j],
      isOpen,
      value,
      low: unit(j, low),
      high: unit(j, high),
      fitted: unit(j, fitted[j]),
      kind: isMissing ? "imputed" : "observed",
      said: say(value),
      share: known.contributions[k],
      score: known.scores[k],
      z: isMissing ? "none" : saySigned(known.scores[k]),
    };
  });
}

/** Component scores of a row with their intervals, and the range of nine of ten rows. */
function scoresOf(data, known, i) {
  const z = known.latentOf(i);
  const P = known.covarianceOf(i);
  return Array.from({ length: known.planes }, (_, k) => {
    const half = data.width * Math.sqrt(P(k, k));
    const [rowsLow, rowsHigh] = known.middleOf[k];
    const [low, high] = [z[k] - half, z[k] + half];
    return { k, name: data.componentNames[k], value: z[k], low, high, rowsLow, rowsHigh, said: say(z[k], 3), range: `${say(low, 3)} to ${say(high, 3)}` };
  });
}

/** The largest loadings of a component: positive ones first, or in the order of the table. */
function loadingsOf(data, k, inOrder) {
  const { columns, values, low, high } = data.loadingsOf[k];
  const made = columns.map((j, at) => ({
    j,
    name: data.features[j],
    value: values[at],
    low: low?.[at] ?? values[at],
    high: high?.[at] ?? values[at],
    kind: values[at] >= 0 ? "more" : "less",
    sure: !(low?.[at] <= 0 && high[at] >= 0) || low[at] === null,
    said: say(values[at]),
    interval: low && low[at] !== null ? `${say(low[at], 3)} to ${say(high[at], 3)}` : "not available",
  }));
  made.sort((one, other) => (inOrder ? one.j - other.j : other.value - one.value));
  return made.map((one, place) => ({ ...one, k: place }));
}

/** The points at which the posterior of two coordinates has fallen to 5%. */
function ellipseOf(data, known, i, a, b) {
  const z = known.latentOf(i);
  const P = known.covarianceOf(i);
  if (known.q === 1) {
    const half = data.width * Math.sqrt(P(0, 0));
    return [-1, 1].map((side, k) => ({ k, a: z[0] + side * half, b: data.rows[i] }));
  }
  const first = Math.sqrt(P(a, a));
  const along = P(a, b) / first;
  const rest = Math.sqrt(Math.max(P(b, b) - along * along, 0));
  return Array.from({ length: 73 }, (_, k) => {
    const [u, v] = [Math.cos((k * Math.PI) / 36), Math.sin((k * Math.PI) / 36)];
    return { k, a: z[a] + data.radius * first * u, b: z[b] + data.radius * (along * u + rest * v) };
  });
}
