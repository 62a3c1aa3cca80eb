"""One function per row of the curriculum's table."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import rookery
from at_work import AtWork
from engine_rows import Row, ratio_row
from measure import in_turns
from rookery.config import build_config
from rookery.training.curriculum.curriculum import make_curriculum_env
from rookery.training.evaluation.evaluate import evaluate_games
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.run.components import fit_learner, make_engine, make_learner

CONFIGS = Path(__file__).parent.parent / "configs"
PPO = {"hidden": [64, 64], "epochs": 4, "rollout_length": 64, "minibatches": 4}
# As in the hand-written trainers: dueling, double, one step, uniform replay.
DDDQN = {
    "hidden": [128, 128], "batch_size": 128, "n_step": 1, "prioritised": False, "start_steps": 256,
    "updates_per_step": 1.0, "buffer_size": 100_000,
}  # fmt: skip


def led(folder: str, **keys: Any) -> AtWork:
    """A learner on hockey, through phases and opponents if there are any."""
    config = build_config({"world": "hockey", "runs_dir": folder, "seed": 1, "steps": 10**9, **keys})
    run = fit_learner(resolve_run(config))
    engine, learner = make_engine(run), make_learner(run)
    envs = make_curriculum_env(run, engine, learner, Path(folder)) if run.config.has_curriculum else engine
    return AtWork(envs, learner, run.config.learner)


def dqn_rows(rounds: int) -> list[Row]:
    """DDDQN on hockey with 8 envs, over one env, by the hand-written trainer's count and by the true one."""
    with tempfile.TemporaryDirectory() as folder:
        by_round = {**DDDQN, "updates_each": "round"}
        sides = {
            "one": led(folder, learner="dqn", num_envs=1, dqn=DDDQN).side(600),
            "round": led(folder, learner="dqn", num_envs=8, dqn=by_round).side(4000),
            "step": led(folder, learner="dqn", num_envs=8, dqn=DDDQN).side(800),
        }
        found = in_turns(sides, rounds)
    return [
        ratio_row("DDDQN env steps/s, 8 envs / 1, an update a round", found["round"], found["one"], 4),
        ratio_row("DDDQN env steps/s, 8 envs / 1, an update an env step", found["step"], found["one"], 1.3),
    ]


def self_play_rows(rounds: int) -> list[Row]:
    """PPO against copies of itself, against an archive, and against the strong script."""
    common: dict[str, Any] = {"learner": "ppo", "num_envs": 128, "ppo": PPO}
    with tempfile.TemporaryDirectory() as folder:
        turn = 16 * 128 * 64
        sides = {
            "script": led(folder, opponents="strong", **common).side(turn),
            "self": led(folder, opponents="self", **common).side(turn),
        }
        found = in_turns(sides, rounds)
    speed = float(np.median(found["self"])) / 1000
    share = 100 * (1.0 - float(np.median(found["self"] / found["script"])))
    scripted = f"{np.median(found['script']):,.0f}/s scripted"
    return [
        Row("PPO self-play on hockey, 64x64, 4 epochs", f"{1000 * speed:,.0f}/s", scripted, speed, 30, " k/s"),
        Row("what policy opponents cost", f"{1000 * speed:,.0f}/s", scripted, share, 35, " %", most=True),
    ]


def agent_rows(rounds: int) -> list[Row]:
    """The agent that comes with rookery, over 1,000 games against each script."""
    rows = []
    for who in ("strong", "weak"):
        played = evaluate_games("hockey", [who], games=1000, seed=20_261_115)
        result = f"{played['won']} won, {played['drawn']} drawn, {played['lost']} lost"
        rows.append(Row(f"hockey agent against {who}: won", result, "", 100 * played["win_rate"], 85, " %"))
        rows.append(Row(f"hockey agent against {who}: lost", result, "", 100 * played["loss_rate"], 5, " %", most=True))
    return rows


def curriculum_rows(rounds: int) -> list[Row]:
    """configs/curriculum_base.json with 40 episodes a phase and small nets: where its phases begin."""
    rows = []
    for kind in ("DDDQN", "SAC"):
        begun = [_boundaries(kind, num_envs) for num_envs in (1, 4, 8)]
        same = all(places == [0, 40, 80, 120] for places in begun)
        label = f"four-phase JSON, {kind}, num_envs 1, 4, 8: phases begin at episodes"
        rows.append(Row(label, "; ".join(map(str, begun)), "", float(same), 1, ""))
    return rows


def _boundaries(kind: str, num_envs: int) -> list[int]:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = Path(folder) / "curriculum.json"
        path.write_text(json.dumps(shrunk(kind)))
        with contextlib.redirect_stderr(io.StringIO()):
            result = rookery.train(path, num_envs=num_envs, runs_dir=folder, monitor={"panel": False, "plot": False})
        lines = [json.loads(line) for line in (result.path / "metrics.jsonl").open()]
    return [line["episodes"] for line in lines if line.get("kind") == "note" and "phase" in line]


def shrunk(kind: str, episodes: int = 40) -> dict[str, Any]:
    """The four-phase file, for a minute's work."""
    old = json.loads((CONFIGS / "curriculum_base.json").read_text())
    for phase in old["curriculum"]["phases"]:
        phase["episodes"] = episodes
    old["hyperparameters"]["batch_size"] = 32
    old["agent"] = {"type": kind, "hyperparameters": {"hidden_dim": [32, 32]}}
    return old


ROWS = {"agent": agent_rows, "curriculum": curriculum_rows, "dqn": dqn_rows, "self-play": self_play_rows}
