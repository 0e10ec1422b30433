"use strict";
// What Python packed, read back.

function readData() {
  return JSON.parse(document.getElementById("data").textContent);
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Three bytes a number: single precision without its last byte. */
function unpackNumbers(text) {
  const bytes = bytesOf(text);
  const numbers = new Float32Array(bytes.length / 3);
  const cell = new DataView(new ArrayBuffer(4));
  for (let k = 0; k < numbers.length; k += 1) {
    for (let b = 0; b < 3; b += 1) cell.setUint8(b, bytes[3 * k + b]);
    numbers[k] = cell.getFloat32(0);
  }
  return numbers;
}

function unpackBits(text, count) {
  const bytes = bytesOf(text);
  return Uint8Array.from({ length: count }, (_, k) => (bytes[k >> 3] >> (7 - (k & 7))) & 1);
}

/** Lower triangle by rows, as a symmetric function of two positions. */
function symmetric(packed, offset) {
  return (a, b) => packed[offset + (Math.max(a, b) * (Math.max(a, b) + 1)) / 2 + Math.min(a, b)];
}

/** W z, in standard deviations of the features from their means. */
function decode(loadings, z) {
  const q = z.length;
  const x = new Float64Array(loadings.length / q);
  for (let j = 0; j < x.length; j += 1) {
    for (let k = 0; k < q; k += 1) x[j] += loadings[j * q + k] * z[k];
  }
  return x;
}

/** Three bytes a whole number. */
function unpackPositions(text) {
  const bytes = bytesOf(text);
  return Uint32Array.from({ length: bytes.length / 3 }, (_, k) => (bytes[3 * k] << 16) | (bytes[3 * k + 1] << 8) | bytes[3 * k + 2]);
}
