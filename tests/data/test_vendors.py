"""Exports of vendors, made by hand in their real layouts: read right without a flag, or rejected with one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rookery.data.dataset import Dataset
from rookery.data.importing.vendors import FORMATS, LAYOUTS
from rookery.data.opened_data import open_data
from rookery.errors import DataError, OptionError
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.market.crypto import crypto

FOLDER = Path(__file__).parent / "vendors"
FILES = sorted(path.stem for path in FOLDER.glob("*.csv"))
NO_ZONE = {"metatrader4": "UTC", "metatrader5": "UTC", "yahoo": "America/New_York"}  # files that do not say their clock
SEPARATOR = {"metatrader5": "\t", "histdata": ";"}
HEADLESS = ("binance", "kraken", "metatrader4", "histdata")
FIRST, BARS = 1_704_153_600, 12  # 2024-01-02 00:00 UTC


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.csv").read_text()


def opened(tmp_path: Path, name: str, content: str | bytes, **options: object) -> Dataset:
    path = tmp_path / f"{name}.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    zone = {"timezone": NO_ZONE[name]} if name in NO_ZONE else {}
    return open_data(path, **{"notes": [], **zone, **options})  # type: ignore[arg-type]


def assert_same(one: Dataset, other: Dataset) -> None:
    assert (one.symbols, one.timeframe) == (other.symbols, other.timeframe)
    for mine, theirs in zip(one.bars, other.bars, strict=True):
        np.testing.assert_array_equal(mine.times, theirs.times)
        for column in ("open", "high", "low", "close", "volume"):
            np.testing.assert_array_equal(mine[column], theirs[column])


def test_every_layout_has_a_file() -> None:
    assert {name.removesuffix("_header") for name in FILES} == {layout.name for layout in LAYOUTS}
    assert len(FILES) == 12


@pytest.mark.parametrize("name", FILES)
def test_a_layout_is_recognised_and_read_right(name: str, tmp_path: Path) -> None:
    notes: list[str] = []
    data = opened(tmp_path, name, text_of(name), notes=notes)
    bars, vendor = data.bars[0], name.removesuffix("_header")
    title = next(layout.title for layout in LAYOUTS if layout.name == vendor)
    assert any(f"read as {title}" in note for note in notes), notes
    assert len(bars) == BARS and data.history[-1]["format"] == vendor
    first = {"histdata": FIRST + 5 * 3600 + 60, "yahoo": FIRST + 5 * 3600 + 86_400, "stooq": FIRST + 14 * 3600 + 2100}
    assert bars.times[0] == first.get(name, FIRST + 3600)
    line = re.split("[,;\t]", text_of(name).splitlines()[-1 if name == "cryptodatadownload" else -BARS])
    numbers = {float(field) for field in line if re.fullmatch(r"-?\d+(\.\d+)?", field)}
    assert {bars[column][0] for column in ("open", "high", "low", "close")} <= numbers
    volume = {"metatrader5": 1200.0, "histdata": 0.0, "kraken": 12.5, "stooq": 150_000.0, "tradingview": 410.5,
              "cryptodatadownload": 3.2}  # coins, not dollars  # fmt: skip
    assert bars["volume"][0] == volume.get(name, bars["volume"][0])


@pytest.mark.parametrize("name", sorted(NO_ZONE))
def test_a_clock_that_the_file_does_not_name_is_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--timezone"):
        opened(tmp_path, name, text_of(name), timezone=None)


def columns_swapped(text: str, name: str, first: int, second: int) -> str:
    """The values of two columns, exchanged; counted from the column of the open price."""
    separator = SEPARATOR.get(name, ",")
    start = {"metatrader4": 2, "metatrader5": 2, "alpaca": 2, "stooq": 4, "cryptodatadownload": 3}.get(name, 1)
    lines = text.splitlines()
    for i, line in enumerate(lines):
        fields = line.split(separator)
        if re.match(r"-?\d", fields[start] if len(fields) > start else ""):
            fields[start + first], fields[start + second] = fields[start + second], fields[start + first]
            lines[i] = separator.join(fields)
    return "\n".join(lines) + "\n"


def times_ten(text: str, name: str, factor: float) -> str:
    """The prices of one bar in another unit."""
    separator = SEPARATOR.get(name, ",")
    lines = text.splitlines()
    fields = lines[-6].split(separator)
    places = [k for k, field in enumerate(fields) if re.fullmatch(r"\d+\.\d+", field)][:4]
    for place in places:
        fields[place] = f"{float(fields[place]) * factor:.7f}"
    return "\n".join([*lines[:-6], separator.join(fields), *lines[-5:]]) + "\n"


def other_separator(text: str, name: str) -> str:
    return text.replace(SEPARATOR.get(name, ","), "|")


def comma_decimals(text: str, name: str) -> str:
    """As a spreadsheet of a German office saves it."""
    lines = [line.replace(SEPARATOR.get(name, ","), ";") for line in text.splitlines()]
    return "\n".join(re.sub(r"(?<=;)(\d+)\.(\d+)(?=;|$)", r"\1,\2", line) for line in lines) + "\n"


def cut(text: str, name: str) -> str:
    """As a download that broke off leaves it: within the prices of the last bar."""
    lines, separator = text.rstrip().splitlines(), SEPARATOR.get(name, ",")
    fields = lines[-1].split(separator)
    return "\n".join([*lines[:-1], separator.join(fields[: len(fields) // 2 - 1])])


HARMLESS: dict[str, Callable[[str, str], str | bytes]] = {
    "a byte order mark": lambda text, name: b"\xef\xbb\xbf" + text.encode(),
    "UTF-16": lambda text, name: text.encode("utf-16"),
    "UTF-32": lambda text, name: text.encode("utf-32"),
    "line ends of Windows": lambda text, name: text.replace("\r\n", "\n").replace("\n", "\r\n").encode(),
    "blank lines at the end": lambda text, name: text + "\n\n",
    "another separator": other_separator,
}
BROKEN: dict[str, Callable[[str, str], str | bytes]] = {
    "high and low swapped": lambda text, name: columns_swapped(text, name, 1, 2),
    "open and volume swapped": lambda text, name: columns_swapped(text, name, 0, 5 if name == "yahoo" else 4),
    "open and close swapped": lambda text, name: columns_swapped(text, name, 0, 3),
    "a bar ten times too high": lambda text, name: times_ten(text, name, 10.0),
    "a bar ten times too low": lambda text, name: times_ten(text, name, 0.1),
    "a cut last line": cut,
    "comma decimals": comma_decimals,
    "a text among prices": lambda text, name: re.sub(r"\.(\d\d)", ".x", text[::-1].replace("\n", "\n", 1)[::-1]),
    "the last bar twice": lambda text, name: text.rstrip("\r\n") + "\n" + text.rstrip("\r\n").splitlines()[-1],
    "half of the file twice": lambda text, name: text + "\n".join(text.splitlines()[-6:]) + "\n",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", HARMLESS)
def test_a_harmless_variant_is_read_the_same(name: str, change: str, tmp_path: Path) -> None:
    assert_same(opened(tmp_path, name, HARMLESS[change](text_of(name), name)), opened(tmp_path, name, text_of(name)))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_variant_is_one_sentence(name: str, change: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        opened(tmp_path, name, BROKEN[change](text_of(name), name))
    assert "\n" not in str(error.value) and f"{name}.csv" in str(error.value)


@pytest.mark.parametrize("name", [name for name in FILES if name not in HEADLESS])
def test_a_missing_header_is_read_right_or_one_sentence(name: str, tmp_path: Path) -> None:
    text = "\n".join(text_of(name).splitlines()[2 if name == "cryptodatadownload" else 1 :])
    whole = opened(tmp_path, name, text_of(name))
    if name in ("binance_header", "metatrader5"):  # the columns follow from their number and form
        assert_same(opened(tmp_path, name, text), whole)
    elif name == "tradingview":  # six numbers and a hole could be anything
        with pytest.raises(DataError, match="name the columns"):
            opened(tmp_path, name, text)
    else:
        with pytest.raises(DataError, match=r"name the columns|no column of"):
            opened(tmp_path, name, text)


@pytest.mark.parametrize(("name", "digits"), [("binance", 16), ("binance_header", 13), ("kraken", 10)])
@pytest.mark.parametrize("unit", [13, 16])
def test_milliseconds_and_microseconds_are_read_and_a_mixture_is_not(
    name: str, digits: int, unit: int, tmp_path: Path
) -> None:
    def rescaled(text: str) -> str:
        longer = lambda found: str(int(int(found[0]) * 10.0 ** (unit - digits)))  # noqa: E731
        return re.sub(rf"\b\d{{{digits}}}\b", longer, text)

    text = text_of(name)
    if name != "kraken":
        assert_same(opened(tmp_path, name, rescaled(text)), opened(tmp_path, name, text))
    half = text.splitlines()[-6:]
    mixed = "\n".join([*text.splitlines()[:-6], *map(rescaled, half)])
    if unit != digits:
        with pytest.raises(DataError, match="another unit"):
            opened(tmp_path, name, mixed)


def test_comma_decimals_are_read_if_it_is_said(tmp_path: Path) -> None:
    for name in FILES:
        text = comma_decimals(text_of(name), name)
        assert_same(opened(tmp_path, name, text, decimal_comma=True), opened(tmp_path, name, text_of(name)))


def test_dates_of_dukascopy_that_a_spreadsheet_wrote_are_not_guessed(tmp_path: Path) -> None:
    american = text_of("dukascopy").replace("02.01.2024", "1/2/2024")
    with pytest.raises(DataError, match="--month-first"):
        opened(tmp_path, "dukascopy", american)
    read = opened(tmp_path, "dukascopy", american, format="generic", day_first=False)
    assert_same(read, opened(tmp_path, "dukascopy", text_of("dukascopy")))


def test_files_of_ninjatrader_are_not_taken_for_those_of_histdata(tmp_path: Path) -> None:
    """They differ in their volumes only, and are on another clock."""
    text = text_of("histdata").replace(";0\n", ";25\n")
    with pytest.raises(DataError, match="should name the columns"):
        opened(tmp_path, "histdata", text)
    read = opened(tmp_path, "histdata", text, format="histdata", timezone="UTC")
    assert read.bars[0].times[0] == FIRST + 60 and read.bars[0]["volume"][0] == 25


def test_a_long_value_is_shortened_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a finite number") as error:
        opened(tmp_path, "kraken", text_of("kraken").replace("42396.5", "x" * 5000))
    assert len(str(error.value)) < 400


def test_swapped_times_of_binance_are_found(tmp_path: Path) -> None:
    lines = [line.split(",") for line in text_of("binance").splitlines()]
    swapped = "\n".join(",".join([row[6], *row[1:6], row[0], *row[7:]]) for row in lines)
    with pytest.raises(DataError, match="close_time is not after"):
        opened(tmp_path, "binance", swapped)


def test_a_format_overrides_what_is_recognised(tmp_path: Path) -> None:
    plain = opened(tmp_path, "dukascopy", text_of("dukascopy"), format="generic", day_first=False)
    assert plain.bars[0].times[0] == FIRST + 3600 + 30 * 86_400  # the second of January, read as the first of February
    as_kraken = "\n".join(line.rsplit(",", 6)[0] + ",5" for line in text_of("binance").splitlines())
    notes: list[str] = []
    read = opened(tmp_path, "binance", as_kraken, format="kraken", notes=notes)
    assert len(read.bars[0]) == BARS and any("Kraken" in note for note in notes)
    with pytest.raises(DataError, match=r"--format binance: the first line has 7 columns"):
        opened(tmp_path, "kraken", text_of("kraken"), format="binance")
    with pytest.raises(OptionError, match="one of binance"):
        opened(tmp_path, "kraken", text_of("kraken"), format="nobody")
    assert len(set(FORMATS)) == len(FORMATS)


def assert_cheap(data: Dataset) -> bool:
    """An agent that trades everything at each bar pays at most 1 % of what it trades; no money appears or is lost.
    Returns whether there is a spread."""
    spread = "spread" in data.bars[0].columns
    costs = {"preset": "none", "fee": 0.001, "half_spread": "data" if spread else 0.0}
    world = crypto(data=data, columns="close", lookback=1, time_limit=0, window=0, costs=costs, max_order=1.0)
    env = KernelEnv(world, plain=True)
    env.reset(seed=1)
    cash, held, opens, closes = 100_000.0, 0.0, data.bars[0]["open"], data.bars[0]["close"]
    for action in (1.0, -1.0, 1.0, -1.0):
        *_, truncated, info = env.step(np.array([action], np.float32))
        row, traded = int(info["row"]), float(info["positions"][0]) - held
        paid = info["fees"] + info["spread_cost"] + info["impact_cost"]
        assert 0 <= paid <= 0.01 * abs(traded) * opens[row]
        cash, held = cash - traded * opens[row] - paid, held + traded
        assert info["equity"] == pytest.approx(cash + held * closes[row], rel=1e-9)
        if truncated:  # at a weekend
            break
    return spread


@pytest.mark.parametrize("name", FILES)
def test_no_file_makes_trading_absurdly_expensive(name: str, tmp_path: Path) -> None:
    assert assert_cheap(opened(tmp_path, name, text_of(name))) == (name == "metatrader5")
