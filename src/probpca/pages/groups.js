"use strict";
// Groups of rows: colours and shapes of their categories, or colours of numbers, and a legend.

const CIRCLE = "M0,-1A1,1,0,1,1,0,1A1,1,0,1,1,0,-1Z";
const SHAPES = [
  CIRCLE,
  "M-0.9,-0.9H0.9V0.9H-0.9Z", // square
  "M0,-1.05L1.05,0.85H-1.05Z", // triangle
  "M0,-1.2L1,0L0,1.2L-1,0Z", // diamond
  "M0,1.05L-1.05,-0.85H1.05Z", // triangle that points down
  "M-1.1,-0.4H-0.4V-1.1H0.4V-0.4H1.1V0.4H0.4V1.1H-0.4V0.4H-1.1Z", // plus
  "M0,-1.4L0.4,-0.4L1.4,0L0.4,0.4L0,1.4L-0.4,0.4L-1.4,0L-0.4,-0.4Z", // star
];
const CROSS = "M-1,-0.6L-0.6,-1L0,-0.4L0.6,-1L1,-0.6L0.4,0L1,0.6L0.6,1L0,0.4L-0.6,1L-1,0.6L-0.4,0Z";
const N_COLOURS = 8;
const LOW_TO_HIGH = [[47, 111, 208], [150, 140, 150], [224, 123, 0]];

function openGroups(data) {
  return data.groups.map((group) => {
    if (group.codes === undefined) return openScale(group.name, unpackNumbers(group.numbers));
    const codes = unpackPositions(group.codes);
    const counts = group.categories.map(() => 0);
    for (const code of codes) counts[code] += 1;
    const looks = group.categories.map((_, k) => lookOf(k, group.proper));
    return { ...group, counts, looks, lookOf: (i) => looks[codes[i]], sayOf: (i) => group.categories[codes[i]] };
  });
}

/** No two categories look alike, with or without an eye for colours; "other" and "missing" are grey. */
function lookOf(k, proper) {
  if (k >= proper) return { colour: "var(--other)", shape: k > proper ? CROSS : CIRCLE };
  return { colour: `var(--group-${k % N_COLOURS})`, shape: SHAPES[k % SHAPES.length] };
}

function openScale(name, numbers) {
  const [low, high] = [Math.min, Math.max].map((end) => numbers.filter(Number.isFinite).reduce((one, other) => end(one, other), end === Math.min ? Infinity : -Infinity));
  const colourOf = (value) => mixed(high > low ? (value - low) / (high - low) : 0.5);
  const lookOf = (i) => (Number.isFinite(numbers[i]) ? { colour: colourOf(numbers[i]), shape: CIRCLE } : { colour: "var(--other)", shape: CROSS });
  return { name, low, high, hasMissing: numbers.some((value) => !Number.isFinite(value)), lookOf, sayOf: (i) => say(numbers[i]) || "missing" };
}

/** A colour between the lowest, 0, and the highest, 1. */
function mixed(share) {
  const place = Math.min(Math.max(share, 0), 1) * (LOW_TO_HIGH.length - 1);
  const k = Math.min(Math.floor(place), LOW_TO_HIGH.length - 2);
  const parts = LOW_TO_HIGH[k].map((part, c) => Math.round(part + (place - k) * (LOW_TO_HIGH[k + 1][c] - part)));
  return `rgb(${parts.join(",")})`;
}

function swatch({ colour, shape }) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  for (const [name, value] of [["viewBox", "-1.4 -1.4 2.8 2.8"], ["class", "swatch"], ["aria-hidden", "true"]]) made.setAttribute(name, value);
  path.setAttribute("d", shape);
  path.style.fill = colour;
  made.append(path);
  return made;
}

/** Entries of a legend: one for each category with the number of its rows, or the ends of the scale. */
function legendOf(group) {
  if (group.categories) {
    return group.categories.map((name, k) => keyEntry(group.looks[k], `${clip(name, 32)}: ${group.counts[k].toLocaleString("en-US")}`, name));
  }
  const ramp = element("i", "", { class: "ramp" });
  ramp.style.background = `linear-gradient(90deg, ${[0, 0.5, 1].map(mixed).join(", ")})`;
  const scale = element("span", "");
  // Years and other whole numbers are neither rounded nor cut by commas.
  const end = (value) => (Number.isInteger(value) && Math.abs(value) < 1e5 ? String(value) : say(value, 3));
  scale.append(`${end(group.low)} `, ramp, ` ${end(group.high)}`);
  return [scale, ...(group.hasMissing ? [keyEntry({ colour: "var(--other)", shape: CROSS }, "missing", "missing")] : [])];
}

function keyEntry(look, text, whole) {
  const made = element("span", "", { title: whole });
  made.append(swatch(look), text);
  return made;
}
