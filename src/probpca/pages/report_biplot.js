"use strict";
// Arrows of a biplot: the columns with the largest loadings, scaled to the scores, with names that do not overlap.

const MOST_ARROWS = 10;
const SHORTEST = 0.3; // of the longest arrow
const APART = 0.14; // of the longest arrow: nearer tips are left out
const NAME_HEIGHT = 15;
const WIDEST = 150;

/** Lowest and highest of some numbers, with a margin. */
function extent(values, margin = 0.05) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!(high > low)) return [low - 1, high + 1];
  return [low - margin * (high - low), high + margin * (high - low)];
}

/** The longest arrows in the plane of components a and b whose tips are apart. */
function longestArrows(data, known, a, b) {
  const columns = [...new Set([...data.loadingsOf[a].columns, ...data.loadingsOf[b].columns])];
  const all = columns.map((j) => ({ j, u: known.loadingOf(j, a), v: known.loadingOf(j, b) }));
  all.sort((one, other) => Math.hypot(other.u, other.v) - Math.hypot(one.u, one.v));
  const longest = Math.hypot(all[0].u, all[0].v);
  const found = [];
  for (const arrow of all) {
    if (found.length === MOST_ARROWS || Math.hypot(arrow.u, arrow.v) < SHORTEST * longest) break;
    if (found.every((other) => Math.hypot(arrow.u - other.u, arrow.v - other.v) >= APART * longest)) found.push(arrow);
  }
  return longest > 0 ? found : [];
}

/** Arrows in units of the scores, the reach of both axes, and the places of the names. */
function biplotOf(data, known, points, a, b, size) {
  const arrows = known.q === 1 || a === b ? [] : longestArrows(data, known, a, b);
  const most = (values) => values.reduce((one, other) => Math.max(one, Math.abs(other)), 0);
  const factors = [["a", "u"], ["b", "v"]].map(([score, loading]) => most(points.map((point) => point[score])) / most(arrows.map((arrow) => arrow[loading])));
  const factor = 0.9 * Math.min(...factors.filter(Number.isFinite), Number.MAX_VALUE);
  for (const arrow of arrows) Object.assign(arrow, { a: factor * arrow.u, b: factor * arrow.v, x0: 0, y0: 0, side: arrow.u < 0 ? -1 : 1 });
  const reach = { x: extent([...points, ...arrows].map((one) => one.a)), y: extent([...points, ...arrows].map((one) => one.b)) };
  for (const arrow of arrows) {
    arrow.name = data.features[arrow.j];
    arrow.label = clipTo(arrow.name, Math.min(WIDEST, size.width / 4));
    arrow.loadings = `${say(arrow.u, 3)}, ${say(arrow.v, 3)}`;
  }
  makeRoom(arrows, reach, size.width);
  placeNames(arrows, reach, size);
  return { arrows, reach };
}

/** Widen the horizontal axis until all names fit. */
function makeRoom(arrows, reach, width) {
  for (let round = 0; round < 4; round += 1) {
    const unit = (reach.x[1] - reach.x[0]) / width;
    for (const arrow of arrows) {
      const end = arrow.a + arrow.side * unit * (widthOfText(arrow.label) * 1.08 + 10);
      if (end < reach.x[0]) reach.x[0] = end;
      if (end > reach.x[1]) reach.x[1] = end;
    }
  }
}

/** Names move down, away from names that are already there; heads of arrows are turned. */
function placeNames(arrows, reach, { width, height }) {
  const unitX = (reach.x[1] - reach.x[0]) / width;
  const unitY = (reach.y[1] - reach.y[0]) / height;
  const taken = [];
  for (const arrow of [...arrows].sort((one, other) => other.b - one.b)) {
    const near = arrow.a / unitX + 5 * arrow.side;
    const far = near + arrow.side * widthOfText(arrow.label) * 1.08;
    const [left, right] = [Math.min(near, far), Math.max(near, far)];
    let y = arrow.b / unitY + (arrow.b < 0 ? -4 : 4);
    for (const other of taken) {
      if (left < other.right && right > other.left && Math.abs(y - other.y) < NAME_HEIGHT) y = other.y - NAME_HEIGHT;
    }
    taken.push({ left, right, y });
    arrow.nameX = arrow.a;
    arrow.nameY = y * unitY;
    arrow.angle = (Math.atan2(arrow.a / unitX, arrow.b / unitY) * 180) / Math.PI;
  }
}
