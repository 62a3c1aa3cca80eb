"""Hints of a guide: what they add to the reward, that bad ones change nothing, and that nobody waits for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.config import build_config
from rookery.errors import OptionError, RunError
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run, code_in, remember
from rookery.worlds.gameboy import guidance, guide_client, guide_process
from rookery.worlds.gameboy.env import GameBoyEnv
from rookery.worlds.gameboy.guidance import check_hint
from rookery.worlds.gameboy.guide_client import GuideClient, client_for
from rookery.worlds.gameboy.guide_process import OpenAIGuide, png
from rookery.worlds.gameboy.guide_settings import GuideSettings, guide_settings
from training.runs import differences, last_state
from worlds.gameboy.guides import HERE, Stub, stub

RIGHT, SCREEN = 4, np.zeros((144, 160, 3), np.uint8)
ABOUT = {"title": "MEADOW", "description": "Fetch the key.", "values": ["room", "has_key"], "terms": ["key"]}
NAN = float("nan")


class Scripted:
    """A guide in this process: after each question it says what is next, when the script comes to that step."""

    def __init__(self, *hints: Any, lag: int = 0) -> None:
        self.hints, self.lag, self.asked, self.closed = deque(hints), lag, list[int](), False

    def ask(self, answers: Any, step: int, state: dict[str, int], screen: np.ndarray) -> bool:
        self.asked.append(step)
        assert screen.shape == (144, 160, 3) and state["mode"] == 1
        if self.hints:
            answers.append((step, self.hints.popleft()))
        return True

    def release(self) -> None:
        self.closed = True


Guided = Callable[..., tuple[GameBoyEnv, Scripted]]


@pytest.fixture
def guided(monkeypatch: pytest.MonkeyPatch) -> Iterator[Guided]:
    """Envs of meadow with a scripted guide."""
    made: list[GameBoyEnv] = []

    def make(*hints: Any, **options: Any) -> tuple[GameBoyEnv, Scripted]:
        script = Scripted(*hints)
        monkeypatch.setattr(guidance, "client_for", lambda settings, about: script)
        every = {"guide_every": 1, **options}
        made.append(GameBoyEnv(guide=f"{HERE}:Good", **every))
        made[-1].reset(seed=0, options={"start": 0})
        return made[-1], script

    yield make
    for env in made:
        env.close()


def rewards(env: Any, steps: int, action: int = RIGHT) -> list[float]:
    return [env.step(action)[1] for _ in range(steps)]


# --- hints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("go east", "should be a dict"),
        ([1, 2], "should be a dict"),
        ({}, "`target` or `terms`"),
        ({"text": "east"}, "`target` or `terms`"),
        ({"target": 3}, "short text"),
        ({"target": "x" * 600}, "short text"),
        ({"target": "has_key = 1"}, "cannot be read"),
        ({"target": "__import__('os') == 1"}, "cannot be read"),
        ({"target": "gold == 1"}, "names 'gold', which is not a value"),
        ({"target": "room == 1", "bonus": NAN}, "finite number"),
        ({"target": "room == 1", "bonus": "much"}, "finite number"),
        ({"target": "room == 1", "bonus": True}, "finite number"),
        ({"terms": ["key"]}, "dict of numbers"),
        ({"terms": {"gold": 1}}, "names 'gold', which is not a reward"),
        ({"terms": {"key": float("inf")}}, "finite number"),
        ({"terms": {"key": None}}, "finite number"),
    ],
)
def test_what_is_no_hint_is_refused(answer: Any, why: str) -> None:
    """With a reason, which the run records."""
    with pytest.raises(ValueError, match=why):
        check_hint(answer, ["key"], ["room", "has_key"])


def test_a_hint_is_kept_within_bounds() -> None:
    """No bonus drowns the game's own rewards; other keys are ignored, long remarks are cut."""
    answer = {"target": "room == 2", "bonus": 1e9, "terms": {"key": -99}, "text": "x" * 999, "mood": "good"}
    hint = check_hint(answer, ["key"], ["room"])
    assert hint.bonus == 10 and hint.terms == {"key": -10} and len(hint.content["text"]) == 500
    assert "mood" not in hint.content


@pytest.mark.parametrize(
    ("guide", "options", "why"),
    [
        ("nothing.py:Guide", {}, "the file should be there"),
        ("meadow", {}, "the file should be there"),
        (f"{HERE}:Good", {"guide_every": 0}, "guide_every"),
        (f"{HERE}:Good", {"guide_evry": 5}, "guide_evry"),
        ("openai", {}, "name of a model"),
        ("openai", {"guide_model": "m", "guide_url": "file:///etc/passwd"}, "http or https"),
        ("openai", {"guide_model": "m", "guide_url": "http://me:pw@localhost/v1"}, "without a password"),
        ("openai", {"guide_model": "m", "guide_url": "https://api.example.com/v1"}, "another machine"),
        ("openai", {"guide_model": "m", "guide_url": "http://localhost.example.com/v1"}, "another machine"),
        ("missing.jsonl", {}, "cannot be read"),
    ],
)
def test_wrong_options_are_refused(guide: str, options: dict[str, Any], why: str) -> None:
    """Before anything is started; the error never holds a password."""
    with pytest.raises(OptionError, match=why) as raised:
        GameBoyEnv(guide=guide, **options)
    assert "pw" not in str(raised.value).replace("password", "")


def test_options_without_a_guide_are_refused() -> None:
    with pytest.raises(OptionError, match="there is no guide"):
        GameBoyEnv(guide_every=5)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gide'"):
        GameBoyEnv(gide="mine.py:Guide")


def test_a_remote_endpoint_is_asked_only_if_allowed() -> None:
    options = {"guide_model": "m", "guide_url": "https://api.example.com/v1/", "guide_remote": True}
    assert guide_settings("openai", options).endpoint == "https://api.example.com/v1/chat/completions"


# --- rewards ----------------------------------------------------------------------------------------------------


def test_a_target_adds_its_bonus_once_an_episode(guided: Guided) -> None:
    """From the step after the hint came; other rewards, values and episodes are as without a guide."""
    plain = GameBoyEnv()
    plain.reset(seed=0, options={"start": 0})
    start = plain.values["x"]
    expected = rewards(plain, 30)
    plain.close()
    env, script = guided({"hint": {"target": f"x >= {start - 20}", "bonus": 3}})
    assert rewards(env, 30) == expected  # true already when the hint came: nothing is reached
    env, script = guided({"hint": {"target": f"x >= {start + 10}", "bonus": 3}})
    added = [mine - theirs for mine, theirs in zip(rewards(env, 30), expected, strict=True)]
    assert sum(added) == pytest.approx(3) and max(added) == pytest.approx(3)
    env.reset(seed=0, options={"start": 0})
    assert sum(rewards(env, 30)) == pytest.approx(sum(expected) + 3)  # again in the next episode
    assert script.asked[:3] == [1, 2, 3]


def test_a_bonus_on_a_term_multiplies_what_it_gives(guided: Guided) -> None:
    """Two more of the same, and less and less as hints fade out."""
    plain, _ = guided()
    expected = np.array(rewards(plain, 40)[1:])
    closer = expected - expected.min()  # what each step costs is another term
    assert closer.any() and expected.min() == -0.01
    terms = {"hint": {"terms": {"closer": 2}}}
    full, _ = guided(terms)
    assert rewards(full, 40)[1:] == pytest.approx(expected + 2 * closer)
    faded, _ = guided(terms, guide_fade=40, guide_weight=0.5)
    weights = 0.5 * (1 - np.arange(2, 41) / 40)
    assert rewards(faded, 40)[1:] == pytest.approx(expected + weights * 2 * closer)


def test_bad_answers_change_nothing_and_are_recorded(guided: Guided) -> None:
    """The last good hint holds; None ends it."""
    good = {"hint": {"terms": {"closer": 1}}}
    env, _ = guided(good, {"hint": {"terms": {"gold": 1}}}, {"error": "it is asleep"}, {"hint": None})
    infos = [env.step(RIGHT)[-1] for _ in range(8)]
    records = [record for info in infos if "hints" in info for record in json.loads(info["hints"])]
    assert [record["env_step"] for record in records] == [2, 3, 4, 5]
    assert records[0]["hint"] == good["hint"] and records[0]["asked_at"] == 1 and records[0]["weight"] == 1
    assert "gold" in records[1]["refused"] and records[2]["error"] == "it is asleep"
    assert records[3]["hint"] is None


def test_a_restored_env_goes_on_with_its_hint(guided: Guided) -> None:
    """Its reward is the same; a question that was open is forgotten."""
    env, _ = guided({"hint": {"target": "x >= 1", "terms": {"closer": 1}}}, guide_fade=1000)
    rewards(env, 5)
    state = env.get_state()
    expected = rewards(env, 10)
    other, _ = guided(guide_fade=1000)
    other.set_state(state)
    assert rewards(other, 10) == expected and other.get_state()["guide"] == env.get_state()["guide"]


# --- the process ------------------------------------------------------------------------------------------------


def ask(asked: GuideClient, seconds: float = 20.0) -> dict[str, Any]:
    """The answer to one question."""
    answers: guide_client.Answers = deque()
    deadline = time.monotonic() + seconds
    while not asked.ask(answers, 1, {"x": 7}, SCREEN + 1):
        assert time.monotonic() < deadline and not asked._is_over
        time.sleep(0.01)
    while not answers:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return answers.popleft()[1]


def made(name: str, **options: Any) -> GuideClient:
    return client_for(guide_settings(f"{HERE}:{name}", options), ABOUT)


def test_a_guide_answers_in_a_process_of_its_own() -> None:
    """Which all envs of this process share, and the last one ends."""
    one, other = made("Good"), made("Good")
    assert one is other
    assert ask(one) == {"hint": {"target": "has_key == 1", "bonus": 0.5, "text": "at 7"}}
    child = one.process
    assert child is not None and child.pid != os.getpid() and child.poll() is None
    one.release()
    assert child.poll() is None
    other.release()
    assert child.poll() is not None


def test_a_guide_that_does_not_answer_is_not_waited_for() -> None:
    """While it is busy further questions are dropped, and closing does not wait either."""
    slow = made("Sleeps")
    answers: guide_client.Answers = deque()
    started = time.monotonic()
    assert slow.ask(answers, 1, {"x": 1}, SCREEN) and not slow.ask(answers, 2, {"x": 1}, SCREEN)
    slow.release()
    assert time.monotonic() - started < 30 and not answers


@pytest.mark.slow
def test_a_hanging_guide_is_replaced() -> None:
    """After its timeout, a few times in a row, and then given up."""
    slow = made("Sleeps", guide_timeout=2.0)
    assert [ask(slow)["error"] for _ in range(3)] == ["no answer in 2 s"] * 3
    assert not slow.ask(deque(), 1, {"x": 1}, SCREEN) and slow.process is None
    slow.release()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "why"), [("Crashes", "its process ended"), ("Babbles", "too large"), ("Unmade", "no model here")]
)
def test_a_guide_that_fails_is_given_up(name: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    """One that cannot even be made is not tried again; the user is told once."""
    failing = made(name)
    for _ in range(1 if name == "Unmade" else 3):
        assert why in ask(failing)["error"]
    assert failing._is_over and caplog.text.count("training continues without it") == 1
    failing.release()


@pytest.mark.slow
def test_an_error_in_a_guide_does_not_end_its_process() -> None:
    raising = made("Raises")
    assert [ask(raising)["error"] for _ in range(4)] == ["KeyError: 'lost'"] * 4
    raising.release()


@pytest.mark.slow
def test_a_guide_dies_with_its_run() -> None:
    """Also if that is killed while the guide thinks."""
    code = f"""
import os, sys, time
import numpy as np
from collections import deque
from rookery.worlds.gameboy.guide_client import client_for
from rookery.worlds.gameboy.guide_settings import guide_settings
asked = client_for(guide_settings({f"{HERE}:Sleeps"!r}, {{}}), {ABOUT!r})
asked.ask(deque(), 1, {{"x": 1}}, np.zeros((144, 160, 3), np.uint8))
while asked.process is None:
    time.sleep(0.01)
time.sleep(1.5)
print(asked.process.pid, flush=True)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{int(out.stdout)}").exists():
        assert time.monotonic() < deadline, "the guide's process is still there"
        time.sleep(0.05)


# --- a language model -------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[Stub]:
    with stub() as running:
        yield running


def model(server: Stub, **options: Any) -> OpenAIGuide:
    given = {"guide_url": server.url, "guide_model": "small", "guide_timeout": 5.0, **options}
    return OpenAIGuide(GuideSettings(guide="openai", **given), ABOUT)


def test_a_model_is_asked_for_a_hint(server: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the values, what they and the rewards are called, and the key of the environment."""
    monkeypatch.setenv("ROOKERY_GUIDE_KEY", "secret-key")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing is sent elsewhere
    server.says('Certainly:\n```json\n{"target": "has_key == 1", "text": "secret-key"}\n```')
    hint = model(server).hint({"room": 2, "has_key": 0}, SCREEN)
    assert hint == {"target": "has_key == 1", "text": "***"}  # a server that repeats the key does not get it recorded
    (body, key), *others = server.asked
    assert not others and key == "Bearer secret-key" and body["model"] == "small"
    system, user = body["messages"]
    assert "has_key" in system["content"] and "MEADOW" in system["content"] and "key" in system["content"]
    assert json.loads(user["content"]) == {"room": 2, "has_key": 0}


def test_a_model_that_sees_gets_the_screen(server: Stub) -> None:
    """As a PNG file, which other programs read."""
    server.says('{"target": "room == 2"}')
    model(server, guide_screen=True).hint({"room": 1}, SCREEN)
    text, picture = server.asked[0][0]["messages"][1]["content"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,") and text["type"] == "text"
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(0).integers(0, 256, (144, 160, 3), dtype=np.uint8)
    from io import BytesIO

    np.testing.assert_array_equal(np.asarray(image.open(BytesIO(png(noise)))), noise)


@pytest.mark.parametrize(
    "content",
    [
        b"<html>Not Found</html>", b"", b"{}", b"[1, 2]", b'{"choices": []}', b'{"choices": [{"message": {}}]}',
        b'{"choices": [{"message": {"content": "go east"}}]}', b'{"choices": [{"message": {"content": "{oops"}}]}',
        b'{"choices": [{"message": {"content": null}}]}', b"x" * (2 << 20), b"[" * 100_000, None,
    ],
)  # fmt: skip
def test_a_wrong_answer_is_an_error(server: Stub, content: bytes | None) -> None:
    """Which the process of the guide reports, and nothing else."""
    server.content = content
    assert list(guide_process._answer(model(server), {"room": 1}, SCREEN)) == ["error"]


def test_neither_errors_nor_redirects_are_followed(server: Stub) -> None:
    """A redirect would take the key along."""
    server.says('{"target": "room == 2"}')
    server.status = 500
    with pytest.raises(OSError, match="500"):
        model(server).hint({"room": 1}, SCREEN)
    server.status, server.headers = 302, {"Location": server.url}
    with pytest.raises(OSError, match="302"):
        model(server).hint({"room": 1}, SCREEN)
    assert len(server.asked) == 2


def test_a_late_answer_is_not_waited_for(server: Stub) -> None:
    server.says('{"target": "room == 2"}')
    server.delay = 1.0
    with pytest.raises(TimeoutError):
        model(server, guide_timeout=0.05).hint({"room": 1}, SCREEN)


# --- runs -------------------------------------------------------------------------------------------------------


def train(folder: Path, **options: Any) -> Path:
    world_options = {"guide_every": 5, "episode_length": 40, **options}
    return rookery.train(
        "gameboy", world_options=world_options, num_envs=2, steps=128, backend="serial", runs_dir=folder, seed=3,
        ppo={"rollout_length": 16, "hidden": [8], "threads": 1}, evaluation={"episodes": 1, "every": 10_000},
        checkpoints={"every": 64}, monitor={"panel": False, "plot": False, "tensorboard": False},
    ).path  # fmt: skip


class Chatty(Scripted):
    """Has something to say to two questions in three."""

    def ask(self, answers: Any, step: int, state: dict[str, int], screen: np.ndarray) -> bool:
        self.asked.append(step)
        if len(self.asked) % 3:
            answers.append((step, {"hint": {"target": f"x >= {state['x'] + 2}", "bonus": len(self.asked) / 10}}))
        return True


@pytest.mark.slow
def test_a_run_records_its_hints_and_repeats_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the step, the env and what it said; with this record as a guide, another run is the same bit for bit.
    It fades out over the run, and evaluations are without it."""
    script = Chatty()
    monkeypatch.setattr(guidance, "client_for", lambda settings, about: script)
    first = train(tmp_path / "first", guide=f"{HERE}:Good")
    asked = list(script.asked)
    records = [json.loads(line) for line in (first / "hints.jsonl").read_text().splitlines()]
    assert len(records) >= 8 and {record["env"] for record in records} == {0, 1}
    assert all(record["hint"]["target"].startswith("x >= ") for record in records)
    assert [record["step"] for record in records] == sorted(record["step"] for record in records)
    config = json.loads((first / "config.json").read_text())
    assert config["world_options"]["guide_fade"] == 64 and records[-1]["weight"] < records[0]["weight"] < 1
    assert max(asked) <= 64  # nobody asked while the agent was evaluated
    second = train(tmp_path / "second", guide=str(first / "hints.jsonl"))
    assert script.asked == asked and not differences(last_state(first), last_state(second))


@pytest.mark.slow
def test_a_resumed_run_has_each_hint_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those after the checkpoint are removed, and come again."""
    monkeypatch.setattr(guidance, "client_for", lambda settings, about: Chatty())
    run = train(tmp_path, guide=f"{HERE}:Good")
    before = (run / "hints.jsonl").read_text()
    rookery.resume(run, steps=192)
    after = (run / "hints.jsonl").read_text()
    assert after.startswith(before) and len(after) > len(before)


def test_a_guide_in_a_file_is_code_of_a_run() -> None:
    """A run of somebody else that names one is not resumed without a question."""
    config = build_config({"world": "gameboy", "world_options": {"guide": "/their/guide.py:Guide"}})
    assert "/their/guide.py:Guide" in code_in(config)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["good", "html", "silent"])
def test_training_goes_on_whatever_a_model_says(kind: str, server: Stub, tmp_path: Path) -> None:
    """Through the command line, in worker processes; the key is nowhere in the run's folder."""
    server.says('{"target": "has_key == 1", "bonus": 0.5}')
    if kind == "html":
        server.content = b"<html>busy</html>"
    if kind == "silent":
        server.delay = 60.0
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "ROOKERY_GUIDE_KEY": "secret-key"}
    command = [
        sys.executable, "-m", "rookery", "train", "gameboy", "--guide", "openai", "--steps", "1200", "--num-envs", "2",
        "--backend", "process", "--workers", "2", "--set", f"world_options.guide_url={server.url}",
        "--set", "world_options.guide_model=small", "--set", "world_options.guide_every=10",
        "--set", "ppo.rollout_length=50", "--set", "evaluation.episodes=1", "--set", "evaluation.every=100000",
        "--no-panel", "--episode-length", "100", "--set", "checkpoints.every=100000", "--set", "ppo.threads=1",
        "--runs-dir", str(tmp_path), "--name", "run",
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert server.asked and server.asked[0][1] == "Bearer secret-key"
    hints = tmp_path / "run" / "hints.jsonl"
    found = "" if not hints.exists() else hints.read_text()
    assert ('"target"' in found) == (kind == "good") and ('"error"' in found) == (kind == "html")
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert all(b"secret-key" not in file.read_bytes() for file in files) and "secret-key" not in done.stderr


def test_a_guide_elsewhere_is_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of somebody else, whose guide is on another machine, would send the key of this user there."""
    monkeypatch.setenv("ROOKERY_STATE", str(tmp_path / "state"))
    options = {"guide": "openai", "guide_url": "https://api.example.com/v1", "guide_remote": True, "guide_model": "m"}
    config = build_config({"world": "gameboy", "world_options": options})
    run = RunDir.create(tmp_path / "runs", "theirs")
    run.remember(id="0" * 32)
    with pytest.raises(RunError, match=r"connect to https://api.example.com.*connect to openai"):
        check_run(run, config, trust=False)
    remember(run, config)  # as `train` does
    assert not check_run(run, config, trust=False)
