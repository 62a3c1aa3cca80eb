// A table for air hockey, without players: painted once for each size of the canvas.

export const WIDTH = 10, HEIGHT = 8; // of the table, in its own units
export const TEAMS = ["#e25430", "#267ad6"];
const LEFT = 0.9167, RIGHT = 9.0833, LOW = 0.6667, HIGH = 7.3333; // where ice ends: goals and walls
const GOAL_LOW = 2.75, GOAL_HIGH = 5.25, GOAL_DEPTH = 0.3333;
const ZONE = 0.5, BACK = 3.5;

/** Paint the table with a pen whose units are the table's, y upwards. */
export function paintTable(pen) {
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
