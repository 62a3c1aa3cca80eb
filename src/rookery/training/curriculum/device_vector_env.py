"""The envs of a curriculum on a device: phases, opponents and shaped rewards without a wait for the host.

What `CurriculumVectorEnv` does in every step with arrays, this does with tensors that stay at their addresses, so that
a rollout can be one CUDA graph. Plans, shaping weights and the ends of phases are the same. What the host decides (the
end of a phase, copies of the agent, ratings and choices of the league) it decides between two rollouts, from figures
of the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.engine.cuda import CudaEngine
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.learners.learner import Tree
from rookery.learners.observations import MASK_KEY
from rookery.training.curriculum.device_opponents import DeviceOpponents
from rookery.training.curriculum.device_plans import HostCopy, PlanBuffer, RolloutResults, ShapingWeights
from rookery.training.curriculum.phases import Phases
from rookery.training.curriculum.vector_env import GAMES_KEY, CurriculumVectorEnv
from rookery.training.resolve.seats import SCRIPTS, VIEW, masks_of_both


class DeviceCurriculumVectorEnv(CurriculumVectorEnv):
    """A `CudaEngine`'s envs with phases, opponents and shaped rewards. Call `before_rollout` before, and
    `after_rollout` after at most `rollout_length` steps."""

    returns_tensors = True
    can_be_captured = True
    engine: CudaEngine  # type: ignore[assignment]
    opponents: DeviceOpponents | None  # type: ignore[assignment]

    def __init__(
        self,
        engine: CudaEngine,
        phases: Phases,
        defaults: Mapping[str, Any],
        opponents: DeviceOpponents | None = None,
        scripts: bool = False,
        reward_scale: float = 1.0,
        seed: int = 0,
        rollout_length: int = 64,
    ) -> None:
        """As a `CurriculumVectorEnv`'s."""
        super().__init__(engine, phases, defaults, None, scripts, reward_scale, seed)  # type: ignore[arg-type]
        self.opponents, count, device = opponents, engine.num_envs, engine.device
        if opponents is not None:
            opponents.seed(child_seed(seed, GAMES_KEY))
        self._plans = PlanBuffer(phases, seed, count, rollout_length + 2, self._record, scripts, device)
        if self._plans.varies:
            if engine.agents > 1:
                raise OptionError("options of phases need worlds with one row per env: omit `options` and `mixture`")
            engine.staging.spread()
        self._shaping = ShapingWeights(phases, count, device)
        window = max(phase.until.games if phase.until else 1 for phase in phases.all)
        self._judges = opponents is not None or any(phase.until for phase in phases.all)
        numbers = 1 if opponents is None else opponents.count
        self._results = RolloutResults(rollout_length, count, numbers, window, device)
        self._figures = HostCopy(self._results.figures)
        self._begun = torch.zeros(count, dtype=torch.int64, device=device)  # episodes of each env so far
        self._facing, self._planned = (torch.zeros(count, dtype=torch.int64, device=device) for _ in range(2))
        self._rounds = 0  # steps of each env whose figures are on their way

    def _record(self, options: Mapping[str, Any], who: str) -> Tensor:
        """The parameters of an episode with these options against this opponent."""
        script = {"opponent": who if who in SCRIPTS else "free"} if self._scripts else {}
        return self.engine.staging.record({**self._defaults, **options, **script})

    # --- as an engine on a device -------------------------------------------------------------------------------

    @property
    def phases(self) -> Phases:
        """The phases, with all rollouts counted: this waits for the figures of the last one."""
        if self._figures.pending:
            self._absorb()
        return self._phases

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """What steps draw random numbers from."""
        return () if self.opponents is None else self.opponents.generators

    @property
    def last_returns(self) -> Tensor:
        return self.engine.last_returns

    @property
    def last_lengths(self) -> Tensor:
        return self.engine.last_lengths

    def check(self) -> None:
        """As the engine's."""
        self.engine.check()

    def episodes_begun(self) -> Tensor:
        """As the engine's."""
        return self.engine.episodes_begun()

    def final_infos(self) -> dict[str, Tensor]:
        """As the engine's."""
        return self.engine.final_infos()

    def present(self) -> tuple[Any, Tensor | None]:
        """The observations of all envs, and the agent's action masks."""
        observations, mask = self.engine.present()
        return observations, mask if self.opponents is None else self._masks_of_both()[0]

    def device_state(self) -> list[Tensor]:
        """All tensors that a step changes and reads again."""
        own = [self._begun, self._facing, self._planned, *self._shaping.state(), *self._results.state()]
        theirs = [] if self.opponents is None else self.opponents.state_tensors()
        return [*self.engine.device_state(), *own, *theirs]

    def finished_episodes(self) -> np.ndarray:
        return self.engine.finished_episodes()

    # --- between two rollouts -----------------------------------------------------------------------------------

    def before_rollout(self) -> None:
        """Decide what the host decides, and plan the episodes that may begin in the next rollout."""
        if self._figures.pending:
            self._absorb()
        self._results.begin()
        self._plan()

    def after_rollout(self, rounds: int) -> None:
        """Every env has made so many steps: let the figures about them leave the device. Nothing waits here."""
        self._results.finish(self._facing, self._planned)
        self._figures.start()
        self._rounds = rounds

    def _plan(self) -> None:
        opponents = self.opponents
        if opponents is None:
            self._plans.plan(self._begun, lambda who: 0, lambda kind, which: torch.zeros_like(kind).long())
            return
        opponents.prepare(self.steps)
        self._plans.plan(self._begun, opponents.number_of, opponents.choose)

    def _absorb(self) -> None:
        episodes, outcomes, results, used = self._results.read(self._figures.wait())
        steps = self._rounds * self.engine.num_envs
        self.steps += steps
        if self.opponents is not None:
            self.opponents.absorb(results, used)
        self._phases.add(steps, episodes, outcomes)

    # --- stepping -----------------------------------------------------------------------------------------------

    def reset(self, *, seed: int | Sequence[int] | None = None) -> tuple[Any, dict[str, Any]]:
        everywhere = torch.ones(self.engine.num_envs, dtype=torch.bool, device=self.engine.device)
        self._shaping.begin_phase(self._phases)
        self._plan()
        self._stage(everywhere)
        observations, infos = self.engine.reset(seed=seed)
        self._begin_episodes(everywhere)
        if self.opponents is not None:
            self.opponents.keep_places()
        return observations, self._with_own_masks(infos)

    def step(self, actions: Any) -> tuple[Any, ...]:
        *results, _ = self.step_for_learner(actions)
        return *results, self._with_own_masks(self.engine.infos())

    def step_for_learner(self, actions: Any) -> tuple[Any, ...]:
        """As the engine's."""
        both = self._with_opponent_actions(actions)
        observations, rewards, terminated, truncated, finals = self.engine.step_for_learner(both)
        ended = terminated | truncated
        rewards = self._shaping.shaped(rewards, self.engine.arena, ended)
        rewards = rewards if self._scale == 1.0 else rewards * self._scale
        self._results.add(ended, self._winners(), self._facing)
        self._shaping.count(ended)
        self._begin_episodes(ended)
        return observations, rewards, terminated, truncated, finals

    def _winners(self) -> Tensor | None:
        """Who won the games that ended last, if anything depends on it."""
        if not self._judges or "winner" not in self.engine.world.info:
            return None
        return self.engine.arena.field("final_infos", "winner")

    def _begin_episodes(self, rows: Tensor) -> None:
        """The planned episodes of these rows have begun; the next ones are planned."""
        self._shaping.begin(rows)
        if self.opponents is not None:
            self._facing.copy_(self.opponents.begin(self._facing, self._planned, rows))
        self._begun.add_(rows)
        self._stage(rows)

    def _stage(self, rows: Tensor) -> None:
        """Keep the plans of the next episodes of these rows, and their options in the engine."""
        records, codes = self._plans.next_of(self._begun)
        self._planned.copy_(torch.where(rows, codes, self._planned))
        if self._plans.varies:
            staging = self.engine.staging
            staging.next_params.copy_(torch.where(rows[:, None], self._plans.table[records], staging.next_params))
            staging.staged.masked_fill_(rows, 1)

    def _with_opponent_actions(self, actions: Tensor) -> Tensor:  # type: ignore[override]
        if self.opponents is None:
            return actions
        theirs = self.opponents.act(self._facing, self._opponent_views(), self._masks_of_both()[1])
        return torch.cat([actions.flatten(1) if actions.ndim > 1 else actions[:, None], _columns(theirs)], 1)

    def _opponent_views(self) -> Tensor:
        """What opponents observe now."""
        assert self.opponents is not None
        space = self.opponents.seat.observation_space
        return self.engine.arena.field("infos", VIEW).reshape(self.engine.num_envs, *(space.shape or ()))

    def _masks_of_both(self) -> tuple[Tensor | None, Tensor | None]:
        assert self.opponents is not None
        if MASK_KEY not in self.engine.world.info:
            return None, None
        masks = self.engine.arena.field("infos", MASK_KEY)
        return masks_of_both(masks, self.opponents.seat.action_space)  # type: ignore[arg-type,return-value]

    def _with_own_masks(self, infos: dict[str, Any]) -> dict[str, Any]:
        own = None if self.opponents is None else self._masks_of_both()[0]
        return infos if own is None else {**infos, MASK_KEY: own}

    # --- checkpoints --------------------------------------------------------------------------------------------

    def curriculum_state(self) -> Tree:
        phases = self.phases.state()
        tensors = {"begun": self._begun, "facing": self._facing, "planned": self._planned}
        kept: Tree = {
            "phases": phases,
            "steps": self.steps,
            "weights": self._shaping.weights.cpu().numpy(),
            **{name: tensor.cpu().numpy() for name, tensor in tensors.items()},
        }
        if self.opponents is not None:
            kept |= {"opponents": self.opponents.state(), "league": self.opponents.league.state()}
        return kept

    def load_curriculum_state(self, state: Tree) -> None:
        self._phases.load(state["phases"])
        self.steps = state["steps"]
        self._shaping.begin_phase(self._phases)
        tensors = {"begun": self._begun, "facing": self._facing, "planned": self._planned}
        for name, tensor in (*tensors.items(), ("weights", self._shaping.weights)):
            tensor.copy_(torch.from_numpy(np.array(state[name])))
        if self.opponents is not None:
            self.opponents.league.load(state["league"])
            self.opponents.load(state["opponents"])

    def load_state_dict(self, state: Any) -> Any:
        """Load the engine's own state, in which the options of the next episodes wait."""
        return self.engine.load_state_dict(state)


def _columns(actions: Tensor) -> Tensor:
    return actions.reshape(len(actions), -1)
