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

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function write(id, text) {
  document.getElementById(id).textContent = text;
}

/** A name for each row that no other row has. */
function distinctNames(names, rows) {
  const count = new Map();
  for (const name of names) count.set(name, (count.get(name) || 0) + 1);
  return names.map((name, i) => {
    if (name.trim() === "") return `row ${rows[i]}`;
    return count.get(name) > 1 ? `${name} (row ${rows[i]})` : name;
  });
}

/** Rows without a name are called by their number. */
function sayName(data, names, i) {
  return names[i] === String(data.rows[i]) ? `row ${names[i]}` : names[i];
}

function fillSelect(id, options, chosen) {
  const select = document.getElementById(id);
  select.replaceChildren(...options.map((text, k) => element("option", text, { value: k })));
  select.value = chosen;
}
