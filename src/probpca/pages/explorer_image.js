"use strict";
// Rows that are images, in shades of grey.

/** Pixels of a row on a canvas; what is missing is left clear. */
function paint(canvas, shape, values, [low, high]) {
  const [height, width] = shape;
  canvas.width = width;
  canvas.height = height;
  const picture = new ImageData(width, height);
  values.forEach((value, k) => {
    const grey = Math.round((255 * (value - low)) / (high - low));
    picture.data.set([grey, grey, grey, Number.isFinite(value) ? 255 : 0], 4 * k);
  });
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/** The lowest and highest pixel of any row. */
function reachOfPixels(data, model) {
  const unit = inUnits(data, true);
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < model.n; i += 1) {
    model.valuesOf(i).forEach((x, j) => {
      const value = unit(j, x);
      if (value < low) low = value;
      if (value > high) high = value;
    });
  }
  return high > low ? [low, high] : [low - 1, low + 1];
}
