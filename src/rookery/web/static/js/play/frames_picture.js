// Frames of envs: one image with a tile for each, marked when an episode has ended.

const OUTCOMES = { won: "#60c870", succeeded: "#60c870", lost: "#de5850", failed: "#de5850", drawn: "#e4be5c" };
const GAP = 4; // pixels between tiles

/** Draws into a canvas: `draw(frame, image)`. `tiles` tells how the image is divided. */
export function framesPicture(canvas, tiles) {
  const pen = canvas.getContext("2d", { alpha: false });
  const gap = tiles.count > 1 ? GAP : 0;
  const zoom = tiles.pixelated ? Math.max(1, Math.floor(1280 / (tiles.columns * tiles.width))) : 1;
  const width = tiles.width * zoom, height = tiles.height * zoom;
  canvas.width = tiles.columns * (width + gap) - gap + 2 * gap;
  canvas.height = tiles.rows * (height + gap) - gap + 2 * gap;

  function draw(frame, image) {
    pen.imageSmoothingEnabled = !tiles.pixelated;
    pen.fillStyle = "#16161a";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    frame.cells.forEach((cell, k) => {
      const column = k % tiles.columns, row = Math.floor(k / tiles.columns);
      const left = gap + column * (width + gap), top = gap + row * (height + gap);
      if (!cell.playing && gap) {
        pen.fillStyle = OUTCOMES[cell.outcome] ?? "#969eac";
        pen.fillRect(left - gap, top - gap, width + 2 * gap, height + 2 * gap);
      }
      pen.drawImage(image, column * tiles.width, row * tiles.height, tiles.width, tiles.height, left, top, width,
        height);
    });
    image.close();
  }
  return { draw };
}
