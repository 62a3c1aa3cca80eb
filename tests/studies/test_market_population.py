"""The folds of a market's trial are a population."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import rookery
from rookery.config import build_config
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.studies.trials.plans import plan_for
from rookery.training.population.batchable import why_not_batchable
from rookery.training.population.train_population import train_population


@pytest.mark.slow
def test_six_folds_of_a_market_train_side_by_side_as_they_do_alone(tmp_path: Path) -> None:
    write(synthesise(2, 800, "5m", seed=3, kind="crypto"), tmp_path / "crypto.parquet")
    numbers = {"rollout_length": 16, "hidden": [8], "epochs": 2, "minibatches": 2, "threads": 1}
    config = build_config({
        "world": "crypto", "learner": "ppo", "name": "trial", "runs_dir": str(tmp_path / "together"), "steps": 96,
        "num_envs": 2, "ppo": numbers, "monitor": {"verbose": False, "system": False, "plot": False},
        "world_options": {"data": str(tmp_path / "crypto.parquet"), "columns": "close,volume", "costs": "none"},
    })  # fmt: skip
    parts = plan_for(config).first_parts(config)
    assert len(parts) == 6
    configs = [part.config for part in parts]
    assert why_not_batchable(configs) == ""
    together = train_population(configs, names=[part.run_name for part in parts])
    for one, member in list(zip(configs, together, strict=True))[::2]:
        alone = rookery.train(one.model_copy(update={"runs_dir": str(tmp_path / "alone")}))
        pairs = zip(*(rookery.load(run.path, best=False).policy.parameters() for run in (member, alone)), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert member.evaluation == alone.evaluation
