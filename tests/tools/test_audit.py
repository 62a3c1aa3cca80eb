"""The look-ahead audit names planted leaks, and accuses no clean world."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.cli.main import main
from rookery.data.synth import synthesise
from rookery.errors import OptionError, WorldError
from rookery.worlds.market.crypto import crypto
from rookery.worlds.market.forex import forex
from rookery.worlds.market.forex_account import forex_account
from rookery.worlds.market.perpetuals import perpetuals
from tools.audited_worlds import CLEAN, LEAKS, Market

DATA = {name: np.ones(120) for name in ("open", "high", "low", "close", "volume")}


def test_there_are_many_of_each() -> None:
    assert len(LEAKS) >= 30 and len(CLEAN) >= 30


@pytest.mark.few(1)
@pytest.mark.parametrize("name", LEAKS)
def test_a_planted_leak_is_named(name: str) -> None:
    world, kind = LEAKS[name]
    report = rookery.audit(world, DATA)
    assert not report.passed and kind in {leak.kind for leak in report.leaks}, str(report)
    if kind == "observation":
        assert report.leaks[0].what == "observation[0]"


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_clean_world_is_not_accused(name: str, seed: int) -> None:
    report = rookery.audit(CLEAN[name], DATA, seed=seed)
    assert report.passed and not report.notes, str(report)


@pytest.mark.slow
def test_the_markets_of_rookery_are_clean() -> None:
    crypto_bars = synthesise(2, 200, "1h", seed=1)
    report = rookery.audit(crypto, crypto_bars, costs="alpaca-crypto", columns="close,rsi_14", lookback=3, window=0)
    assert report.passed and not report.notes, str(report)
    pair = synthesise(bars=200, timeframe="1h", seed=1, kind="forex", symbols=("EURUSD",))
    report = rookery.audit(forex, pair, columns="close,ema_10", lookback=3)
    assert report.passed and not report.notes, str(report)


@pytest.mark.slow
def test_a_forex_account_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)  # in plain Python
    bars = synthesise(bars=100, timeframe="1h", seed=1, kind="forex", symbols=("EURUSD", "USDJPY"))
    report = rookery.audit(forex_account, bars, steps=6, columns="close", lookback=1, window=0, leverage=1.0)
    assert report.passed and not report.notes, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("action_type", ["weights", "brackets"])
def test_perpetuals_are_clean(action_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small leverage: an account that is lost ends the episode."""
    monkeypatch.setattr("rookery.kernel.runner.load_native", lambda: None)  # in plain Python
    bars = synthesise(1, 100, "1h", seed=1)
    options = {"action_type": action_type, "columns": "close", "lookback": 1, "window": 0, "leverage": 1.0}
    report = rookery.audit(perpetuals, bars, steps=6, **options)
    assert report.passed and not report.notes, str(report)


@pytest.mark.slow
def test_bars_are_given_in_the_form_that_the_world_takes(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")

    class Capitals(Market):
        def __init__(self, df: pandas.DataFrame) -> None:
            super().__init__({name.lower(): df[name] for name in df.columns})

    class Files(LEAKS["the next close"][0]):  # type: ignore[misc]
        def __init__(self, path: str) -> None:
            super().__init__(pandas.read_csv(path))

    class Closes(LEAKS["the next close"][0]):  # type: ignore[misc]
        def __init__(self, prices: np.ndarray) -> None:
            super().__init__(dict.fromkeys(("open", "high", "low", "close", "volume"), prices))

    assert rookery.audit(Capitals).passed
    (tmp_path / "bars.csv").write_text("time,open,high,low,close,volume\n" + "2024-01-01,1,1,1,1,1\n" * 120)
    assert not rookery.audit(Files, tmp_path / "bars.csv").passed
    assert not rookery.audit(Closes, np.ones(120)).passed
    assert not rookery.audit(lambda things: LEAKS["the next close"][0](things), DATA).passed


def test_what_cannot_be_audited_is_said() -> None:
    class NoBars(Market):
        def __init__(self) -> None:
            super().__init__(DATA)

    class Deaf(Market):
        def __init__(self, data: object) -> None:
            super().__init__(DATA)

    class Random(Market):
        def observe(self) -> np.ndarray:
            return np.random.default_rng().normal(size=2)

    class Idle(Market):
        def target(self, action: object) -> float:
            return 0.0

    with pytest.raises(OptionError, match="takes no bars"):
        rookery.audit(NoBars)
    with pytest.raises(WorldError, match="no observation depends on the bars"):
        rookery.audit(Deaf)
    with pytest.raises(WorldError, match="another episode with the same seed"):
        rookery.audit(Random, DATA)
    with pytest.raises(OptionError, match="at least 4"):
        rookery.audit(Market, DATA, steps=2)
    assert "fills could not be tested" in str(rookery.audit(Idle, DATA))


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path(__file__).parents[1]
    text = f"import sys; sys.path.insert(0, {str(folder)!r})\nfrom tools.audited_worlds import LEAKS, Market\n"
    text += "class Good(Market): pass\nclass Bad(LEAKS['the next close'][0]): pass\n"
    (tmp_path / "my_env.py").write_text(text)
    assert main(["audit", "my_env.py:Good", "--steps", "8"]) == 0
    assert "nothing knew the future" in capsys.readouterr().out
    assert main(["audit", "my_env.py:Bad", "--steps", "8", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["leaks"][0]["kind"] == "observation" and found["leaks"][0]["step"] == 0
