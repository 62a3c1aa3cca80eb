// Hockey, drawn from its state: rackets, the puck with its trail, names, score and time.

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

// A table for air hockey, without players: painted once for each size of the canvas.

const WIDTH = 10, HEIGHT = 8; // of the table, in its own units
const TEAMS = ["#e25430", "#267ad6"];
const LEFT = 0.9167, RIGHT = 9.0833, LOW = 0.6667, HIGH = 7.3333; // where ice ends: goals and walls
const GOAL_LOW = 2.75, GOAL_HIGH = 5.25, GOAL_DEPTH = 0.3333;
const ZONE = 0.5, BACK = 3.5;

/** Paint the table with a pen whose units are the table's, y upwards. */
function paintTable(pen) {
  pen.fillStyle = "#161a24";
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  paintIce(pen);
  [0, 1].forEach((team) => paintHalf(pen, team));
  paintMiddle(pen);
  paintRails(pen);
  [0, 1].forEach((team) => paintGoal(pen, team));
}

function paintIce(pen) {
  const ice = pen.createRadialGradient(5, 4, 0.5, 5, 4, 5.4);
  ice.addColorStop(0, "#f3f7fb");
  ice.addColorStop(1, "#d4dee9");
  pen.fillStyle = ice;
  pen.fillRect(LEFT, LOW, RIGHT - LEFT, HIGH - LOW);
  pen.fillStyle = "rgb(148 168 194 / 45%)";
  for (let x = 1.125; x < 9; x += 0.25) {
    for (let y = 0.875; y < 7.3; y += 0.25) pen.fillRect(x - 0.014, y - 0.014, 0.028, 0.028);
  }
}

/** A team's tint, its lines, and the crease before its goal. */
function paintHalf(pen, team) {
  const side = team ? 1 : -1, mouth = team ? RIGHT : LEFT;
  const tint = pen.createLinearGradient(5, 0, mouth, 0);
  tint.addColorStop(0, `${TEAMS[team]}00`);
  tint.addColorStop(1, `${TEAMS[team]}18`);
  pen.fillStyle = tint;
  pen.fillRect(Math.min(5, mouth), LOW, Math.abs(mouth - 5), HIGH - LOW);
  pen.beginPath();
  pen.arc(mouth, 4, 1.25, team ? Math.PI / 2 : -Math.PI / 2, team ? 1.5 * Math.PI : Math.PI / 2);
  pen.fillStyle = `${TEAMS[team]}22`;
  pen.fill();
  stroke(pen, `${TEAMS[team]}99`, 0.045);
  line(pen, 5 + side * BACK, `${TEAMS[team]}73`, 0.035);
  pen.setLineDash([0.14, 0.11]);
  line(pen, 5 + side * ZONE, `${TEAMS[team]}80`, 0.03);
  pen.setLineDash([]);
}

function paintMiddle(pen) {
  line(pen, 5, "#94a8c2", 0.06);
  pen.beginPath();
  pen.arc(5, 4, 1, 0, 2 * Math.PI);
  stroke(pen, "#94a8c2", 0.06);
  pen.beginPath();
  pen.arc(5, 4, 0.12, 0, 2 * Math.PI);
  pen.fillStyle = "#94a8c2";
  pen.fill();
}

/** The frame; goals are gaps in it, and posts stand at their sides. */
function paintRails(pen) {
  pen.fillStyle = "#343e52";
  pen.fillRect(LEFT - GOAL_DEPTH, 0.3333, RIGHT - LEFT + 2 * GOAL_DEPTH, LOW - 0.3333);
  pen.fillRect(LEFT - GOAL_DEPTH, HIGH, RIGHT - LEFT + 2 * GOAL_DEPTH, 0.3333);
  for (const flip of [1, -1]) {
    for (const turn of [1, -1]) {
      const at = ([x, y]) => [5 + flip * (x - 5), 4 + turn * (y - 4)];
      const corners = [[0.5833, 0.3333], [1.0833, 0.3333], [1.0833, 2.6333], [0.75, 2.75], [0.5833, 2.75]].map(at);
      pen.beginPath();
      corners.forEach(([x, y]) => pen.lineTo(x, y));
      pen.closePath();
      pen.fill();
    }
  }
}

function paintGoal(pen, team) {
  const mouth = team ? RIGHT : LEFT, left = team ? mouth : mouth - GOAL_DEPTH;
  pen.fillStyle = "#0f121a";
  pen.fillRect(left, GOAL_LOW, GOAL_DEPTH, GOAL_HIGH - GOAL_LOW);
  pen.fillStyle = `${TEAMS[team]}38`;
  pen.fillRect(left, GOAL_LOW, GOAL_DEPTH, GOAL_HIGH - GOAL_LOW);
  pen.fillStyle = TEAMS[team];
  pen.fillRect(mouth - 0.045, GOAL_LOW, 0.09, GOAL_HIGH - GOAL_LOW);
}

function line(pen, x, colour, width) {
  pen.beginPath();
  pen.moveTo(x, LOW);
  pen.lineTo(x, HIGH);
  stroke(pen, colour, width);
}

function stroke(pen, colour, width) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.stroke();
}
