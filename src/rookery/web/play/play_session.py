"""An agent that plays on and on: steps in time, restarts, and what a page shows of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rookery.engine.env_factory import kernel_of, resolve
from rookery.engine.value_tree import copied_state
from rookery.errors import CheckpointError, OptionError, RunError
from rookery.kernel.kernel_env import KernelEnv
from rookery.learners.agent import Agent
from rookery.training.resolve.world_choice import World, find
from rookery.training.rewind.replay import Replay
from rookery.training.show.episode import OpponentWrapper, PlayLimits, ShownAgent, make_matchup, usual_opponent
from rookery.training.show.grid import GridEnv, default_env_count
from rookery.training.show.rendered_env import RenderedEnv, open_rendered_envs
from rookery.training.show.watch import ShowSetup, show_setup, with_opponent
from rookery.training.storage.checkpoint import Checkpoints, load
from rookery.training.storage.load_agent import agent_from, check_network
from rookery.training.storage.moments import Moment
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import shipped_agent
from rookery.training.storage.trust import TRUST
from rookery.web.play.frame_contents import FrameImages, policy_outputs
from rookery.web.play.play_request import HUMAN, KeyboardPlayer, PlayRequest
from rookery.worlds import registry
from rookery.worlds.hockey.render import PLAYERS
from rookery.worlds.hockey.world import HockeyWorld

ENDLESS = PlayLimits(episodes=2**62, enough_seconds=float("inf"), max_seconds=float("inf"))
MOST_NUMBERS = 64  # of an observation's part that are sent
PARTS = 100  # of a replay, after each of which progress is told
Tell = Callable[[dict[str, Any]], None]
BODY = ("x", "y", "angle", "speed x", "speed y", "spin")
HOCKEY_NAMES = {
    "action_names": ["force x", "force y", "torque", "shoot"],
    "observation_names": [
        *(f"own {name}" for name in BODY), *(f"other {name}" for name in BODY),
        "puck x", "puck y", "puck speed x", "puck speed y", "own hold", "other hold",
    ],
}  # fmt: skip


class PlaySession:
    """The envs of a session. Of n envs, env i plays the episodes i, i + n and so on of an evaluation with the seed."""

    def __init__(self, game: OpenedGame) -> None:
        self._game, self.fps, self.keyboard = game, game.rendered[0].fps, game.keyboard
        self.restart(game.setup.seed)
        self.step()  # what is compiled or loaded at the first step is there before the page gets "ready"
        self.restart(game.setup.seed)
        self._images = None if game.hockey else FrameImages(len(self._envs), self._envs[0].cell().frame)

    def go_to(self, step: int) -> None:
        """Let the agent play that the run had at a step, by its checkpoint before."""
        if self._game.run is not None:
            self._game.step, agent = agent_before(self._game.run, step)
            self._game.setup = replace(self._game.setup, agent=agent)
            self.restart(self.seed)

    def restart(self, seed: int) -> None:
        """Start over, with the episodes of this seed."""
        agent, count = self._game.setup.agent, len(self._game.rendered)
        self.seed, shown = seed, ShownAgent(agent, seed)
        if hasattr(self, "_shown"):
            shown.player.deterministic = self.deterministic
        self._shown = shown

        def begin(env: int, played: int) -> int:
            return shown.begin(env, env + played * count)

        self._envs = [GridEnv(each, partial(begin, i), ENDLESS) for i, each in enumerate(self._game.rendered)]
        self._action: Any = None

    @property
    def deterministic(self) -> bool:
        return self._shown.player.deterministic

    @deterministic.setter
    def deterministic(self, wanted: bool) -> None:
        self._shown.player.deterministic = wanted

    def step(self) -> None:
        """One step of every env."""
        playing = [i for i, env in enumerate(self._envs) if env.playing]
        actions: dict[int, Any] = {}
        if playing:
            seen = [self._envs[i].observation for i in playing], [self._envs[i].info for i in playing]
            actions = dict(zip(playing, self._shown.act(playing, *seen), strict=True))
            self._action = actions.get(0, self._action)
        for i, env in enumerate(self._envs):
            env.advance(actions.get(i), 0.0)

    # --- what a page shows --------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What does not change from frame to frame."""
        game, agent = self._game, self._game.setup.agent
        return {
            "view": "hockey" if game.hockey else "frames", "world": game.setup.world.name, "fps": self.fps,
            "seed": self.seed, "step": game.step, "names": game.names, "human": game.keyboard is not None,
            "exact": game.exact, "envs": len(self._envs),
            "tiles": None if self._images is None else self._images.describe(),
            "policy": type(agent.policy).__name__, "action_space": str(agent.action_space),
            **(HOCKEY_NAMES if game.hockey else {}),
        }  # fmt: skip

    def frame(self, with_details: bool) -> tuple[dict[str, Any], bytes | None]:
        """The envs as they are now, and their image."""
        first = self._envs[0]
        outcomes = Counter(name for env in self._envs for name in env.outcomes if name)
        message: dict[str, Any] = {
            "episode": len(first.outcomes) + first.playing, "steps": first.length, "return": first.episode_return,
            "playing": first.playing, "outcomes": outcomes, "deterministic": self.deterministic, "seed": self.seed,
            "last_outcome": first.outcomes[-1] if first.outcomes else None, "agent_step": self._game.step,
        }  # fmt: skip
        if self._game.keyboard is not None:
            message["keys"] = self._game.keyboard.sequence
        if with_details:
            message["details"] = self._details()
        if self._game.hockey is not None:
            return {**message, "hockey": hockey_state(self._game.hockey)}, None
        assert self._images is not None
        message["cells"] = [_cell(env) for env in self._envs]
        return message, self._images.encode([env.cell().frame for env in self._envs])

    def _details(self) -> dict[str, Any]:
        """What the agent of the first env sees, what it thinks of it, and what it did last."""
        first = self._envs[0]
        batch, mask = self._shown.batch([first.observation], [first.info])
        memory = self._shown.player.memory(np.zeros(1, np.int64))
        return {
            "observation": list(observation_parts(first.observation)), "action": plain_action(self._action),
            **policy_outputs(self._game.setup.agent, batch, mask, memory),
        }  # fmt: skip


def hockey_state(env: Any) -> dict[str, Any]:
    """What the page draws of a game of hockey."""
    state = env.state
    moving = {name: [round(float(value), 4) for value in getattr(state, name)] for name in ("x", "y", "angle")}
    return {
        **moving, "vx": round(float(state.vx[2]), 3), "vy": round(float(state.vy[2]), 3),
        "hold": [int(steps) for steps in state.hold], "winner": int(state.winner), "steps": int(state.steps),
        "limit": env.parameters.get("time_limit"),
    }  # fmt: skip


def _cell(env: GridEnv) -> dict[str, Any]:
    return {
        "return": env.episode_return, "steps": env.length, "playing": env.playing, "episodes": len(env.outcomes),
        "outcome": env.outcomes[-1] if env.outcomes else None,
    }  # fmt: skip


def observation_parts(observation: Any, name: str = "") -> Iterator[dict[str, Any]]:
    """Each array of an observation: its name, its shape and its first numbers."""
    if isinstance(observation, (dict, tuple)):
        named = observation.items() if isinstance(observation, dict) else enumerate(observation)
        for key, part in named:
            yield from observation_parts(part, f"{name}.{key}" if name else str(key))
        return
    array = np.asarray(observation)
    # Pixels are in the picture; as numbers they say nothing.
    numbers = [] if array.ndim >= 2 and array.size > MOST_NUMBERS else array.ravel()[:MOST_NUMBERS].tolist()
    yield {"name": name, "shape": list(array.shape), "values": numbers}


def plain_action(action: Any) -> Any:
    if isinstance(action, dict):
        return {str(key): plain_action(part) for key, part in action.items()}
    if isinstance(action, tuple):
        return [plain_action(part) for part in action]
    return None if action is None else np.asarray(action).tolist()


EMULATORS = "gameboy"  # the world whose envs are shown as a grid


@dataclass
class OpenedGame:
    """Envs that can be played, and the agent in them. `hockey` is the game whose state the page draws itself, `run` the
    folder of the agent's run; `exact` is what is known of an agent that was trained again."""

    setup: ShowSetup
    rendered: Sequence[RenderedEnv]
    keyboard: KeyboardPlayer | None
    hockey: KernelEnv | None
    names: tuple[str, str] | None
    step: int | None
    run: Path | None = None
    exact: str | None = None


@contextmanager
def open_session(request: PlayRequest, tell: Tell = lambda message: None) -> Iterator[PlaySession]:
    """The session that a page asks for."""
    with open_game(request, tell) as game:
        session = PlaySession(game)
        if request.deterministic is not None:
            session.deterministic = request.deterministic
        yield session


@contextmanager
def open_game(request: PlayRequest, tell: Tell = lambda message: None) -> Iterator[OpenedGame]:
    """Load the agent and make the envs. It tells how far it is with an agent that is trained again."""
    setup, step, num_envs = _setup(request)
    run, exact = None if request.shipped else Path(request.agent), None
    if request.at is not None and run is not None:
        if request.exact:
            step, agent, exact = agent_again(run, request.at, tell)
        else:
            step, agent = agent_before(run, request.at)
        setup = replace(setup, agent=agent)
    keyboard = None
    if request.opponent == HUMAN:
        setup, keyboard = _against_a_person(setup)
    else:
        setup = with_opponent(replace(setup, opponent=request.opponent or setup.opponent))
    kernel = kernel_of(resolve(setup.world.source, kwargs=setup.world.env_kwargs))
    if kernel is not None and isinstance(kernel.world, HockeyWorld):
        # In plain Python a step takes 4 ms or less, and nothing is compiled before the first.
        bare = KernelEnv(kernel.world, plain=True)
        env = setup.world.factory.wrap(bare)
        rendered = RenderedEnv(OpponentWrapper(env, setup.matchup) if setup.matchup else env, live=False)
        yield OpenedGame(setup, [rendered], keyboard, bare, _names(setup, kernel.world), step, run, exact)
        return
    count = request.envs or (default_env_count(num_envs) if _is_grid(setup.world) else 1)
    # Each env has an opponent of its own, as an opponent may have a memory of its game.
    setups = [setup, *(with_opponent(setup) for _ in range(count - 1))]
    with open_rendered_envs(setup.world, [each.matchup for each in setups]) as opened:
        names = None if setup.matchup is None else setup.matchup.names
        yield OpenedGame(setup, opened, keyboard, None, names, step, run, exact)


def _setup(request: PlayRequest) -> tuple[ShowSetup, int | None, Any]:
    """The setup; the step of the checkpoint and the number of envs of a run."""
    if request.shipped:
        world = find(request.agent)
        agent = shipped_agent(request.agent)
        return ShowSetup(world, agent, request.seed or 0, request.agent, usual_opponent(world)), None, None
    try:
        setup, trained = show_setup(request.agent, "runs", request.best, request.seed, trust=False)
    except RunError as error:
        raise _with_command(error, request) from None
    assert trained is not None
    return setup, trained.step, trained.config.num_envs


def _with_command(error: RunError, request: PlayRequest) -> RunError:
    """A page never trusts code: the sentence tells the command with which its user may."""
    if TRUST not in str(error):
        return error
    said = str(error).removesuffix(TRUST).rstrip("; ")
    return RunError(f"{said}; if you trust it, type: rookery watch {request.agent} --trust")


def _against_a_person(setup: ShowSetup) -> tuple[ShowSetup, KeyboardPlayer]:
    """The agent on the left, a person on the right."""
    spec = registry.by_source(setup.world.source)
    if spec is None or spec.game is None:
        raise OptionError(f"{setup.world.name} cannot be played by a person: opponent=human is for hockey")
    world, matchup = make_matchup(setup.world, setup.agent, setup.name, "none", "runs")
    keyboard = KeyboardPlayer()
    matchup = replace(matchup, opponent=keyboard, names=(matchup.names[0], keyboard.name))
    return replace(setup, world=world, matchup=matchup), keyboard


def _names(setup: ShowSetup, world: HockeyWorld) -> tuple[str, str]:
    """The players of a game; without a matchup, the world itself plays the second."""
    if setup.matchup is not None:
        return setup.matchup.names
    return setup.name, PLAYERS[int(world.values["player_two"])].format(2)


def _is_grid(world: World) -> bool:
    spec = registry.by_source(world.source)
    return spec is not None and spec.name == EMULATORS


# --- the agent that a run had at a step -------------------------------------------------------------------------------


def agent_before(path: Path, step: int) -> tuple[int, Agent]:
    """The agent of the last checkpoint at or before a step, or of the first one there is, and its step. A
    checkpoint that the run has removed by then is passed over."""
    run = RunDir(path)
    entries = Checkpoints(run.checkpoints).entries()
    earlier = [entry for entry in entries if entry.step <= step]
    for entry in [*reversed(earlier), *entries[len(earlier) :]]:
        with suppress(CheckpointError):
            saved = load(entry.path, only=("agent",))["agent"]
            check_network(run, saved, trust=False)
            return entry.step, agent_from(saved)
    raise RunError(f"{run.name} has no checkpoint that can be read")


def agent_again(path: Path, step: int, tell: Tell) -> tuple[int, Agent, str]:
    """The agent of exactly a step, that step, and whether it is what the run had then."""
    with closing(Replay(RunDir(path), step, runs_dir=path.parent)) as replay:
        begin = replay.began_at
        for part in range(PARTS + 1):
            now = begin + (step - begin) * part // PARTS
            tell({"kind": "replaying", "from": begin, "step": now, "to": step})
            replay.to(Moment(now, known=now))
        agent = agent_from(copied_state(replay.loop.state.agent_tree()))
        doubts, versions = replay.doubts(), replay.other_versions()
        return replay.loop.steps, agent, f"not exact: {doubts[0]}" if doubts else "; ".join(["exact", *versions])
