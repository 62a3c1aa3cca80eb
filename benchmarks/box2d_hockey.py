"""The original hockey game on Box2D, with its scripted opponent: what an agent meets when it leaves rookery.

Players are numbered 0 (left) and 1 (right). As in the original, a game continues for one step beyond its limit of 250,
and the counts of a puck that is held survive a reset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from box2d_table import CENTRE_X, CENTRE_Y, GOALS, PIXELS, PUCK_MASS, RACKET_MASS, RACKETS, TIME_STEP, Table

STEPS = 250 + 1
KEPT = 15  # steps for which a caught puck is kept
SHOT_SPEED = 60.0
FORWARD = (1.0, -1.0)  # of the players, along x
FORCE, TORQUE = 6000.0, 400.0
MOST_ANGLE = math.pi / 3
PER_STEP = RACKET_MASS / TIME_STEP  # the force that changes a racket's velocity by 1 in a step


class Game:
    """Two players at a table: `reset`, then `step` until `is_over`; `winner` is 1 if player 0 wins, -1 if player 1."""

    def __init__(self, seed: int = 0) -> None:
        self.hold = [0, 0]
        self._random = np.random.default_rng(seed)
        self._one_starts = True

    def reset(self) -> None:
        """Begins a game; the puck lies in the players' halves by turns."""
        side = -1 if self._one_starts else 1
        self._one_starts = not self._one_starts
        observation = np.zeros(18)
        observation[[0, 6]] = -3.0, 3.0
        observation[12:14] = side * self._random.uniform(1, 2), self._random.uniform(-1, 1)
        observation[16:18] = self.hold
        self.put(observation)

    def put(self, observation: np.ndarray, spin: float = 0.0, met: Sequence[bool] = (False, False)) -> None:
        """Begins where player 0 observes this, the puck spins so, and these players' rackets have met it before."""
        self.winner, self.time = 0, 0
        self._met = list(met)
        numbers = observation.tolist()
        places = [(CENTRE_X + x, CENTRE_Y + y) for x, y in (numbers[0:2], numbers[6:8], numbers[12:14])]
        self._table = Table(places[:2], places[2], self._touch)
        self._rackets, self._puck = self._table.rackets, self._table.puck
        for body, moving in zip(self._rackets, (numbers[2:6], numbers[8:12]), strict=True):
            body.angle, body.linearVelocity, body.angularVelocity = moving[0], moving[1:3], moving[3]
        self._puck.linearVelocity, self._puck.angularVelocity = numbers[14:16], spin
        self.hold = [int(count) for count in numbers[16:18]]

    def push_puck(self, x: float, y: float) -> None:
        """Gives the puck more velocity, with the next step."""
        self._puck.ApplyForceToCenter((x * PUCK_MASS / TIME_STEP, y * PUCK_MASS / TIME_STEP), True)

    @property
    def is_over(self) -> bool:
        return self.winner != 0 or self.time >= STEPS

    def observe(self, player: int) -> np.ndarray:
        """The 18 numbers that a player sees: from the own side, as if playing from the left."""
        forward, seen = FORWARD[player], []
        for body in (self._rackets[player], self._rackets[1 - player]):
            (x, y), (vx, vy) = body.position, body.linearVelocity
            seen += [forward * (x - CENTRE_X), forward * (y - CENTRE_Y), body.angle]
            seen += [forward * vx, forward * vy, body.angularVelocity]
        (x, y), (vx, vy) = self._puck.position, self._puck.linearVelocity
        seen += [forward * (x - CENTRE_X), forward * (y - CENTRE_Y), forward * vx, forward * vy]
        return np.array([*seen, self.hold[player], self.hold[1 - player]], np.float32)

    def step(self, actions: Sequence[np.ndarray]) -> None:
        """One step, with an action of four numbers for each player."""
        asked = [np.clip(action, -1, 1).tolist() for action in actions]
        for player, (x, y, turn, _) in enumerate(asked):
            self._push(player, x, y)
            self._twist(player, turn)
        vx, vy = self._puck.linearVelocity
        self._puck.linearDamping = 10.0 if vx * vx + vy * vy > 25.0**2 else 0.05
        for player, (*_, shoot) in enumerate(asked):
            self._carry(player, shoot > 0.5)
        self._table.step()
        self.time += 1

    def _push(self, player: int, ask_x: float, ask_y: float) -> None:
        """Applies the force that a player asks for, as far as speed and the own half allow."""
        body, forward = self._rackets[player], FORWARD[player]
        (x, y), (vx, vy) = body.position, body.linearVelocity
        fx, fy = forward * FORCE * ask_x, forward * FORCE * ask_y
        beyond = forward * (x - CENTRE_X)
        body.linearDamping = 20.0
        if beyond > -0.5:  # near the centre line the own force is dropped, and who comes forward is turned back
            fx = -2.0 * vx * PER_STEP if forward * vx > 0 else 0.0
            fx -= beyond * vx * PER_STEP
        elif vx * vx + vy * vy < 10.0**2:
            body.linearDamping = 5.0
        elif math.hypot(vx + fx / PER_STEP, vy + fy / PER_STEP) >= math.hypot(vx, vy):
            return  # too fast for a force that does not slow
        if (beyond < -210 / PIXELS and forward * fx < 0) or (beyond > 0 and forward * fx > 0):
            vx, fx = 0.0, 0.0
        if (y > 6.8 and fy > 0) or (y < 1.2 and fy < 0):
            vy, fy = 0.0, 0.0
        body.linearVelocity = vx, vy
        body.ApplyForceToCenter((fx, fy), True)

    def _twist(self, player: int, ask: float) -> None:
        """Applies the torque that a player asks for, or turns a racket back that has gone too far."""
        body = self._rackets[player]
        angle, spin = body.angle, body.angularVelocity
        torque, body.angularDamping = TORQUE * ask, 2.0
        if abs(angle) > MOST_ANGLE:
            further = spin if angle * spin > 0 else 0.0
            torque, body.angularDamping = -0.1 * (angle + further) * PER_STEP, 10.0
        body.ApplyTorque(torque, True)

    def _carry(self, player: int, shoot: bool) -> None:
        """Takes a held puck along, and shoots it when asked to or when the time is up."""
        if self.hold[player] <= 1:
            return
        body = self._rackets[player]
        self._puck.position, self._puck.linearVelocity = body.position, body.linearVelocity
        self.hold[player] -= 1
        if shoot or self.hold[player] == 1:
            speed = FORWARD[player] * SHOT_SPEED
            self.push_puck(speed * math.cos(body.angle), speed * math.sin(body.angle))
            self.hold[player] = 0

    def _touch(self, name: str) -> None:
        """The puck begins to touch something: a goal is reached, or a player catches it unless it is leaving."""
        if name in GOALS:
            self.winner = -1 if name == GOALS[0] else 1
        elif name in RACKETS:
            player = RACKETS.index(name)
            leaving = FORWARD[player] * self._puck.linearVelocity[0]
            if not self._met[player] and leaving < 0.1 and self.hold[player] == 0:
                self.hold[player] = KEPT


class Script:
    """The original's scripted opponent, weak or strong: goes behind the puck and kicks it, and else guards its goal."""

    def __init__(self, strong: bool, seed: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._gains = (10.0 if strong else 0.5) * np.array([1.0, 0.2, 0.5])
        self._swing = self._random.uniform(0, math.pi)

    def reset(self) -> None:
        """A new game begins; the swing of the racket continues, as in the original."""

    def act(self, observation: np.ndarray) -> np.ndarray:
        """What it does where it observes this."""
        seen = observation.astype(np.float64)
        self._swing += self._random.uniform(0, 0.2)
        target = np.array([*self._target(*seen[:2], *seen[12:16]), MOST_ANGLE * math.sin(self._swing)])
        error, velocity = target - seen[:3], seen[3:6]
        is_near = np.abs(error) < np.array([0.1, 0.1, 1.0]) * np.abs(velocity + 0.01)
        asked = np.clip(self._gains * error - 0.5 * velocity * is_near, -1, 1)
        return np.append(asked, 1.0 if 0 < seen[16] < 7 else 0.0)

    @staticmethod
    def _target(
        x: float, y: float, puck_x: float, puck_y: float, puck_vx: float, puck_vy: float
    ) -> tuple[float, float]:
        """Where a player at (x, y) wants to be."""
        if puck_vx >= 0.5:
            return -3.5, 0.0
        if x < puck_x and abs(y - puck_y) < 0.5:
            return puck_x + 0.2, puck_y + 0.1 * puck_vy * math.hypot(x - puck_x, y - puck_y)
        return -3.5, puck_y
