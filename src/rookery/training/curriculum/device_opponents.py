"""The opponents of a run on a device that are policies: copies of the agent, past agents, agents of other runs.

Those of the agent's own form share one stack of weights with a fixed number of places, so that a CUDA graph stays valid
while they change. Which policy is at which place is decided between two rollouts; a place is free once no game is, or
will be, against its policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.config import Opponent
from rookery.errors import OptionError
from rookery.learners.kernels.gpu.policy_stack import PolicyStack, make_stack
from rookery.learners.learner import Learner, Tree, generator_state, load_generator
from rookery.learners.policy import Policy
from rookery.training.curriculum.device_draws import (
    COPIES,
    POLICIES,
    WORLD_PLAYED,
    RandomStack,
    code_of,
    code_of_copy,
    pick_many,
)
from rookery.training.curriculum.opponents import COPY_EVERY
from rookery.training.league.league import SELF, League, priorities, shares_of
from rookery.training.players.agents import AgentPlayer, find_player
from rookery.training.players.file_player import RandomPlayer
from rookery.training.resolve.seats import SCRIPTS, Seat

COPY_PLACES = 8  # for copies of the agent: games that began with older ones are still played
SPARE_PLACES = 4  # for past agents that have retired, while games against them are played


class DeviceOpponents:
    """The opponents of all envs, and their actions."""

    without_saved_memory: Sequence[str] = ()

    def __init__(
        self, learner: Learner, seat: Seat, runs_dir: Path, league: League, opponents: Sequence[Opponent], num_envs: int
    ) -> None:
        """`opponents` are those of all phases."""
        self.league, self.seat = league, seat
        self._learner, self._runs_dir, self._device = learner, runs_dir, learner.device
        named = [opponent.who for opponent in opponents]
        self._own_kinds = {who for who in named if who in (*COPIES, "archive")}
        has_archive = "archive" in self._own_kinds
        copies = COPY_PLACES if self._own_kinds else 0
        self._places = copies + (league.settings.size + SPARE_PLACES if has_archive else 0)
        self._at: list[str] = [""] * self._places  # the name of the policy at each place
        self._copied_at = dict.fromkeys(COPIES, -1)  # steps
        self._copied_after = dict.fromkeys(COPIES, -1)  # updates
        self._used = np.zeros(self._places, np.bool_)
        self._current = torch.zeros(2 * len(COPIES), dtype=torch.int64, device=self._device)  # codes of the copies
        self._generator = torch.Generator(self._device).manual_seed(0)
        self._stacks: list[tuple[int, int, PolicyStack, Tensor | None]] = []  # first number, count, stack, actions
        if self._places:
            self._stacks.append((POLICIES, self._places, make_stack(learner.policy, self._places, num_envs), None))
        self.names = [*WORLD_PLAYED, *self._at]  # by number
        for who in dict.fromkeys([*named, *(league.baselines if has_archive else ())]):
            if who not in (*COPIES, "archive") and who.lower() not in SCRIPTS:
                self._add_named(who, num_envs)
        self._samples = not all(opponent.deterministic for opponent in opponents)
        self._nothing = torch.as_tensor(seat.nothing, device=self._device)

    def seed(self, seed: int) -> None:
        """Fix the random actions that follow."""
        self._generator.manual_seed(seed)

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """What random actions are drawn from."""
        return (self._generator,)

    def number_of(self, who: str) -> int:
        """The number of an opponent that is named by the config."""
        return self.names.index(who)

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return len(self.names)

    # --- in a step ----------------------------------------------------------------------------------------------

    def begin(self, codes: Tensor, planned: Tensor, rows: Tensor) -> Tensor:
        """The codes of the opponents of all rows, after new games have begun in the rows of a mask."""
        resolved = torch.where(planned < 0, self._current[(-1 - planned).clamp(min=0)], planned)
        for _, _, stack, _ in self._stacks:
            stack.begin(rows)
        return torch.where(rows, resolved, codes)

    def act(self, codes: Tensor, views: Tensor, masks: Tensor | None) -> Tensor:
        """Actions for all rows; opponents that the world plays do nothing."""
        shape = (len(codes), *self._nothing.shape)
        actions, numbers = self._nothing.expand(shape), codes // 2
        for first, count, stack, table in self._stacks:
            mine = (numbers >= first) & (numbers < first + count)
            own = torch.where(mine, numbers - first, -1)
            samples = self._samples or stack.always_samples
            noise = stack.sample_noise(len(codes), self._generator) if samples else None
            with self._products():
                theirs = stack.act(own, views, masks, noise, codes % 2 == 1)
            theirs = theirs if table is None else table[theirs]
            actions = torch.where(mine.reshape(-1, *[1] * (theirs.ndim - 1)), theirs.to(actions.dtype), actions)
        return actions

    @contextmanager
    def _products(self) -> Iterator[None]:
        """Products of opponents may round more, unless the learner's options say float32."""
        matmul = torch.backends.cuda.matmul
        before, matmul.allow_tf32 = matmul.allow_tf32, self._learner.options.precision != "float32"
        try:
            yield
        finally:
            matmul.allow_tf32 = before

    def state_tensors(self) -> list[Tensor]:
        """What a step changes."""
        return [tensor for _, _, stack, _ in self._stacks for tensor in stack.state()]

    # --- between two rollouts -----------------------------------------------------------------------------------

    def absorb(self, results: np.ndarray, used: np.ndarray) -> None:
        """Take in what a rollout brought: games lost, drawn and won against each number, [numbers, 3], and whether a
        game is, or will be, against it."""
        for number in np.flatnonzero(results.sum(1)).tolist():
            lost, drawn, won = results[number].tolist()
            self.league.add_games(self.names[number], won, drawn, lost)
        self._used = used[POLICIES : POLICIES + self._places].copy()

    def prepare(self, steps: int) -> None:
        """Place the policies of the games that begin in the next rollout."""
        self._free_places()
        for kind in COPIES:
            if kind in self._own_kinds or (kind == SELF and "archive" in self._own_kinds):
                self._copy_if_due(kind, steps)
        if "archive" in self._own_kinds:
            for member in self.league.archive.active:
                if member.name not in self._at:
                    self._place(member.name, lambda name=member.name: self.league.load_policy(name).policy)

    def keep_places(self) -> None:
        """New games have begun everywhere: no place is free until the next figures say so."""
        self._used[:] = True

    def checkpoint_saved(self, steps: int) -> None:
        """A checkpoint was written: from the next rollout on this is the opponent "latest"."""
        self._copied_at["latest"] = -1

    def choose(self, kind: Tensor, which: Tensor) -> Tensor:
        """Codes of opponents from the league, by two random numbers each: `choose_opponent`, with the ratings as they
        are now and the members that have a place."""
        league, settings = self.league, self.league.settings
        members = [member for member in league.archive.active if member.name in self._at]
        baselines = [code_of(self.number_of(SCRIPTS.get(who.lower(), who)), False) for who in league.baselines]
        shares = shares_of(len(members), len(baselines), settings)
        if not any(shares):
            return torch.full_like(kind, code_of_copy(SELF, False), dtype=torch.int64)
        ways = pick_many(self._doubles(shares), kind)
        codes = self._integers([code_of(self.names.index(member.name), False) for member in members] or [0])
        by_win_rate = priorities(members, settings.hardness) if members else [1.0]
        choices = [
            codes[pick_many(self._doubles(by_win_rate), which)],
            codes[pick_many(self._doubles([1.0] * len(codes)), which)],
            self._integers(baselines or [0])[pick_many(self._doubles([1.0] * (len(baselines) or 1)), which)],
        ]
        return torch.where(ways == 0, choices[0], torch.where(ways == 1, choices[1], choices[2]))

    def _doubles(self, numbers: Any) -> Tensor:
        return torch.tensor(np.asarray(numbers, np.float64), device=self._device)

    def _integers(self, numbers: list[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self._device)

    # --- places -------------------------------------------------------------------------------------------------

    def _free_places(self) -> None:
        wanted = {f"{kind}@{at}" for kind, at in self._copied_at.items()}
        wanted |= {member.name for member in self.league.archive.active}
        for place, name in enumerate(self._at):
            if name and name not in wanted and not self._used[place]:
                self._name_place(place, "")

    def _copy_if_due(self, kind: str, steps: int) -> None:
        """Copy the agent, if the last copy is too old and there is a place."""
        at, learner = self._copied_at[kind], self._learner
        changed = self._copied_after[kind] != learner.updates
        if at >= 0 and not (kind == SELF and changed and steps - at >= COPY_EVERY * learner.num_envs):
            return
        place = self._place(f"{kind}@{steps}", lambda: learner.policy)
        if place is None:
            return
        self._copied_at[kind], self._copied_after[kind] = steps, learner.updates
        self._point(kind, place)

    def _point(self, kind: str, place: int) -> None:
        first = 2 * COPIES.index(kind)
        for deterministic in (False, True):
            self._current[first + deterministic] = code_of(POLICIES + place, deterministic)

    def _place(self, name: str, policy: Any) -> int | None:
        """Put a policy into a free place; None if there is none."""
        if name in self._at:
            return self._at.index(name)
        place = self._at.index("") if "" in self._at else None
        if place is not None:
            self._stacks[0][2].put(place, policy())
            self._name_place(place, name)
        return place

    def _name_place(self, place: int, name: str) -> None:
        self._at[place] = self.names[POLICIES + place] = name

    def _add_named(self, who: str, num_envs: int) -> None:
        player = find_player(who, self.seat, self._runs_dir)
        if isinstance(player, AgentPlayer):
            policy: Policy = player.policy.to(self._device)
            stack: Any = make_stack(policy, 1, num_envs)
            stack.put(0, policy)
            table = None if player.action_table is None else torch.as_tensor(player.action_table, device=self._device)
        elif isinstance(player, RandomPlayer):
            stack, table = RandomStack(self.seat.action_space, self._device), None
        else:
            raise OptionError(
                f"the opponent {who!r} acts in Python, which needs the CPU in every step: give --set "
                "backend=kernel, or an agent of a run"
            )
        self._stacks.append((len(self.names), 1, stack, table))
        self.names.append(who)

    # --- checkpoints --------------------------------------------------------------------------------------------

    def state(self) -> Tree:
        stack = self._stacks[0][2] if self._places else None
        copies = [place for place, name in enumerate(self._at) if name and self.league.archive.find(name) is None]
        return {
            "places": list(self._at),
            "weights": {str(place): stack.saved(place) for place in copies} if stack is not None else {},
            "copied_at": dict(self._copied_at),
            "copied_after": dict(self._copied_after),
            "current": self._current.cpu().numpy(),
            "used": self._used.copy(),
            "generator": generator_state(self._generator),
        }

    def load(self, state: Tree) -> None:
        """Continue from `state()`; the league is loaded before this."""
        for place, name in enumerate(state["places"]):
            self._name_place(place, name)
            if name and str(place) in state["weights"]:
                self._stacks[0][2].load(place, state["weights"][str(place)])
            elif name:
                self._stacks[0][2].put(place, self.league.load_policy(name).policy)
        self._copied_at, self._copied_after = dict(state["copied_at"]), dict(state["copied_after"])
        self._current.copy_(torch.from_numpy(np.array(state["current"])))
        self._used = np.array(state["used"])
        load_generator(self._generator, state["generator"])
