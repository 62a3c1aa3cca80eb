"""`rookery runs`, `compare` and `plot`, on folders of runs."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from rookery.cli import run_verbs
from rookery.cli.main import main
from training.storage.stored import stored_run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Three seeds of one configuration, and a run of another world."""
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        stored_run(tmp_path / "runs", f"cart-s{seed}", (10.0 + seed, 20.0 + seed), seed=seed)
    stored_run(tmp_path / "runs", "own", (1.0, 2.0), world="/home/me/my_env.py:MyEnv")
    return tmp_path / "runs"


@pytest.fixture
def quick_plots(monkeypatch):
    """Figures are made, but not rendered, which takes longer than all the rest."""

    def save(figure, out, dpi=200):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(f"a plot with {len(figure.axes[0].lines)} lines")

    monkeypatch.setattr("rookery.monitor.plots.save_figure", save)


def as_json(capsys, *words):
    status = main([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], {"cart-s0", "cart-s1", "cart-s2", "own"}), (["--world", "cartpole-v1"], {"cart-s0", "cart-s1", "cart-s2"}),
     (["--world", "my_env.py:MyEnv"], {"own"}), (["--world", "Pendulum-v1"], set()),
     (["own", "cart-s1"], {"own", "cart-s1"}),
     (["own", "runs/own", "cart-s1", "--world", "CartPole-v1"], {"cart-s1"})],
)  # fmt: skip
def test_runs_are_selected(runs, capsys, words, expected):
    status, found = as_json(capsys, "runs", *words)
    assert status == 0 and {row["name"] for row in found["runs"]} == expected


def test_runs_are_sorted(runs, capsys):
    """The largest first, names from A to Z; a key that there is not is answered with those that there are."""
    for key, expected in (("best-eval", ["cart-s2", "cart-s1", "cart-s0", "own"]), ("name", ["cart-s0", "cart-s1"])):
        _, found = as_json(capsys, "runs", "--sort", key)
        assert [row["name"] for row in found["runs"]][: len(expected)] == expected
    assert main(["runs", "--sort", "retrun"]) == 2
    assert "best_eval" in capsys.readouterr().err


def test_from_a_run_alone_is_answered_with_its_world(runs, capsys):
    assert main(["train", "--from", "cart-s0"]) == 2
    assert "rookery train CartPole-v1 --from cart-s0" in capsys.readouterr().err


def test_a_world_without_runs_is_said(runs, capsys):
    assert main(["runs", "--world", "Pendulum-v1"]) == 0
    assert "there are no runs of Pendulum-v1 in runs" in capsys.readouterr().out


def test_deleting_needs_a_selection_and_an_answer(runs, capsys):
    for words, message in (
        (["--delete", "--yes"], "--delete needs a selection"),
        (["own", "--delete"], "--yes deletes without a question"),
        (["own", "--yes"], "--delete, which is not given"),
        (["onw", "--delete", "--yes"], "did you mean own"),
    ):
        assert main(["runs", *words]) == 2
        assert message in capsys.readouterr().err
    assert len(list(runs.iterdir())) == 4


@pytest.mark.parametrize(("answer", "status", "left"), [(True, 0, 1), (False, 1, 4)])
def test_the_user_is_asked(runs, capsys, monkeypatch, answer, status, left):
    questions = []
    monkeypatch.setattr(run_verbs, "confirmed", lambda question: questions.append(question) or answer)
    assert main(["runs", "--world", "CartPole-v1", "--delete"]) == status
    assert "these 3 runs (" in questions[0] and len(list(runs.iterdir())) == left
    assert ("3 runs deleted, " in capsys.readouterr().out) == answer


def test_what_is_deleted_and_kept_is_said(runs, capsys):
    from rookery.training.storage.run_dir import RunDir

    with RunDir(runs / "own").lock():
        status, found = as_json(capsys, "runs", "own", "latest", "cart-s0", "--delete", "--yes")
    assert status == 1 and "in use" in found["kept"]["own"] and found["bytes"] > 0
    assert "cart-s0" in found["deleted"] and (runs / "own").is_dir() and not (runs / "cart-s0").exists()


def test_words_of_other_tools_are_answered(runs, capsys):
    assert main(["runs", "rm", "own"]) == 2 and (runs / "own").is_dir()
    assert "rookery runs own --delete" in capsys.readouterr().err
    assert main(["runs", "delete"]) == 2
    assert "rookery runs RUN --delete" in capsys.readouterr().err


def test_compare_joins_seeds_and_names_differences(runs, capsys, quick_plots):
    assert main(["compare", "cart-s0", "cart-s1", "cart-s2", "own"]) == 0
    out = capsys.readouterr().out
    assert "cart (3 seeds)" in out and "20 to 22" in out and "my_env.py:MyEnv" in out
    plot = "eval-return-over-steps-of-cart-3-seeds-own.png"
    assert f"plot: runs/plots/{plot}" in out and (runs / "plots" / plot).is_file()


def test_compare_each_run_as_json(runs, capsys, quick_plots):
    status, found = as_json(capsys, "compare", "cart-s0", "cart-s1", "--each", "--output", "two.svg")
    assert status == 0 and [row["last_eval"] for row in found["runs"]] == [20.0, 21.0]
    assert found["different"] == {"seed": {"cart-s0": 0, "cart-s1": 1}} and found["plot"] == "two.svg"


def test_compare_does_without_matplotlib(runs, capsys, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with caplog.at_level(logging.INFO, "rookery"):
        assert main(["compare", "cart-s0", "own"]) == 0
    assert "cart-s0" in capsys.readouterr().out and "rookery[plot]" in caplog.text
    assert main(["plot", "cart-s0", "own"]) == 2


def test_plot_writes_the_file_that_is_asked_for(runs, capsys, quick_plots):
    for words, path in (
        (["own"], "runs/own/plots/learning.png"),
        (["cart-s0", "own"], "runs/plots/eval-return-over-steps-of-cart-s0-own.png"),
        (["cart-s0", "own", "--x", "episodes", "--output", "deep/er.pdf"], "deep/er.pdf"),
        (["own", "--metric", "loss/value", "--output", "loss.svg"], "loss.svg"),
    ):
        assert main(["plot", *words]) == 0
        assert capsys.readouterr().out == f"{path}\n" and (runs.parent / path).read_text().startswith("a plot with")


@pytest.mark.parametrize(
    ("words", "message"),
    [(["nobody"], "there is no run 'nobody'"), (["own", "--output", "x.txt"], "should end in .png, .svg, .pdf"),
     (["own", "--metric", "no/such"], "none of these runs has the metric 'no/such'"),
     (["own", "--x", "days"], "invalid choice")],
)  # fmt: skip
def test_mistakes_are_one_line(runs, capsys, words, message):
    assert main(["plot", *words]) == 2
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1
