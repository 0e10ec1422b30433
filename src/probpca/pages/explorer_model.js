"use strict";
// The model and its rows, and chance that can be repeated.

function openModel(data) {
  const n = data.rows.length;
  const d = data.features.length;
  const q = data.components;
  const values = unpackNumbers(data.values);
  const latent = unpackNumbers(data.latent);
  const roots = unpackNumbers(data.roots);
  const size = (q * (q + 1)) / 2;
  return {
    n,
    d,
    q,
    names: distinctNames(data.names, data.rows),
    loadings: unpackNumbers(data.loadings),
    valuesOf: (i) => values.subarray(i * d, (i + 1) * d),
    latentOf: (i) => latent.subarray(i * q, (i + 1) * q),
    rootOf: (i) => roots.subarray(data.patterns[i] * size, (data.patterns[i] + 1) * size),
  };
}

/** Uniform numbers from a seed (Mulberry32), the same in every browser. */
function uniforms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Standard normal numbers (Box and Muller). */
function normals(seed) {
  const uniform = uniforms(seed);
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Two steps: z from its posterior N(m, L L'), then x from p(x | z). */
function drawNeighbour(data, model, row, normal) {
  const root = model.rootOf(row);
  const noise = Array.from({ length: model.q }, normal);
  const z = Float64Array.from(model.latentOf(row), (mean, k) => {
    let sum = mean;
    for (let b = 0; b <= k; b += 1) sum += root[(k * (k + 1)) / 2 + b] * noise[b];
    return sum;
  });
  const x = decode(model.loadings, z).map((value, j) => value + data.noise[j] * normal());
  return { z, x };
}

/** Standard deviations from the mean, or what they are in the units of the data. */
function inUnits(data, own) {
  return (j, x) => (own ? data.mean[j] + data.scale[j] * x : x);
}
