"""The command `search`: its flags, and what it refuses at once."""

from __future__ import annotations

import pytest

from rookery.cli.main import build_parser, main
from rookery.cli.search_verbs import _given


def given(*words):
    return _given(build_parser().parse_args(["search", "CartPole-v1", *words]))


def test_flags_are_keys_of_the_configuration():
    words = "--n-trials 500 --study-name x --n-envs 12 --gpu 0 --timeframe 5m --data-dir d --workers 3 --timeout 20h"
    assert given(*words.split(), "--storage", "postgresql://u@h/d", "--sampler", "gp", "--no-panel") == {
        "search.n_trials": 500, "search.study_name": "x", "num_envs": 12, "gpu": 0, "world_options.timeframe": "5m",
        "world_options.data_dir": "d", "search.jobs": 3, "search.timeout": "20h",
        "search.storage": "postgresql://u@h/d", "search.sampler": "gp", "monitor.panel": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v1", "--n-trials", "0"], "search.n_trials"),
        (["CartPole-v1", "--timeout", "soon"], "20h"),
        (["CartPole-v1", "--gpu", "0"], "cuda"),
        (["CartPole-v1", "--set", 'search.space={"ppo.clipp" = {uniform = [0.1, 0.3]}}'], "ppo.clip"),
        (["CartPole-v1", "--study-name", "../x"], "folder name of letters"),
        (["NoSuchWorld-v1"], "NoSuchWorld"),
        (["CartPole-v1", "--name", "x"], "--name"),
        (["CartPole-v1", "--address", "auto"], "--address is for a Ray cluster: give --on ray as well"),
        (
            ["CartPole-v1", "--set", "cluster.timeout=3"],
            "`cluster.timeout` is for runs on a cluster: give `cluster.kind`",
        ),
        (["CartPole-v1", "--on", "ray", "--nodes", "2"], "`search.jobs` (--jobs) is how many train at a time"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["search", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "studies").exists()
