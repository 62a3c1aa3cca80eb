"""Envs as a curriculum has them: to a gatherer they are an engine like any other.

Between the learner and the engine, a course adds what the opponents do, gives rewards their shape, and lays out each
env's next episode while the present one is played: its options wait in the engine, its opponent is met when it begins.
Nothing about an episode changes before its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rookery.engine.engine import Engine
from rookery.engine.seeding import child_seed
from rookery.errors import WorldError
from rookery.learners.learner import Tree
from rookery.training.curriculum.opponents import SCRIPTED, Opponents
from rookery.training.curriculum.phases import Phases, Plan
from rookery.training.players.agents import SCRIPTS
from rookery.training.resolve.seats import VIEW

GAMES_KEY = 1_000_033  # sets the seeds of opponents' games apart from all others


class CurriculumVectorEnv:
    """An engine, led through phases."""

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
        """`defaults` are options of the world that phases may change; `opponents` are there if the world is one for
        two, of whom the second is theirs; `scripts` tells whether the world plays opponents itself."""
        self.engine, self.phases, self.opponents = engine, phases, opponents
        self._defaults, self._scripts, self._scale, self._seed = dict(defaults), scripts, reward_scale, seed
        self.steps = 0
        count = engine.num_envs
        self._begun = np.zeros(count, np.int64)  # episodes of each env so far
        self._next: list[Plan] = []  # each env's next episode
        self._staged: list[tuple[dict[str, Any], str]] = []  # its options, and who plays
        self._facing = np.full(count, SCRIPTED)
        self._names = [""] * count  # of those faced
        self._weights = np.zeros((count, len(phases.shaped)))
        self._views: np.ndarray | None = None

    # --- as an engine -------------------------------------------------------------------------------------------
    # Only what a gatherer asks for, name by name: what an engine offers besides would pass by the phases.

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
        """All envs as one, however the engine divides them: who is met next, and how rewards are shaped from then on,
        is decided when all of them have made their step."""
        return (self,)

    def finished_episodes(self) -> np.ndarray:
        """As the engine's: with the world's own rewards, neither shaped nor scaled."""
        return self.engine.finished_episodes()

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the present phase in every env."""
        everyone = range(self.engine.num_envs)
        self._next = []  # what the engine was told before may be gone, as in a run that was resumed
        self._lay_out(everyone)
        answer = self.engine.reset(seed=seed)
        self._look(answer[1])
        self._start(everyone)
        self._lay_out(everyone)
        return answer

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        return self._answered(self.engine.step(self._with_opponents(actions)))

    def send(self, actions: np.ndarray) -> None:
        self.engine.send(self._with_opponents(actions))

    def recv(self) -> tuple[Any, ...]:
        return self._answered(self.engine.recv())

    def advance(self) -> tuple[Any, dict[str, Any]]:
        """Begin the next phase: everywhere at once, with new episodes."""
        self.phases.advance()
        return self.reset()

    # --- a step -------------------------------------------------------------------------------------------------

    def _with_opponents(self, actions: np.ndarray) -> np.ndarray:
        if self.opponents is None:
            return actions
        assert self._views is not None
        theirs = self.opponents.act(self._views, self._facing)
        return np.concatenate([_columns(actions), _columns(theirs)], axis=1)

    def _answered(self, answer: tuple[Any, ...]) -> tuple[Any, ...]:
        observations, rewards, terminated, truncated, infos = answer
        ended = np.flatnonzero(terminated | truncated)
        final = infos.get("final_info", {})
        shaped = self._shaped(rewards, infos, final, ended)
        self._look(infos)
        self.steps += len(rewards)
        outcomes = self._outcomes(final, ended) if len(ended) else []
        self.phases.add(len(rewards), len(ended), outcomes)
        if len(ended):
            self._start(ended.tolist())
            self._lay_out(ended.tolist())
        return observations, shaped, terminated, truncated, infos

    def _shaped(self, rewards: np.ndarray, infos: dict, final: dict, ended: np.ndarray) -> np.ndarray:
        """Rewards with what infos add to them; an episode's last infos are kept apart."""
        for k, key in enumerate(self.phases.shaped):
            values = np.full(len(rewards), infos.get(key, 0.0), np.float64)
            if len(ended):
                values[ended] = np.asarray(final[key], np.float64)[ended] if key in final else 0.0
            rewards = rewards + self._weights[:, k] * values
        return rewards if self._scale == 1.0 else rewards * self._scale

    def _look(self, infos: dict[str, Any]) -> None:
        """What opponents see now."""
        if self.opponents is None:
            return
        if VIEW not in infos:
            if self._views is None:
                raise WorldError(
                    f"a game for two shows what the second player sees in its infos, as {VIEW!r}; for one that has a "
                    "method of that name, rookery.worlds.duel.BothViews does this"
                )
            return
        views, told = np.asarray(infos[VIEW]), infos[f"_{VIEW}"]
        if self._views is None or told.all():
            self._views = np.array(views, np.float32)
        else:
            self._views[told] = views[told]

    def _outcomes(self, final: dict[str, Any], ended: np.ndarray) -> list[int]:
        """How games ended, where the world tells; the league hears of it."""
        if "winner" not in final:
            return []
        told = final["_winner"][ended]
        winners = np.asarray(final["winner"])[ended][told].astype(int).tolist()
        if self.opponents is not None:
            for env, winner in zip(ended[told].tolist(), winners, strict=True):
                self.opponents.league.note(self._names[env], winner)
        return winners

    # --- episodes -----------------------------------------------------------------------------------------------

    def _lay_out(self, envs: Any) -> None:
        """Decide about these envs' next episodes; their options wait in the engine."""
        if not self._next:
            self._next, self._staged = [None] * self.engine.num_envs, [({}, "")] * self.engine.num_envs  # type: ignore[list-item]
        changed = {}
        for env in envs:
            plan = self._next[env] = self.phases.plan(env, int(self._begun[env]))
            who = self._drawn(plan)
            options = self._options(plan, who)
            if options != self._staged[env][0]:
                changed[env] = options
            self._staged[env] = options, who
        if changed:
            self.engine.reset_with(changed)

    def _drawn(self, plan: Plan) -> str:
        """Who is to be met in a planned episode."""
        if plan.opponent is None:
            return ""
        who = plan.opponent.who
        if who == "archive":
            assert self.opponents is not None
            who = self.opponents.league.draw(*plan.chances).name
        return SCRIPTS.get(who.lower(), who)

    def _options(self, plan: Plan, who: str) -> dict[str, Any]:
        """The world's options in a planned episode against them."""
        script = {"opponent": who if who in SCRIPTS else "free"} if self._scripts else {}
        return {**self._defaults, **plan.options, **script}

    def _start(self, envs: Any) -> None:
        """The planned episodes of these envs have begun."""
        for env in envs:
            plan, (_, who) = self._next[env], self._staged[env]
            self._weights[env] = self.phases.weights()
            self._names[env] = who
            if self.opponents is not None:
                self._meet(env, plan, who)
            self._begun[env] += 1
        if self.opponents is not None:
            self.opponents.keep_only(self._facing)

    def _meet(self, env: int, plan: Plan, who: str) -> None:
        if not who or who in SCRIPTS:
            self._facing[env] = SCRIPTED
            return
        assert self.opponents is not None and plan.opponent is not None
        number = self._facing[env] = self.opponents.meet(who, plan.opponent.deterministic, self.steps)
        self.opponents.begin(number, env, self._game_seed(env))

    def _game_seed(self, env: int) -> int:
        return child_seed(self._seed, GAMES_KEY, env, int(self._begun[env]))

    # --- going on later -----------------------------------------------------------------------------------------

    def course_state(self) -> Tree:
        """Everything but the engine's own state."""
        kept: Tree = {
            "phases": self.phases.state(),
            "steps": self.steps,
            "begun": self._begun.copy(),
            "facing": self._facing.copy(),
            "names": list(self._names),
            "weights": self._weights.copy(),
            "staged": [who for _, who in self._staged],
            "views": self._views if self._views is not None else np.zeros(0, np.float32),
        }
        if self.opponents is not None:
            kept |= {"opponents": self.opponents.state(), "league": self.opponents.league.state()}
        return kept

    def load_course(self, state: Tree) -> None:
        """Go on from `course_state()`. The engine is loaded after this."""
        self.phases.load(state["phases"])
        self.steps, self._begun = state["steps"], np.array(state["begun"])
        self._facing, self._weights = np.array(state["facing"]), np.array(state["weights"])
        self._names = list(state["names"])
        if self.opponents is not None:
            self.opponents.league.load(state["league"])
            self.opponents.load(state["opponents"])
            self._views = np.array(state["views"])
            for env in np.flatnonzero(self._facing != SCRIPTED).tolist():
                self.opponents.take_up(self._facing[env], env, self._game_seed(env))
        # The next episodes as they were laid out: who was drawn from the league stays.
        self._next = [self.phases.plan(env, int(self._begun[env])) for env in range(self.engine.num_envs)]
        pairs = zip(self._next, state["staged"], strict=True)
        self._staged = [(self._options(plan, who), who) for plan, who in pairs]

    def load_state_dict(self, state: Any) -> Any:
        """Go on in the engine's own state; what waits for the next episodes waits again."""
        observations = self.engine.load_state_dict(state)
        if any(options for options, _ in self._staged):
            self.engine.reset_with({env: options for env, (options, _) in enumerate(self._staged)})
        return observations


def _columns(actions: np.ndarray) -> np.ndarray:
    return actions.reshape(len(actions), -1)
