// Tens of thousands of dots, as pixels of one image: as shapes they would take ten times as long.

const EDGE = 4; // pixels beyond the area in which a dot at its border is still seen

/** Few dots are large ones. */
const dotSize = (count) => (count > 5000 ? 2 : count > 1000 ? 3.5 : count > 200 ? 4.5 : 6);

/** A square at x[i], y[i] for each i of `places`, later ones over earlier ones; `colour` is CSS, or a function of i. */
export function drawDots(pen, { places, x, y, colour, size = dotSize(places.length) }, at) {
  const { area } = at, ratio = pen.getTransform().a, side = Math.max(1, Math.round(size * ratio));
  const width = Math.ceil((area.width + 2 * EDGE) * ratio), height = Math.ceil((area.height + 2 * EDGE) * ratio);
  const image = new ImageData(width, height), pixels = new Uint32Array(image.data.buffer);
  const one = typeof colour === "string" ? pixelOf(colour) : null;
  const place = (pixel, begin) => Math.round((pixel - begin + EDGE) * ratio - side / 2); // NaN of an unknown value
  for (const i of places) {
    const left = place(at.x(x[i]), area.x), top = place(at.y(y[i]), area.y), pixel = one ?? pixelOf(colour(i));
    const right = Math.min(width, left + side), bottom = Math.min(height, top + side), first = Math.max(0, left);
    for (let row = Math.max(0, top); row < bottom; row += 1) {
      for (let k = first; k < right; k += 1) pixels[row * width + k] = pixel;
    }
  }
  pen.drawImage(canvasOf(image), area.x - EDGE, area.y - EDGE, width / ratio, height / ratio);
}

function canvasOf(image) {
  const canvas = new OffscreenCanvas(image.width, image.height);
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

const pixelOfColour = new Map();

/** A colour as a pixel of an image. */
function pixelOf(colour) {
  if (!pixelOfColour.has(colour)) {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    pixelOfColour.set(colour, new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer)[0]);
  }
  return pixelOfColour.get(colour);
}
