// Hockey, drawn from its state: rackets, the puck with its trail, names, score and time.

import { HEIGHT, TEAMS, WIDTH, paintTable } from "./hockey_table.js";

const PUCK = 13 / 60, KEPT = 15; // its radius; steps for which a caught puck is kept
const RACKET = [[5, -20], [5, 20], [-10, 20], [-18, 10], [-21, 0], [-18, -10],
  [-10, -20]].map(([x, y]) => [x / 50, y / 50]);

/** Draws into a canvas: `draw(frame)`. `names` are the players'. */
export function hockeyPicture(canvas, names) {
  const pen = canvas.getContext("2d", { alpha: false }), table = document.createElement("canvas");
  let scale = 0;

  function fit() {
    const wanted = Math.min(2400, Math.round(canvas.clientWidth * Math.min(2, devicePixelRatio || 1))) || 1000;
    if (canvas.width === wanted && scale) return;
    canvas.width = table.width = wanted;
    canvas.height = table.height = Math.round((wanted * HEIGHT) / WIDTH);
    scale = wanted / WIDTH;
    const brush = table.getContext("2d", { alpha: false });
    brush.setTransform(scale, 0, 0, -scale, 0, table.height);
    paintTable(brush);
  }

  function draw(frame) {
    fit();
    const game = frame.hockey;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.drawImage(table, 0, 0);
    pen.setTransform(scale, 0, 0, -scale, 0, canvas.height);
    if (game.winner) paintGlow(pen, game.winner);
    paintTrail(pen, game);
    [0, 1].forEach((player) => paintRacket(pen, player, game));
    paintPuck(pen, game);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    paintWords(pen, frame, names);
  }
  return { draw };
}

function paintRacket(pen, player, { x, y, angle }) {
  pen.save();
  pen.translate(x[player], y[player]);
  pen.rotate(angle[player]);
  pen.scale(player ? -1 : 1, 1);
  pen.beginPath();
  RACKET.forEach(([a, b]) => pen.lineTo(a, b));
  pen.closePath();
  pen.fillStyle = TEAMS[player];
  pen.fill();
  pen.strokeStyle = "rgb(0 0 0 / 28%)";
  pen.lineWidth = 0.05;
  pen.stroke();
  disc(pen, -0.15, 0, 0.165, "rgb(255 255 255 / 28%)");
  disc(pen, -0.15, 0, 0.11, "rgb(255 255 255 / 35%)");
  pen.restore();
}

/** The puck; around one that is kept, a ring that shortens with the time left. */
function paintPuck(pen, { x, y, hold }) {
  disc(pen, x[2] + 0.03, y[2] - 0.05, PUCK, "rgb(16 26 46 / 35%)");
  disc(pen, x[2], y[2], PUCK, "#1c202a");
  disc(pen, x[2], y[2], 0.8 * PUCK, "#343a48");
  [0, 1].filter((player) => hold[player] > 0).forEach((player) => {
    pen.beginPath();
    pen.arc(x[2], y[2], PUCK + 0.11, Math.PI / 2, Math.PI / 2 - 2 * Math.PI * Math.min(1, hold[player] / KEPT), true);
    pen.strokeStyle = TEAMS[player];
    pen.lineWidth = 0.07;
    pen.stroke();
  });
}

/** Where the puck comes from: the faster, the longer. */
function paintTrail(pen, { x, y, vx, vy }) {
  const speed = Math.hypot(vx, vy), length = Math.min(2.2, 0.07 * speed);
  if (length < PUCK / 2) return;
  const [ax, ay] = [x[2] - (vx / speed) * length, y[2] - (vy / speed) * length];
  const fade = pen.createLinearGradient(x[2], y[2], ax, ay);
  fade.addColorStop(0, "rgb(70 90 130 / 45%)");
  fade.addColorStop(1, "rgb(70 90 130 / 0%)");
  const [nx, ny] = [(-vy / speed) * PUCK, (vx / speed) * PUCK];
  pen.beginPath();
  [[x[2] + nx, y[2] + ny], [ax + nx / 4, ay + ny / 4], [ax - nx / 4, ay - ny / 4],
    [x[2] - nx, y[2] - ny]].forEach(([a, b]) => pen.lineTo(a, b));
  pen.fillStyle = fade;
  pen.fill();
}

function paintGlow(pen, winner) {
  const x = winner > 0 ? 9.2 : 0.8, glow = pen.createRadialGradient(x, 4, 0.1, x, 4, 2.4);
  const colour = TEAMS[winner > 0 ? 0 : 1];
  glow.addColorStop(0, `${colour}cc`);
  glow.addColorStop(1, `${colour}00`);
  pen.fillStyle = glow;
  pen.fillRect(x - 2.4, 1.6, 4.8, 4.8);
}

function paintWords(pen, frame, names) {
  const game = frame.hockey, won = frame.outcomes.won ?? 0, lost = frame.outcomes.lost ?? 0;
  write(pen, names?.[0] ?? "agent", 0.7, 0.17, 0.24, "#ff9a7f", "left");
  write(pen, names?.[1] ?? "opponent", 9.3, 0.17, 0.24, "#8cc0ff", "right");
  write(pen, `game ${frame.episode}`, 0.7, 7.84, 0.22, "#b0bcd0", "left");
  write(pen, game.limit ? `step ${game.steps} / ${game.limit}` : `step ${game.steps}`, 9.3, 7.84, 0.22, "#b0bcd0",
    "right");
  write(pen, String(won), 3.95, 1.35, 0.8, `${TEAMS[0]}a0`, "center");
  write(pen, String(lost), 6.05, 1.35, 0.8, `${TEAMS[1]}a0`, "center");
  if (frame.playing) return;
  const colour = game.winner ? TEAMS[game.winner > 0 ? 0 : 1] : "#46546e";
  pen.lineJoin = "round";
  write(pen, game.winner ? "GOAL" : "DRAW", 5, 4, 1.4, colour, "center", true);
}

function write(pen, text, x, y, size, colour, align, outlined = false) {
  pen.font = `600 ${size}px system-ui, sans-serif`;
  pen.textAlign = align;
  pen.textBaseline = "middle";
  pen.strokeStyle = "#ffffff";
  pen.lineWidth = 0.14;
  if (outlined) pen.strokeText(text, x, y);
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

function disc(pen, x, y, radius, colour) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = colour;
  pen.fill();
}
