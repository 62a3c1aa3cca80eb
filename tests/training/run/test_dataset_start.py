"""Runs that begin with a dataset: .npz files and folders of Minari."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import rookery
from rookery.config import RunConfig
from rookery.errors import DataError, MissingExtra, NotAllowed, OptionError
from rookery.gate import reaches
from rookery.learners import registry
from rookery.training.run.dataset_start import MAIN_FILE, fill_replay, read_minari, read_npz
from rookery.training.storage.checkpoint import Checkpoints

h5py = pytest.importorskip("h5py")
RNG = np.random.default_rng(0)
SMALL = {"hidden": [8], "batch_size": 8, "start_steps": 16, "buffer_size": 400, "updates_per_step": 0.5}
LENGTHS = (9, 6, 11)  # of the episodes; the second one terminates, the others were truncated


def episodes(width: int = 3, actions: int = 1) -> list[dict[str, np.ndarray]]:
    """As Minari has them."""
    found = []
    for k, length in enumerate(LENGTHS):
        ended = np.arange(length) == length - 1
        found.append({
            "observations": RNG.normal(size=(length + 1, width)), "actions": RNG.uniform(-2, 2, (length, actions)),
            "rewards": RNG.normal(size=length), "terminations": ended & (k == 1), "truncations": ended & (k != 1),
        })  # fmt: skip
    return found


def flat(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The same with a row for each step."""
    seen = {
        "observations": np.concatenate([part["observations"][:-1] for part in parts]),
        "next_observations": np.concatenate([part["observations"][1:] for part in parts]),
    }
    rest = {name: np.concatenate([part[name] for part in parts]) for name in parts[0] if name != "observations"}
    return seen | rest


def write_minari(folder: Path, parts: list[dict[str, np.ndarray]]) -> Path:
    """A dataset by hand, in Minari's layout."""
    (folder / MAIN_FILE).parent.mkdir(parents=True)
    with h5py.File(folder / MAIN_FILE, "w") as file:
        for k, part in enumerate(parts):
            group = file.create_group(f"episode_{k}")
            group.attrs["id"], group.attrs["total_steps"] = k, len(part["rewards"])
            for name, values in part.items():
                group[name] = values
    (folder / "data" / "metadata.json").write_text(json.dumps({"data_format": "hdf5", "total_episodes": len(parts)}))
    return folder


def train(folder: Path, dataset: str | Path, steps: int = 48, name: str = "run", **options: Any) -> Any:
    return rookery.train(
        "Pendulum-v1", learner="sac", num_envs=2, steps=steps, seed=1, backend="serial", runs_dir=folder, name=name,
        sac={**SMALL, "dataset": str(dataset), **options}, evaluation={"every": 10_000, "episodes": 1},
        monitor={"verbose": False, "tensorboard": False, "plot": False},
    )  # fmt: skip


def replay_of(folder: Path, name: str = "run") -> dict[str, np.ndarray]:
    return Checkpoints(folder / name / "checkpoints", 3).load_latest()[1]["learner"]["replay"]["arrays"]


def test_both_formats_fill_the_replay_buffer_before_the_first_step(tmp_path: Path) -> None:
    """With the same transitions; those of the run follow them."""
    parts = episodes()
    np.savez(tmp_path / "steps.npz", **flat(parts))
    write_minari(tmp_path / "recorded", parts)
    train(tmp_path, tmp_path / "steps.npz", name="npz")
    train(tmp_path, tmp_path / "recorded", name="minari")
    one, two = replay_of(tmp_path, "npz"), replay_of(tmp_path, "minari")
    count = sum(LENGTHS)
    assert len(one["actions"]) == count + 48
    for name, values in one.items():
        np.testing.assert_array_equal(values, two[name])
    np.testing.assert_array_equal(one["leaf0"][:count], flat(parts)["observations"].astype(np.float32))
    np.testing.assert_array_equal(one["next0"][LENGTHS[0] - 1], parts[0]["observations"][-1].astype(np.float32))
    ends = np.flatnonzero(one["outcomes"][:count, 1] == 0)
    assert ends.tolist() == [LENGTHS[0] + LENGTHS[1] - 1]


def test_a_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    """The dataset is in its checkpoint, and is not read again."""
    write_minari(tmp_path / "data", episodes())
    train(tmp_path, tmp_path / "data", name="whole", n_step=3)
    train(tmp_path, tmp_path / "data", name="parts", n_step=3, steps=24)
    (tmp_path / "data" / MAIN_FILE).unlink()
    rookery.resume("parts", tmp_path, steps=48)
    for name, values in replay_of(tmp_path, "whole").items():
        np.testing.assert_array_equal(values, replay_of(tmp_path, "parts")[name])


@pytest.mark.filterwarnings("ignore::UserWarning")  # about an author and links, which the dataset does not have
def test_a_dataset_that_minari_itself_has_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name in Minari's folder, with nested observations."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    numbers = spaces.Box(-9, 9, (2,), np.float64)
    seen = [{"a": RNG.normal(size=2), "b": (k, RNG.normal(size=2))} for k in range(4)]
    buffer = minari.data_collector.EpisodeBuffer(
        id=0, observations={"a": [x["a"] for x in seen], "b": tuple([x["b"][k] for x in seen] for k in (0, 1))},
        actions=[RNG.uniform(-1, 1, 1) for _ in range(3)], rewards=[0.0, 1.0, 2.0], terminations=[False] * 3,
        truncations=[False, False, True],
    )  # fmt: skip
    minari.create_dataset_from_buffers(
        "toy/nested-v0", [buffer], algorithm_name="none", action_space=spaces.Box(-1, 1, (1,), np.float64),
        observation_space=spaces.Dict(a=numbers, b=spaces.Tuple((spaces.Discrete(9), numbers))),
    )  # fmt: skip
    (steps,) = read_minari(tmp_path / "toy" / "nested-v0")
    np.testing.assert_array_equal(steps.observations["a"], [x["a"] for x in seen[:3]])
    np.testing.assert_array_equal(steps.next_observations["b"][0], [1, 2, 3])
    assert steps.ended.tolist() == [False, False, True] and steps.rewards.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="got the parts a, b"):
        train(tmp_path, "toy/nested-v0")


def test_rows_that_do_not_follow_are_cut_apart(tmp_path: Path) -> None:
    """As are the last ones: their last observation is known."""
    arrays = flat(episodes()) | {"truncations": np.zeros(sum(LENGTHS), np.bool_)}
    np.savez(tmp_path / "steps.npz", **arrays)
    steps = read_npz(tmp_path / "steps.npz")
    assert np.flatnonzero(steps.ended).tolist() == list(np.cumsum(LENGTHS) - 1)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_other_spaces_are_named_with_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "steps.npz", **flat(episodes(width=5, actions=2)))
    with pytest.raises(DataError) as error:
        train(tmp_path, tmp_path / "steps.npz")
    for text in ("`sac.dataset`", "steps.npz", "(26, 3)", "(26, 5)", "actions", "(26, 2)"):
        assert text in str(error.value)
    assert not (tmp_path / "run").exists()


def test_more_steps_than_fit_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "steps.npz", **flat(episodes()))
    with pytest.raises(OptionError, match="`buffer_size`"):
        train(tmp_path, tmp_path / "steps.npz", buffer_size=20)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"next_observations": None}, "has no next_observations"),
        ({"rewards": np.zeros((26, 1))}, "rewards should be one number"),
        ({"actions": np.array([object()] * 26)}, "plain arrays"),
    ],
)
def test_other_npz_files_are_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    """No pickle is loaded."""
    arrays = {name: values for name, values in (flat(episodes()) | changes).items() if values is not None}
    np.savez(tmp_path / "steps.npz", **arrays)
    with pytest.raises(DataError, match=text):
        read_npz(tmp_path / "steps.npz")


def test_what_is_no_dataset_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With both places where it could be, and without following links into other files."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "home"))
    with pytest.raises(DataError, match="home"):
        train(tmp_path, "no/such-v0")
    (tmp_path / "text.npz").write_text("text")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("text.npz", "one.npy"):
        with pytest.raises(DataError, match="plain arrays"):
            read_npz(tmp_path / name)
    with pytest.raises(DataError, match="no steps"):
        train(tmp_path, write_minari(tmp_path / "empty", []))
    folder = write_minari(tmp_path / "linked", episodes())
    with h5py.File(folder / MAIN_FILE, "a") as file:
        del file["episode_0/rewards"]
        file["episode_0/rewards"] = h5py.ExternalLink("other.hdf5", "/rewards")
    with pytest.raises(DataError, match="rewards is a link"):
        list(read_minari(folder))
    (folder / MAIN_FILE).unlink()
    (folder / "data" / "metadata.json").write_text('{"data_format": "arrow"}')
    with pytest.raises(DataError, match="'arrow'"):
        list(read_minari(folder))


def test_without_h5py_an_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_minari(tmp_path / "data", episodes())
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtra, match=r"rookery\[minari\]"):
        list(read_minari(folder))


def test_the_gate_knows_its_path() -> None:
    """It is among what a configuration reaches, and is not opened unless the user has named it."""
    config = RunConfig(world="Pendulum-v1", learner="sac", sac={"dataset": "/elsewhere/steps.npz"})
    assert ("files", "sac.dataset") in [(reach.kind, reach.key) for reach in reaches(config)]
    learner = registry.make_learner("sac", *[spaces.Box(-1, 1, (1,))] * 2, config.sac, 1)
    with pytest.raises(NotAllowed, match=r"sac\.dataset"):
        fill_replay(learner, "/elsewhere/steps.npz", "sac.dataset")
