"use strict";
// What the page knows of rows, as functions of their place in it.

function openRows(data) {
  const n = data.rows.length;
  const d = data.features.length;
  const missing = unpackBits(data.missing, n * d);
  const known = {
    n,
    d,
    q: data.components,
    names: distinctNames(data.names, data.rows),
    loadings: unpackNumbers(data.loadings),
    latent: unpackNumbers(data.latent),
    values: unpackNumbers(data.values),
    contributions: unpackNumbers(data.contributions),
    scores: unpackNumbers(data.scores),
    missing,
    std: spread(unpackNumbers(data.std), missing),
    covariance: unpackNumbers(data.covariance),
  };
  const planes = Math.min(known.q, data.mostComponents);
  const size = (planes * (planes + 1)) / 2;
  const shared = known.covariance.length === size;
  known.planes = planes;
  known.latentOf = (i) => known.latent.subarray(i * known.q, (i + 1) * known.q);
  known.covarianceOf = (i) => symmetric(known.covariance, shared ? 0 : i * size);
  return known;
}

/** Standard deviations were kept of missing cells only. */
function spread(kept, missing) {
  const all = new Float32Array(missing.length);
  let next = 0;
  missing.forEach((is, k) => {
    if (is) all[k] = kept[next++];
  });
  return all;
}

/** One object a cell, in the units that were asked for. */
function cellsOf(data, known, i, own) {
  const fitted = decode(known.loadings, known.latentOf(i));
  const unit = (j, x) => (own ? data.mean[j] + data.scale[j] * x : x);
  return data.features.map((name, j) => {
    const k = i * known.d + j;
    const isMissing = known.missing[k] === 1;
    const half = isMissing ? data.width * known.std[k] : 0;
    const isOpen = !Number.isFinite(half); // nothing was ever observed of the column
    const value = unit(j, known.values[k]);
    return {
      j,
      name,
      isOpen,
      value,
      low: unit(j, known.values[k] - half),
      high: unit(j, known.values[k] + half),
      fitted: unit(j, fitted[j]),
      kind: isMissing ? "filled in" : "observed",
      said: say(value),
      share: known.contributions[k],
      score: known.scores[k],
      z: isMissing ? "none" : saySigned(known.scores[k]),
    };
  });
}

/** The points at which the posterior of two coordinates has fallen to 5 %. */
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
