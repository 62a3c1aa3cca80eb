"""The search spaces of the market worlds name settings that exist, and contain none that a run refuses."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from rookery.config import build_config
from rookery.lazy import load_object
from rookery.studies.space.space import SearchSpace
from rookery.worlds import registry


def space_of(world: str) -> dict[str, Any]:
    spec = registry.get(world)
    assert spec is not None and spec.search_space is not None
    return load_object(spec.search_space)


def nested(settings: dict[str, Any]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for key, value in settings.items():
        section, name = key.split(".")
        tables.setdefault(section, {})[name] = value
    return tables


@pytest.mark.parametrize("world", ["crypto", "perpetuals", "forex", "forex-account"])
def test_both_ends_of_every_range_are_valid_settings(world: str) -> None:
    for key, ranges in space_of(world).items():
        ((kind, values),) = ranges.items()
        assert kind in ("log", "uniform", "int", "choice")
        assert kind == "choice" or values[0] < values[1]
        for value in values:
            build_config({"world": world, "learner": "ppo", **nested({key: value})})


@pytest.mark.parametrize("world", ["crypto", "forex"])
def test_the_ranges_are_those_that_traders_search_with(world: str) -> None:
    space = space_of(world)
    assert space["ppo.learning_rate"] == {"log": [1e-6, 1e-3]}
    assert space["ppo.batch_size"] == {"choice": [2048, 4096, 8192]}
    assert space["ppo.gamma"] == {"uniform": [0.88, 0.99]}
    assert space["ppo.clip"] == {"uniform": [0.1, 0.4]}
    assert space["ppo.gae_lambda"] == {"uniform": [0.90, 0.99]}
    assert space["ppo.epochs"] == {"int": [4, 16]}
    widths = set(chain(*space["ppo.hidden"]["choice"]))
    assert min(widths) == 512 and max(widths) == 1536
    assert space["world_options.lookback"]["int"][0] == 1


@pytest.mark.parametrize("world", ["crypto", "forex", "rookery/Crypto-v0"])
def test_a_search_varies_this_space_and_for_another_learner_its_own_and_the_lookback(world: str) -> None:
    varied = SearchSpace.of(build_config({"world": world, "learner": "ppo"})).distributions
    assert set(varied) == set(space_of("crypto"))
    other = "dqn" if world == "forex" else "sac"
    varied = SearchSpace.of(build_config({"world": world, "learner": other})).distributions
    assert f"{other}.learning_rate" in varied and "world_options.lookback" in varied
    assert not [key for key in varied if key.startswith("ppo.")]
