"""Several forks from one moment, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.errors import OptionError
from rookery.training.rewind.fork_many import ForksResult
from training.rewind.test_fork import last
from training.runs import differences, small


def fork(settings: dict[str, Any], score: float | None, seed: int = 1) -> dict[str, Any]:
    facts = {"name": f"{settings}{seed}", "steps": 1, "best_eval": score, "state": "finished", "error": None}
    return {**facts, "settings": settings, "seed": seed, "last_eval": score}


def result(*forks: dict[str, Any]) -> ForksResult:
    return ForksResult({"name": "p", "steps": 1, "last_eval": 0.0, "best_eval": 0.0, "state": "finished"}, [*forks], 5)


def test_luck_is_the_spread_among_equal_settings() -> None:
    a, b = {"x": 1}, {"x": 2}
    found = result(fork(a, 1.0), fork(a, 3.0, 2), fork(b, 11.0), fork(b, 13.0, 2), fork(b, None, 3))
    assert found.luck == pytest.approx(2**0.5) and found.effect == 10.0
    assert result(fork(a, 1.0), fork(a, 3.0, 2)).effect is None
    assert result(fork(a, 1.0), fork(b, 3.0)).luck is None
    assert "--seeds" in result(fork(a, 1.0), fork(b, 3.0)).verdict
    assert "compared" in result(fork(a, None)).verdict


@pytest.mark.slow
def test_each_is_the_fork_that_it_would_be_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parent = rookery.train(small("ppo", tmp_path, steps=256, name="parent"))
    made = rookery.fork_many(parent, 128, settings={"ppo.clip": [0.1, 0.3]}, seeds=[7], runs_dir=tmp_path, jobs=2)
    assert [one["name"] for one in made.forks] == ["parent-fork-clip=0.1-s7", "parent-fork-clip=0.3-s7"]
    assert [one["state"] for one in made.forks] == ["finished"] * 2, made.forks
    alone = rookery.fork(parent, at=128, runs_dir=tmp_path, name="alone", seed=7, ppo={"clip": 0.3})
    assert not differences(last(tmp_path / "parent-fork-clip=0.3-s7"), last(alone.path))
    assert json.loads(json.dumps(made.as_json()))["effect"] == made.effect is not None
    capsys.readouterr()
    made.print()
    assert capsys.readouterr().out.splitlines()[1].startswith("parent ")


@pytest.mark.parametrize(
    "wrong", [{}, {"settings": {"ppo.clip": [0.1]}}, {"seeds": 1}, {"seeds": 201}, {"settings": {"ppo.clip": []}}]
)
def test_what_makes_no_group_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / "config.json").write_text('{"world": "CartPole-v1", "learner": "ppo"}')
    with pytest.raises(OptionError):
        rookery.fork_many(parent, 128, runs_dir=tmp_path, **wrong)
    assert [path.name for path in tmp_path.iterdir()] == ["parent"]
