"""From a search to the gate: a planted signal gets through, and bars without one do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.data.storage import write
from rookery.data.synth import synthesise
from rookery.deploy.promotion import Deployment, deploy

CONFIG = Path(__file__).parents[2] / "examples" / "crypto_5m" / "config.toml"


def searched_and_deployed(folder: Path, signal: float, seed: int) -> Deployment:
    """What becomes of the best of four trials on these bars. Without a signal there are columns to be misled by."""
    bars = synthesise(3, 4000, "5m", seed=seed, signal=signal, signal_half_life=50, kind="crypto")
    write(bars, folder / "bars.parquet")
    columns = "signal" if signal else "close,volume,rsi_14"
    options: dict[str, Any] = {"data": str(folder / "bars.parquet"), "columns": columns}
    study = rookery.search(
        CONFIG, n_trials=4, study_name="control", studies_dir=folder / "studies", world_options=options, steps=10_000,
        search={"verify_seeds": 2}, verbose=False,
    )  # fmt: skip
    assert study.finished == 4
    return deploy(study.path, folder / "deployed")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_planted_signal_gets_through_the_gate(tmp_path: Path) -> None:
    found = searched_and_deployed(tmp_path, signal=0.3, seed=1)
    assert found.action == "promoted", found.text
    assert found.champion == 1


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2])
def test_bars_without_a_signal_do_not(tmp_path: Path, seed: int) -> None:
    found = searched_and_deployed(tmp_path, signal=0.0, seed=seed)
    assert found.action == "refused", found.text
    assert found.champion is None
    assert found.gate is not None and found.gate.figures["deflated_sharpe"] < 0.95
