"""The command `study`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from optuna.trial import TrialState

from rookery.cli.main import main
from rookery.config import RunConfig, collect_config
from studies.example_studies import add_trial, make_folder, make_study, settings

KEYS = {"finished", "running", "failed", "pruned", "best_value", "best_params", "trials"}


@pytest.fixture(scope="module")
def studies_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with 3 finished trials, a failed and a running one; an empty study; and one that cannot be read."""
    base = tmp_path_factory.mktemp("studies")
    study = make_folder(base, "cartpole")
    config = RunConfig(world="CartPole-v1", learner="ppo", steps=1000, search={"n_trials": 9})
    study.set_user_attr("rookery:config", config.model_dump(mode="json"))
    for value in (1.0, 3.0, 2.0):
        parts = {f"seed-{k}": {"value": value + k, "run": f"runs/{k}", "seconds": 1.0, "steps": 9} for k in range(2)}
        add_trial(study, value, parts=parts, interval=[value - 1, value + 1])
    add_trial(study, None, TrialState.FAIL, reason="out of memory")
    study.ask()
    make_folder(base, "empty")
    (base / "broken").mkdir()
    (base / "broken" / "study.json").write_text("{")
    return base


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = main(["study", *map(str, words)])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


@pytest.mark.slow
def test_json(studies_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "cartpole", "--json", "--studies-dir", studies_dir)
    made = json.loads(out)
    assert status == 0
    assert made.keys() >= KEYS
    assert [made[key] for key in ("finished", "running", "failed", "pruned")] == [3, 1, 1, 0]
    assert (made["best_value"], made["best_params"]) == (3.0, settings(1))
    assert len(made["trials"]) == 5


@pytest.mark.slow
def test_text(studies_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, studies_dir / "cartpole")
    assert status == 0
    for text in ("4 of 9 trials", "failed 1 x: out of memory", "best trial: 1", "top trials  3 of 3", "2 to 4"):
        assert text in out


def test_without_a_name_all_studies_are_listed(studies_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "--studies-dir", studies_dir)
    lines = out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines] == ["study", "cartpole", "empty", "broken:"]
    assert "4 of 9" in lines[1]
    _, out, _ = run(capsys, "--json", "--studies-dir", studies_dir)
    assert [row["study"] for row in json.loads(out)["studies"]] == ["broken", "cartpole", "empty"]
    assert "there are no studies in" in run(capsys, "--studies-dir", studies_dir / "none")[1]


@pytest.mark.slow
def test_plots_are_files(studies_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    status, out, _ = run(capsys, "cartpole", "--plot", tmp_path, "--studies-dir", studies_dir)
    assert status == 0
    assert {"history.png", "slices.png", "parts.png", "parallel.png"} == {path.name for path in tmp_path.iterdir()}
    assert f"plot: {tmp_path / 'history.png'}" in out
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
    assert "nothing to plot" in run(capsys, "empty", "--plot", "--studies-dir", studies_dir)[2]


def test_the_best_configuration_can_be_trained(
    studies_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = tmp_path / "best.toml"
    words = ("cartpole", "--export-config", best, "--studies-dir", studies_dir)
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert f"rookery train {best}" in out
    assert collect_config(best)["ppo"]["gamma"] == settings(1)["ppo.gamma"]
    status, _, err = run(capsys, *words)
    assert status == 2
    assert "--force" in err
    assert run(capsys, *words, "--force", "--trial", 2)[0] == 0
    assert collect_config(best)["ppo"]["gamma"] == settings(2)["ppo.gamma"]


def test_studies_of_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "theirs.db"
    add_trial(make_study(path, "theirs", "minimize"), 4.0)
    status, out, _ = run(capsys, path, "--json")
    assert (status, json.loads(out)["best_value"], json.loads(out)["direction"]) == (0, 4.0, "minimize")
    assert "no folder of its own" in run(capsys, path, "--plot")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cartpol"], "did you mean cartpole?"),
        (["--watch"], "--watch needs a study"),
        (["cartpole", "--trial", "3"], "--trial is for --export-config"),
        (["cartpole", "--watch", "--json"], "omit --json"),
        (["cartpole", "--watch", "--every", "0"], "--every"),
        (["cartpole", "--top", "0"], "top"),
    ],
)
def test_mistakes_are_answered_in_a_sentence(
    studies_dir: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, *words, "--studies-dir", studies_dir)
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
