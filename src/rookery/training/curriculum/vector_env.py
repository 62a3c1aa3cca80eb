"""The envs of a curriculum: to a `Collector` they are an engine like any other.

Between the learner and the engine, `CurriculumVectorEnv` adds the opponents' actions, shapes rewards, and plans each
env's next episode while the current one is played: the options wait in the engine, and the opponent changes when the
episode begins. Nothing about an episode changes before its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.engine.seeding import child_seed
from rookery.errors import WorldError
from rookery.learners.action_spaces import mask_of
from rookery.learners.learner import Tree
from rookery.learners.observations import MASK_KEY
from rookery.training.curriculum.opponents import SCRIPTED, Opponents
from rookery.training.curriculum.phases import EpisodePlan, Phases
from rookery.training.resolve.seats import SCRIPTS, VIEW, masks_of_both, views_in

GAMES_KEY = 1_000_033  # sets the seeds of opponents' games apart from all others


class CurriculumVectorEnv:
    """An engine's envs with phases, opponents and shaped rewards."""

    def __init__(
        self,
        engine: Engine,
        phases: Phases,
        defaults: Mapping[str, Any],
        opponents: Opponents | None = None,
        scripts: bool = False,
        reward_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        """`defaults` are the world's values of options that phases change. With `opponents`, the world is in its
        two-player form, and they act for the second player. `scripts`: the world plays scripted opponents itself."""
        self.engine, self._phases, self.opponents = engine, phases, opponents
        self._defaults, self._scripts, self._scale, self._seed = dict(defaults), scripts, reward_scale, seed
        self.steps = 0
        count = engine.num_envs
        self._episodes_begun = np.zeros(count, np.int64)  # episodes of each env so far
        self._next_plans: list[EpisodePlan] = []  # the next episode of each env
        self._staged: list[tuple[dict[str, Any], str]] = []  # its options and opponent
        self._opponent_numbers = np.full(count, SCRIPTED)
        self._opponent_names = [""] * count  # of the current opponents
        self._weights = np.zeros((count, len(phases.shaped)))
        self._views: np.ndarray | None = None  # what opponents observe
        self._masks: np.ndarray | None = None  # the actions that they may take, if the world has masks

    # --- as an engine -------------------------------------------------------------------------------------------
    # Only what a collector uses, name by name: an engine's other methods would bypass the phases.

    @property
    def phases(self) -> Phases:
        return self._phases

    @property
    def num_envs(self) -> int:
        return self.engine.num_envs

    @property
    def backend(self) -> str:
        return self.engine.backend

    @property
    def metadata(self) -> dict[str, Any]:
        return self.engine.metadata

    @property
    def groups(self) -> tuple[CurriculumVectorEnv]:
        """All envs as one group, however the engine divides them: the next opponents and reward weights are decided
        when all envs have made their step."""
        return (self,)

    def finished_episodes(self) -> np.ndarray:
        """As the engine's, with the world's own rewards: neither shaped nor scaled."""
        return self.engine.finished_episodes()

    def reset(self, *, seed: int | Sequence[int] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the current phase in every env."""
        all_envs = range(self.engine.num_envs)
        self._next_plans = []  # options that wait in the engine may be gone, as in a resumed run
        self._plan_next_episodes(all_envs)
        observations, infos = self.engine.reset(seed=seed)
        self._read_views(infos)
        self._begin_episodes(all_envs)
        self._plan_next_episodes(all_envs)
        return observations, self._with_own_masks(infos)

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        return self._process_step(self.engine.step(self._with_opponent_actions(actions)))

    def send(self, actions: np.ndarray) -> None:
        self.engine.send(self._with_opponent_actions(actions))

    def recv(self) -> tuple[Any, ...]:
        return self._process_step(self.engine.recv())

    def begin_next_phase(self) -> tuple[Any, dict[str, Any]]:
        """Begin the next phase with new episodes in all envs."""
        self.phases.begin_next()
        return self.reset()

    # --- a step -------------------------------------------------------------------------------------------------

    def _with_opponent_actions(self, actions: np.ndarray) -> np.ndarray:
        if self.opponents is None:
            return actions
        assert self._views is not None
        theirs = self.opponents.act(self._views, self._opponent_numbers, self._masks)
        both, space = np.concatenate([_columns(actions), _columns(theirs)], axis=1), self.engine.single_action_space
        # An env would receive the float64 of a player in the file of a user, which its float32 space does not contain.
        return both.astype(space.dtype) if both.dtype.kind == "f" and getattr(space.dtype, "kind", "") == "f" else both

    def _process_step(self, step: tuple[Any, ...]) -> tuple[Any, ...]:
        observations, rewards, terminated, truncated, infos = step
        ended = np.flatnonzero(terminated | truncated)
        final = infos.get("final_info", {})
        shaped = self._shaped(rewards, infos, final, ended)
        self._read_views(infos)
        self.steps += len(rewards)
        outcomes = self._outcomes(final, ended) if len(ended) else []
        self.phases.add(len(rewards), len(ended), outcomes)
        if len(ended):
            self._begin_episodes(ended.tolist())
            self._plan_next_episodes(ended.tolist())
        return observations, shaped, terminated, truncated, self._with_own_masks(infos)

    def _shaped(self, rewards: np.ndarray, infos: dict, final: dict, ended: np.ndarray) -> np.ndarray:
        """Rewards plus weighted infos; those of an episode's last step are in `final`."""
        for k, key in enumerate(self.phases.shaped):
            values = np.full(len(rewards), infos.get(key, 0.0), np.float64)
            if len(ended):
                values[ended] = np.asarray(final[key], np.float64)[ended] if key in final else 0.0
            rewards = rewards + self._weights[:, k] * values
        return rewards if self._scale == 1.0 else rewards * self._scale

    def _read_views(self, infos: dict[str, Any]) -> None:
        """Keep what opponents observe now."""
        if self.opponents is None:
            return
        if VIEW not in infos:
            if self._views is None:
                raise WorldError(
                    f"the infos of a two-player world should hold {VIEW!r}, what the second player observes; for an "
                    "env with a method of that name, rookery.worlds.foreign_games.BothViews does this"
                )
            return
        views, has_view = views_in(infos[VIEW], self.opponents.seat.observation_space), infos[f"_{VIEW}"]
        if self._views is None or has_view.all():
            self._views = views.copy()
        else:
            self._views[has_view] = views[has_view]

    def _with_own_masks(self, infos: dict[str, Any]) -> dict[str, Any]:
        """The infos with the learner's half of the action masks; the opponents' half is kept."""
        masks = None if self.opponents is None else mask_of(None, infos)
        if masks is None or self.opponents is None:
            return infos
        own, self._masks = masks_of_both(masks, self.opponents.seat.action_space)
        return {**infos, MASK_KEY: own, f"_{MASK_KEY}": np.ones(len(own), np.bool_)}

    def _outcomes(self, final: dict[str, Any], ended: np.ndarray) -> list[int]:
        """Who won the games that ended, where the world says so; the league records it."""
        if "winner" not in final:
            return []
        known = final["_winner"][ended]
        winners = np.asarray(final["winner"])[ended][known].astype(int).tolist()
        if self.opponents is not None:
            for env, winner in zip(ended[known].tolist(), winners, strict=True):
                self.opponents.league.add_game(self._opponent_names[env], winner)
        return winners

    # --- episodes -----------------------------------------------------------------------------------------------

    def _plan_next_episodes(self, envs: Any) -> None:
        """EpisodePlan the next episodes of these envs; their options wait in the engine."""
        if not self._next_plans:
            self._next_plans, self._staged = [None] * self.engine.num_envs, [({}, "")] * self.engine.num_envs  # type: ignore[list-item]
        changed = {}
        for env in envs:
            plan = self._next_plans[env] = self.phases.plan_episode(env, int(self._episodes_begun[env]))
            who = self._choose_opponent(plan)
            options = self._options(plan, who)
            if options != self._staged[env][0]:
                changed[env] = options
            self._staged[env] = options, who
        if changed:
            self.engine.reset_with(changed)

    def _choose_opponent(self, plan: EpisodePlan) -> str:
        """The opponent of a planned episode."""
        if plan.opponent is None:
            return ""
        who = plan.opponent.who
        if who == "archive":
            assert self.opponents is not None
            who = self.opponents.league.choose_opponent(*plan.league_draws).name
        return SCRIPTS.get(who.lower(), who)

    def _options(self, plan: EpisodePlan, who: str) -> dict[str, Any]:
        """The world's options in a planned episode against this opponent."""
        script = {"opponent": who if who in SCRIPTS else "free"} if self._scripts else {}
        return {**self._defaults, **plan.options, **script}

    def _begin_episodes(self, envs: Any) -> None:
        """The planned episodes of these envs have begun."""
        for env in envs:
            plan, (_, who) = self._next_plans[env], self._staged[env]
            self._weights[env] = self.phases.shaping_weights()
            self._opponent_names[env] = who
            if self.opponents is not None:
                self._begin_game(env, plan, who)
            self._episodes_begun[env] += 1
        if self.opponents is not None:
            self.opponents.drop_unused(self._opponent_numbers)

    def _begin_game(self, env: int, plan: EpisodePlan, who: str) -> None:
        if not who or who in SCRIPTS:
            self._opponent_numbers[env] = SCRIPTED
            return
        assert self.opponents is not None and plan.opponent is not None
        number = self._opponent_numbers[env] = self.opponents.number_for(who, plan.opponent.deterministic, self.steps)
        self.opponents.begin_game(number, env, self._game_seed(env))

    def _game_seed(self, env: int) -> int:
        return child_seed(self._seed, GAMES_KEY, env, int(self._episodes_begun[env]))

    # --- checkpoints --------------------------------------------------------------------------------------------

    def curriculum_state(self) -> Tree:
        """Everything but the engine's own state."""
        kept: Tree = {
            "phases": self.phases.state(),
            "steps": self.steps,
            "begun": self._episodes_begun.copy(),
            "facing": self._opponent_numbers.copy(),
            "names": list(self._opponent_names),
            "weights": self._weights.copy(),
            "staged": [who for _, who in self._staged],
            "views": self._views if self._views is not None else np.zeros(0, np.float32),
        }
        if self.opponents is not None:
            kept |= {"opponents": self.opponents.state(), "league": self.opponents.league.state()}
        if self._masks is not None:
            kept["masks"] = self._masks.copy()
        return kept

    def load_curriculum_state(self, state: Tree) -> None:
        """Continue from `curriculum_state()`. The engine is loaded after this."""
        self.phases.load(state["phases"])
        self.steps, self._episodes_begun = state["steps"], np.array(state["begun"])
        self._opponent_numbers, self._weights = np.array(state["facing"]), np.array(state["weights"])
        self._opponent_names = list(state["names"])
        if self.opponents is not None:
            self.opponents.league.load(state["league"])
            self.opponents.load(state["opponents"])
            self._views = np.array(state["views"])
            self._masks = np.array(state["masks"]) if "masks" in state else None
            for env in np.flatnonzero(self._opponent_numbers != SCRIPTED).tolist():
                self.opponents.resume_game(self._opponent_numbers[env], env, self._game_seed(env))
        # The next episodes as they were planned: an opponent that was drawn from the league stays.
        self._next_plans = [
            self.phases.plan_episode(env, int(self._episodes_begun[env])) for env in range(self.engine.num_envs)
        ]
        pairs = zip(self._next_plans, state["staged"], strict=True)
        self._staged = [(self._options(plan, who), who) for plan, who in pairs]

    def load_state_dict(self, state: Any) -> Any:
        """Load the engine's own state; the options of the next episodes wait in it again."""
        observations = self.engine.load_state_dict(state)
        if any(options for options, _ in self._staged):
            self.engine.reset_with({env: options for env, (options, _) in enumerate(self._staged)})
        return observations


def _columns(actions: np.ndarray) -> np.ndarray:
    return actions.reshape(len(actions), -1)
