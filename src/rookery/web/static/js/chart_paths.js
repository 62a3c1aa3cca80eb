// Lines and areas of a chart, in short parts: a browser without a GPU takes ten times as long to draw a curve of a
// thousand points in one piece.

const PART = 24; // points
const STEEP = 4; // pixels up and down for each one of the width: then a line is thin, drawn quicker and seen better
const THIN = 1; // pixel of the screen

/** `paths` of a curve of uPlot, straight over gaps. Every extreme is drawn, however many points there are. */
export function line(plot, index, from, to) {
  const points = extremes(plot, index, from, to);
  const width = travel(points) > STEEP * plot.bbox.width ? { _width: THIN / devicePixelRatio } : {};
  return { stroke: new Parts(plot.series[index].colour, split(points, traced)), fill: null, ...width };
}

function travel(points) {
  let sum = 0;
  for (let i = 3; i < points.length; i += 2) sum += Math.abs(points[i] - points[i - 2]);
  return sum;
}

/** `paths` of the area from a curve down to 0. Of several points in a column of pixels it shows the last. */
export function area(plot, index, from, to) {
  const top = columns(plot, index, from, to, (_, y) => y), base = Math.round(placeY(plot, index)(0));
  const parts = split(top, (part) => closed(part, base));
  return { stroke: null, fill: new Parts(plot.series[index].fill(plot, index), parts) };
}

/** `paths` of the area between a curve, the upper one, and that of another index: as wide as it is in each column. */
export const between = (other) => (plot, index, from, to) => {
  const high = columns(plot, index, from, to, Math.min), low = columns(plot, other, from, to, Math.max);
  const known = new Map();
  for (let i = 0; i < low.length; i += 2) known.set(low[i], low[i + 1]);
  const make = (part) => enclosed(part, (x, y) => known.get(x) ?? y);
  return { stroke: null, fill: new Parts(plot.series[index].fill(plot, index), split(high, make)) };
};

/** Whether there is room for a dot at each point. */
export function hasRoom(plot, index, from, to) {
  let count = 0;
  for (let i = from; i <= to; i++) count += plot.data[index][i] != null;
  return count * 10 < plot.bbox.width / devicePixelRatio;
}

/** [x, y, x, y, ...] in pixels. Of the points of one column of pixels: the first, the least, the largest, the last. */
function extremes(plot, index, from, to) {
  const points = [];
  let column = null, low = 0, high = 0, last = 0, count = 0;
  const end = () => {
    if (count > 2) points.push(column, low, column, high);
    if (count > 1) points.push(column, last);
  };
  eachPixel(plot, index, from, to, (x, y) => {
    if (x !== column) {
      end();
      points.push(x, y);
      column = x;
      low = high = last = y;
      count = 1;
      return;
    }
    low = Math.min(low, y);
    high = Math.max(high, y);
    last = y;
    count += 1;
  });
  end();
  return points;
}

/** [x, y, x, y, ...] with one y for each column of pixels; `join(y, next)` makes one of two. */
function columns(plot, index, from, to, join) {
  const points = [];
  eachPixel(plot, index, from, to, (x, y) => {
    if (points.at(-2) === x) points[points.length - 1] = join(points.at(-1), y);
    else points.push(x, y);
  });
  return points;
}

function eachPixel(plot, index, from, to, tell) {
  const x = plot.data[0], y = plot.data[index], { left, width } = plot.bbox;
  const atX = placeOn(plot.scales.x, left, width), atY = placeY(plot, index);
  for (let i = from; i <= to; i++) if (y[i] != null) tell(Math.round(atX(x[i])), Math.round(atY(y[i])));
}

function placeY({ scales, series, bbox }, index) {
  return placeOn(scales[series[index].scale], bbox.top + bbox.height, -bbox.height);
}

/** The pixel of a value on a linear scale. */
function placeOn({ min, max }, start, length) {
  const per = length / (max - min || 1);
  return (value) => start + (value - min) * per;
}

function split(points, make) {
  const parts = [];
  for (let at = 0; at < points.length - 2; at += 2 * PART) parts.push(make(points.slice(at, at + 2 * PART + 2)));
  return parts;
}

function traced(points) {
  const path = new Path2D();
  for (let i = 0; i < points.length; i += 2) path.lineTo(points[i], points[i + 1]);
  return path;
}

/** The area under points. */
function closed(points, base) {
  const path = traced(points);
  path.lineTo(points.at(-2), base);
  path.lineTo(points[0], base);
  return path;
}

/** The area under points, down to `floor(x, y)` of each. */
function enclosed(points, floor) {
  const path = traced(points);
  for (let i = points.length - 2; i >= 0; i -= 2) path.lineTo(points[i], floor(points[i], points[i + 1]));
  return path;
}

/** uPlot draws the paths of a map, whose keys are their colours: here several have one. */
class Parts extends Map {
  constructor(colour, paths) {
    super();
    Object.assign(this, { colour, paths });
  }

  forEach(draw) { for (const path of this.paths) draw(path, this.colour); }
}
