"use strict";
// What charts take from the page before they are drawn: names that fit beside them, and ticks.

const POWERS = Array.from({ length: 13 }, (_, power) => 10 ** power);
const MOST_TICKS = 12;

/** One channel, in all layers that have it. */
function encodedIn(spec, channel) {
  return spec.layer.map((layer) => layer.encoding[channel]).filter(Boolean);
}

/** Names of columns, as much of them as there is room for: a third of the chart at most. */
function fitNames(spec, features, width) {
  const axes = ["x", "y"].flatMap((channel) => encodedIn(spec, channel)).map((encoded) => encoded.axis);
  const named = axes.filter((axis) => axis && axis.labelExpr && axis.labelLimit);
  if (named.length === 0) return;
  const room = Math.max(Math.min(named[0].labelLimit, width / 3), 60);
  for (const axis of named) axis.labelLimit = room;
  spec.params = [
    { name: "names", value: features.map((name) => clipTo(name, room)) },
    { name: "wholeNames", value: features },
    { name: "roomForNames", value: room },
  ];
}

/** Names of columns beside a chart have a tooltip with the whole name. */
function tellNames(vega) {
  for (const axis of vega.axes || []) {
    const labels = axis.encode && axis.encode.labels;
    if (!labels || !JSON.stringify(labels).includes("names[")) continue;
    labels.interactive = true;
    labels.update = { ...labels.update, tooltip: { signal: "wholeNames[datum.value]" } };
  }
  return vega;
}

/** Ticks for distances over powers of ten; in a narrow range others are better, and Vega finds them. */
function distanceTicks(values) {
  const [low, high] = [Math.min, Math.max].map((end) => values.reduce((one, other) => end(one, other)));
  if (low === high) return [low];
  const within = (leads) => [0, ...POWERS.flatMap((power) => leads.map((lead) => lead * power))].filter((value) => value >= low && value <= high);
  const ticks = within([1, 2, 5]);
  if (ticks.length < 3) return null;
  return ticks.length <= MOST_TICKS ? ticks : within([1]);
}
