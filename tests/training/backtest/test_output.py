"""Reports on the terminal and as files."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from rookery.training.backtest.backtest import make_report
from rookery.training.backtest.svg_chart import averaged, heat_map, thinned
from training.backtest.recorded import DAY, START, market, random_window, window

ABOUT = {"run": "a-run", "world": "crypto", "split": "test", "checkpoint": "best (step 1,000)"}
CASES = {
    "one symbol": [random_window(300)],
    "portfolio": [random_window(400, 7)],
    "two accounts": [random_window(200, symbols=("EURUSD",)), random_window(150, seed=2, symbols=("USDJPY",))],
    "no trades": [window([1, 2, 3])],
    "one bar": [window([100, 110], [10])],
    "ruin": [window([100, 50, 0, 0], [10, 10, 10])],
    "folds": [window([1, 2, 3], [5, 5], fold=1), window([3, 2, 3], [5, 5], fold=2, start=START + DAY)],
    "short": [window([100, 90, 95], [-5, -5])],
    "months": [random_window(24 * 100, step=3600)],
    "decades": [random_window(500, step=30 * DAY)],
}


def report_of(case, **changes):
    return make_report(CASES[case], market(**changes), ABOUT)


class Checked(HTMLParser):
    """Collects tags that were not closed, and attributes that lead out of the file."""

    VOID = ("meta", "line", "br")

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.outside = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.outside += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("case", CASES)
def test_html_stands_alone(case):
    """Every tag is closed, nothing is fetched, there is no script, and the numbers of charts are finite."""
    from rookery.training.backtest.report_pages import page

    report = report_of(case)
    text = page(report.summary, report.account, report.trades)
    checked = Checked()
    checked.feed(text)
    assert not checked.open and not checked.outside
    assert "script" not in checked.tags and "link" not in checked.tags
    assert not re.search(r"https?://|url\(|@import|\bnan\b|\binf\b", text)
    assert checked.tags.count("svg") >= 3 and "prefers-color-scheme: dark" in text
    assert report["verdict"].split("(")[0].strip() in text


def test_html_escapes_names():
    from rookery.training.backtest.report_pages import page

    report = make_report([window([1, 2], [5], symbols=("<b>A",))], market(source="<script>"), {**ABOUT, "run": "<i>"})
    text = page(report.summary, report.account, report.trades)
    assert "<b>A" not in text and "<script>" not in text and "<i>" not in text


@pytest.mark.slow
def test_files(tmp_path):
    report = report_of("portfolio", synthetic=True)
    written = report.write(tmp_path / "report")
    assert written == tmp_path / "report" / "report.html"
    assert {path.name for path in written.parent.iterdir()} == {
        "account.npy",
        "report.html",
        "report.json",
        "report.png",
        "trades.csv",
    }
    assert json.loads((tmp_path / "report" / "report.json").read_text()) == report.summary
    assert (tmp_path / "report" / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_report_is_drawn(case, tmp_path):
    report_of(case).write(tmp_path)
    assert (tmp_path / "report.png").stat().st_size > 10_000


def test_without_matplotlib_the_other_files_are_written(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report_of("one bar").write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"account.npy", "report.html", "report.json", "trades.csv"}


@pytest.mark.parametrize("case", CASES)
def test_tables(case, capsys):
    report_of(case, synthetic=True).print()
    out = capsys.readouterr().out
    assert out.startswith("Beats hold after costs: ")
    assert "The data are synthetic" in out and "own: fee 0.1 % of each trade" in out
    assert "annualised    with 8,766 bars of 1h a year" in out
    assert "nan" not in out and "None" not in out
    for symbol in {symbol for record in CASES[case] for symbol in record.symbols}:
        assert re.search(rf"^{symbol} ", out, re.MULTILINE)


def test_thinned_curves_keep_their_extremes():
    values = np.random.default_rng(1).standard_normal(10_000)
    kept = thinned(len(values), values, 200)
    assert len(kept) <= 202 and kept[0] == 0 and kept[-1] == 9_999
    assert values[kept].min() == values.min() and values[kept].max() == values.max()


def test_averaged_curves_keep_their_mean():
    times, values = np.arange(1000), np.random.default_rng(1).standard_normal(1000)
    ends, means = averaged(times, values, 10)
    assert len(ends) == 10 and ends[-1] == 999
    assert means.mean() == pytest.approx(values.mean())


def test_heat_maps_have_the_unit_of_the_data():
    months = heat_map(report_of("months").summary)
    assert (months.unit, months.rows, len(months.columns)) == ("month", ["2024"], 12)
    assert np.isfinite(months.cells[0, :4]).all() and np.isnan(months.cells[0, 5:]).all()
    days = heat_map(report_of("one symbol").summary)
    assert (days.unit, days.rows[0]) == ("day", "2024-01-01")
    assert heat_map(report_of("decades").summary).unit == "year"
