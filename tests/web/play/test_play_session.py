"""A session without its process: steps, restarts, keys, frames and what the policy says."""

from __future__ import annotations

import io
import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery.learners.agent import Agent
from rookery.learners.registry import make_policy, option_classes
from rookery.web.play import session_main
from rookery.web.play.frame_contents import FrameImages, policy_outputs
from rookery.web.play.play_request import KeyboardPlayer, PlayRequest
from rookery.web.play.play_session import PlaySession, open_game
from rookery.web.play.session_main import HEAD, IMAGE_HEAD, MessageKind, PlayLoop, SessionChannel, SessionClock

SHIPPED = Path(__file__).parents[3] / "src" / "rookery" / "agents" / "hockey"


@contextmanager
def played(**request: Any) -> Iterator[PlaySession]:
    with open_game(PlayRequest("hockey", "hockey", shipped=True, **request)) as game:
        yield PlaySession(game)


@pytest.fixture(scope="module")
def against() -> Iterator[tuple[PlaySession, KeyboardPlayer]]:
    with open_game(PlayRequest("hockey", "hockey", shipped=True, opponent="human")) as game:
        assert game.keyboard is not None
        yield PlaySession(game), game.keyboard


def test_another_run_is_the_opponent(tmp_path: Path) -> None:
    """It is called by its name, and plays its last checkpoint."""
    shutil.copytree(SHIPPED, tmp_path / "rival" / "checkpoints" / "step-000000000064")
    (tmp_path / "rival" / "config.json").write_text('{"world": "hockey", "learner": "ppo"}')
    with open_game(PlayRequest("hockey", "hockey", shipped=True, opponent=str(tmp_path / "rival"), seed=3)) as game:
        session = PlaySession(game)
        assert game.names is not None and game.names[1] == "rival"
        before = session.frame(False)[0]["hockey"]["x"][1]
        for _ in range(20):
            session.step()
        assert session.frame(False)[0]["hockey"]["x"][1] != before


def test_a_seed_is_a_game(against: tuple[PlaySession, KeyboardPlayer]) -> None:
    session, _ = against
    games = []
    for seed in (3, 3, 4):
        session.restart(seed)
        for _ in range(20):
            session.step()
        games.append(session.frame(False)[0]["hockey"])
    assert games[0] == games[1] != games[2]
    assert games[0]["steps"] == 20


@pytest.mark.parametrize(
    ("key", "axis", "sign"), [("left", "x", -1), ("right", "x", 1), ("up", "y", 1), ("down", "y", -1)]
)
def test_keys_move_the_racket_as_the_screen_shows_it(
    against: tuple[PlaySession, KeyboardPlayer], key: str, axis: str, sign: int
) -> None:
    session, keyboard = against
    session.restart(1)
    before = session.frame(False)[0]["hockey"][axis][1]
    number = keyboard.sequence + 5
    keyboard.press(number, [key, "no key"])
    for _ in range(10):
        session.step()
    message, image = session.frame(False)
    assert sign * (message["hockey"][axis][1] - before) > 0.05
    assert message["keys"] == number
    assert image is None
    keyboard.press(number + 1, [])


def test_a_tap_between_two_steps_counts() -> None:
    keyboard = KeyboardPlayer()
    keyboard.press(1, ["shoot"])
    keyboard.press(2, [])
    none = np.zeros((1, 18)), np.zeros(1, np.int64)
    assert keyboard.act(*none).tolist() == [[0, 0, 0, 1]]
    assert keyboard.act(*none).tolist() == [[0, 0, 0, 0]]
    assert keyboard.sequence == 2


def test_details_are_what_the_agent_sees_and_thinks(against: tuple[PlaySession, KeyboardPlayer]) -> None:
    session, _ = against
    session.restart(1)
    session.step()
    details = session.frame(True)[0]["details"]
    assert len(details["observation"][0]["values"]) == 18
    assert len(details["mean"]) == len(details["std"]) == len(details["action"]) == 4
    assert np.isfinite(details["value"])
    json.dumps(details)


def test_sampled_actions_differ_and_survive_a_restart(against: tuple[PlaySession, KeyboardPlayer]) -> None:
    session, _ = against
    session.deterministic = False
    session.restart(1)
    assert not session.deterministic
    for _ in range(30):
        session.step()
    session.deterministic = True
    session.restart(1)


def _agent(learner: str, action_space: spaces.Space, **options: Any) -> Agent:
    torch.manual_seed(0)
    sees = spaces.Box(-1, 1, (3,), np.float32)
    policy = make_policy(learner, sees, action_space, option_classes()[learner](**options))
    return Agent(policy.eval(), sees, action_space, torch.device("cpu"))


BOX = spaces.Box(-2, 2, (2,), np.float32)


@pytest.mark.parametrize(
    ("learner", "space", "lengths"),
    [
        ("ppo", spaces.Discrete(4), {"probabilities": [4]}),
        ("ppo", spaces.MultiDiscrete([2, 3]), {"probabilities": [2, 3]}),
        ("ppo", spaces.MultiBinary(2), {"probabilities": [2, 2]}),
        ("ppo", BOX, {"mean": 2, "std": 2}),
        ("ppo", spaces.Dict(a=spaces.Discrete(3), b=BOX), {"probabilities": [3], "mean": 2, "std": 2}),
        ("dqn", spaces.Discrete(4), {"q": 4}),
        ("sac", BOX, {"mean": 2, "std": 2}),
        ("td3", BOX, {"mean": 2}),
    ],
)
def test_every_kind_of_policy_says_what_it_would_do(learner: str, space: spaces.Space, lengths: dict[str, Any]) -> None:
    agent = _agent(learner, space)
    said = policy_outputs(agent, np.zeros((1, 3), np.float32))
    for name, length in lengths.items():
        found = [len(part) for part in said[name]] if isinstance(length, list) else len(said[name])
        assert found == length
    for probabilities in said.get("probabilities", []):
        assert sum(probabilities) == pytest.approx(1.0, abs=1e-3)
    assert ("value" in said) == (learner in ("ppo", "dqn"))


def test_a_mask_and_a_memory_are_heeded() -> None:
    masked = policy_outputs(_agent("ppo", spaces.Discrete(3)), np.zeros((1, 3), np.float32), np.array([[1, 0, 1]]))
    assert masked["probabilities"][0][1] == 0.0
    agent = _agent("ppo", spaces.Discrete(3), recurrent=8)
    values = [
        policy_outputs(agent, np.zeros((1, 3), np.float32), None, np.full((1, 8), m, np.float32))["value"]
        for m in (0, 1)
    ]
    assert values[0] != values[1]


def test_small_screens_keep_every_pixel_and_large_ones_are_shrunk() -> None:
    image = pytest.importorskip("PIL.Image")
    screens = [np.random.default_rng(k).integers(0, 256, (144, 160, 3), np.uint8) for k in range(5)]
    images = FrameImages(5, screens[0])
    whole = np.asarray(image.open(io.BytesIO(images.encode(screens))).convert("RGB"))
    assert images.describe()["format"] == "image/webp"
    last = 4 // images.columns * 144, 4 % images.columns * 160
    np.testing.assert_array_equal(whole[last[0] : last[0] + 144, last[1] : last[1] + 160], screens[4])
    large = FrameImages(4, np.zeros((1000, 2000, 3), np.uint8))
    frames = [np.zeros((1000, 2000), np.uint8), *[np.zeros((500, 900, 4), np.uint8)] * 3]  # other kinds and sizes
    assert image.open(io.BytesIO(large.encode(frames))).width <= 1280


# --- the loop -------------------------------------------------------------------------------------------------------


class CountedSession:
    fps, deterministic = 1000.0, True

    def __init__(self) -> None:
        self.steps, self.seeds = 0, []

    def step(self) -> None:
        self.steps += 1

    def restart(self, seed: int) -> None:
        self.seeds.append(seed)

    def frame(self, with_details: bool) -> tuple[dict[str, Any], bytes | None]:
        return {"steps": self.steps, "details": with_details}, b"image"


class Page:
    """The other end of a channel."""

    def __init__(self) -> None:
        self.link, theirs = socket.socketpair()
        self.link.settimeout(0.2)
        self.session = CountedSession()
        self.loop = PlayLoop(self.session, None, SessionChannel(theirs))
        self._theirs, self._data = theirs, b""

    def tell(self, **message: Any) -> None:
        self.link.sendall(json.dumps(message).encode() + b"\n")

    def frames(self) -> list[dict[str, Any]]:
        """The frames that have come."""
        try:
            while True:
                self._data += self.link.recv(1 << 20)
        except TimeoutError:
            pass
        found = []
        while self._data:
            length, kind = HEAD.unpack_from(self._data)
            payload, self._data = self._data[HEAD.size : HEAD.size + length], self._data[HEAD.size + length :]
            if kind == MessageKind.BINARY:
                size = IMAGE_HEAD.unpack_from(payload)[0]
                assert payload[4 + size :] == b"image"
                found.append(json.loads(payload[4 : 4 + size]))
        return found

    def turn(self, times: int) -> None:
        for _ in range(times):
            self.loop.turn()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    monkeypatch.setattr(session_main, "LEAST_INTERVAL", 0.0)
    monkeypatch.setattr(session_main, "ALIVE_SECONDS", 0.02)
    page = Page()
    yield page
    page.link.close()
    page._theirs.close()


def test_a_page_that_sees_nothing_gets_three_frames_and_then_the_newest(page: Page) -> None:
    page.turn(50)
    assert [frame["n"] for frame in page.frames()] == [1, 2, 3]
    before = page.session.steps
    page.turn(50)
    assert page.session.steps > before  # the game goes on
    page.tell(seen=3)
    page.turn(3)
    assert page.frames()[0]["steps"] > before


def test_a_game_waits_while_nobody_looks(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_main, "HIDDEN_SECONDS", 0.0)
    page.turn(20)
    steps = page.session.steps
    page.turn(20)
    assert page.session.steps == steps
    page.tell(seen=3)
    page.turn(20)
    assert page.session.steps > steps


def test_pause_step_speed_seed_and_nonsense(page: Page) -> None:
    page.tell(pause=True)
    page.turn(5)
    steps = page.session.steps
    page.turn(5)
    assert page.session.steps == steps
    page.tell(step=True)
    page.tell(step=True)
    page.turn(3)
    assert page.session.steps == steps + 2
    assert page.frames()[-1]["paused"] is True
    page.tell(speed=1e9)
    page.tell(seed=12)
    page.tell(seed=-1, speed="fast", pause="no", deterministic=3, keys={"held": "x"}, seen=None, step=1)
    page.turn(4)
    assert page.loop.clock.speed == 50.0
    assert page.session.seeds == [12]
    page.tell(pause=False, deterministic=False)
    page.turn(4)
    assert page.session.steps > steps + 2
    assert page.session.deterministic is False


def test_late_steps_are_left_out() -> None:
    clock = SessionClock(1000.0)
    time.sleep(0.1)
    assert clock.due() == 5
    assert clock.due() <= 1


def test_the_end_of_the_server_is_noticed(page: Page) -> None:
    page.link.close()
    with pytest.raises((EOFError, ConnectionError)):
        page.turn(100)


def test_an_env_with_frames_is_shown_as_images() -> None:
    pytest.importorskip("pygame")
    from rookery.training.resolve.world_choice import find
    from rookery.training.show.rendered_env import open_rendered_envs
    from rookery.training.show.watch import ShowSetup
    from rookery.web.play.play_session import OpenedGame

    env = gym.make("CartPole-v1")
    sees, does = env.observation_space, env.action_space
    agent = Agent(make_policy("ppo", sees, does, option_classes()["ppo"]()).eval(), sees, does, torch.device("cpu"))
    world = find("CartPole-v1")
    with open_rendered_envs(world, [None, None]) as rendered:
        session = PlaySession(OpenedGame(ShowSetup(world, agent, 1), rendered, None, None, None, 64))
        for _ in range(5):
            session.step()
        message, image = session.frame(True)
    assert session.describe()["tiles"]["count"] == 2
    assert [cell["steps"] for cell in message["cells"]] == [5, 5]
    assert image is not None
    assert image[:2] == b"\xff\xd8"
