"use strict";
// Numbers as people read them, and text that stays text.

const MINUS = "\u2212";

function say(value, digits = 4) {
  if (value === null || Number.isNaN(value)) return "";
  if (!Number.isFinite(value)) return value > 0 ? "\u221e" : `${MINUS}\u221e`;
  const size = Math.abs(value);
  const plain = size === 0 || (size >= 1e-4 && size < 1e7);
  const text = plain
    ? Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumSignificantDigits: digits })
    : value.toExponential(digits - 1);
  return text.replace(/-/g, MINUS);
}

function saySigned(value, digits = 2) {
  if (Number.isNaN(value)) return "";
  return (value > 0 ? "+" : "") + say(value, digits);
}

function superscript(whole) {
  return String(whole).replace(/-/g, "\u207b").replace(/\d/g, (digit) => "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[digit]);
}

/** Small probabilities by their logarithm, which does not vanish. */
function sayProbability(p, log10 = Math.log10(p)) {
  if (p >= 1e-4) return say(p, 2);
  if (!Number.isFinite(log10)) return "0";
  const power = Math.floor(log10);
  const lead = (10 ** (log10 - power)).toFixed(1);
  return lead === "10.0" ? `1.0 \u00d7 10${superscript(power + 1)}` : `${lead} \u00d7 10${superscript(power)}`;
}

/** The same with its sign; 0 is what is too small to be known. */
function sayP(p, log10) {
  return p > 0 || log10 !== undefined ? `p = ${sayProbability(p, log10)}` : `p < 10${superscript(-300)}`;
}

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function write(id, text) {
  document.getElementById(id).textContent = text;
}

/** A row by its number in the table. */
function sayNumber(number) {
  return `row ${number.toLocaleString("en-US")}`;
}

/** A name for each row that no other row has: rows without one, null, are called by their number. */
function distinctNames(names, rows) {
  const said = names.map((name, i) => name ?? sayNumber(rows[i]));
  const count = new Map();
  for (const name of said) count.set(name, (count.get(name) || 0) + 1);
  return said.map((name, i) => (names[i] !== null && count.get(name) > 1 ? `${name} (${sayNumber(rows[i])})` : name));
}

/** Both ends of a name that is too long: names often differ at the end. */
function clip(name, most) {
  const letters = [...name];
  if (letters.length <= most) return name;
  const tail = Math.floor((most - 1) / 3);
  return `${letters.slice(0, most - 1 - tail).join("")}\u2026${letters.slice(letters.length - tail).join("")}`;
}

const ruler = document.createElement("canvas").getContext("2d");

/** How wide a text is in a chart, in pixels. */
function widthOfText(text) {
  ruler.font = "12px system-ui, sans-serif";
  return ruler.measureText(text).width;
}

/** As much of both ends of a name as there is room for, in pixels. */
function clipTo(name, room) {
  const width = widthOfText(name);
  if (width <= room) return name;
  let most = Math.min(Math.ceil(([...name].length * room) / width) + 2, [...name].length - 1);
  while (most > 3 && widthOfText(clip(name, most)) > room) most -= 1;
  return clip(name, most);
}

function counted(number, noun) {
  return `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;
}

function fillSelect(id, options, chosen) {
  const select = document.getElementById(id);
  select.replaceChildren(...options.map((text, k) => element("option", text, { value: k })));
  select.value = chosen;
}
