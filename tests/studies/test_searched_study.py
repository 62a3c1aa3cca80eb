"""From a real search to its report, its best configuration, and a run with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rookery
from rookery.cli.main import main


@pytest.mark.slow  # it trains a few runs
def test_the_best_configuration_of_a_search_trains_as_the_trial_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"seeds": 1, "verify": 1, "verify_seeds": 1, "space": {"ppo.gamma": {"uniform": [0.9, 0.99]}}}
    rookery.search(
        "CartPole-v1", n_trials=2, study_name="tiny", jobs=1, steps=512, num_envs=2, learner="ppo", verbose=False,
        search=options,
    )  # fmt: skip
    capsys.readouterr()
    assert main(["study", "tiny", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["finished"], made["running"], made["best_is_verified"]) == (2, 0, True)
    best = made["trials"][made["best_trial"]]
    assert made["best_params"] == best["params"]

    assert main(["study", "tiny", "--watch"]) == 0
    assert "the study tiny is complete" in capsys.readouterr().out

    assert main(["study", "tiny", "--export-config", "best.toml"]) == 0
    result = rookery.train("best.toml", verbose=False)
    used = json.loads((Path(result.path) / "config.json").read_text())
    (part,) = best["parts"].values()
    trained = json.loads((tmp_path / "studies" / "tiny" / part["run"] / "config.json").read_text())
    same = ("world", "world_options", "learner", "ppo", "steps", "num_envs", "seed", "backend")
    assert {key: used[key] for key in same} == {key: trained[key] for key in same}
    assert used["ppo"]["gamma"] == made["best_params"]["ppo.gamma"]
