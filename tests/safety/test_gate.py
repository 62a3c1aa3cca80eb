"""The gate: each field that reaches outside says so, and nothing is reached that the user has not agreed to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, create_model

import rookery
from rookery import gate
from rookery.cli.main import main
from rookery.config import RunConfig, build_config
from rookery.errors import NotAllowed
from rookery.gate import Inside, Reach, Reaches, reaches
from rookery.studies.storage.study_folder import StudyFolder, StudyPlace, StudyRecord
from rookery.studies.study_config import trial_config
from rookery.training.evaluation.evaluate import evaluate
from rookery.training.storage import trust
from rookery.training.storage.run_dir import RunDir
from rookery.user_code import load_file
from rookery.worlds.gameboy.guide_settings import GuideSettings
from rookery.worlds.gameboy.profile_schema import Profile

MODELS = (RunConfig, StudyRecord, GuideSettings, Profile)


def unmarked(model: type[BaseModel], key: str = "") -> Iterator[str]:
    """The fields that can hold any text, and say neither what it reaches nor why it reaches nothing."""
    for name, field in model.model_fields.items():
        marked = any(isinstance(item, (Reaches, Inside)) for item in field.metadata)
        kinds = list(free_kinds(field.annotation))
        if not marked and any(kind in (str, bytes, Any, object, Path) for kind in kinds):
            yield f"{key}{name}"
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from unmarked(kind, f"{key}{name}.")


def free_kinds(annotation: Any) -> Iterator[Any]:
    """The types in an annotation, without those that a mark of their own explains."""
    if get_origin(annotation) is Annotated and any(isinstance(item, Inside) for item in get_args(annotation)[1:]):
        return
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from free_kinds(part)


@pytest.mark.parametrize("model", MODELS)
def test_each_field_that_holds_text_is_marked(model: type[BaseModel]) -> None:
    """Reaches(...) if a value can name code, a path, a host or a command; Inside("why") if it cannot."""
    assert list(unmarked(model)) == []


@pytest.mark.parametrize("kind", [str, str | None, list[str], dict[str, Any], Path, Any, list[dict[str, int | str]]])
def test_a_new_field_without_a_mark_is_found(kind: Any) -> None:
    """Wherever it is added."""
    nested: Any = create_model("Nested", more=(kind, ...))
    wider: Any = create_model("Wider", __base__=RunConfig, parts=(list[nested], []))
    assert list(unmarked(wider)) == ["parts.more"]
    marked: Any = create_model("Marked", more=(Annotated[kind, Reaches("code")], ...))
    assert list(unmarked(marked)) == []


CODE = "w.py:f"
# What a stranger's config can name, and what kind of reach that is.
NAMED: dict[str, tuple[dict[str, Any], str]] = {
    "world": ({"world": "w.py:World"}, "code"),
    "world option": ({"world_options": {"deep": [{"er": CODE}]}}, "code"),
    "world option, path": ({"world_options": {"data": "/etc"}}, "files"),
    "world option, url": ({"world_options": {"guide_url": "http://example.test/v1"}}, "network"),
    "world option, service": ({"world_options": {"guide": "openai"}}, "network"),
    "wrappers": ({"wrappers": [CODE]}, "code"),
    "callbacks": ({"callbacks": [CODE]}, "code"),
    "network": ({"ppo": {"network": CODE}}, "code"),
    "schedule": ({"ppo": {"learning_rate_schedule": CODE}}, "code"),
    "clip schedule": ({"ppo": {"clip_schedule": CODE}}, "code"),
    "phase learner": ({"phases": [{"learner": {"learning_rate_schedule": CODE}}]}, "code"),
    "phase options": ({"phases": [{"options": {"guide": CODE}}]}, "code"),
    "phase service": ({"phases": [{"options": {"guide": "openai"}}]}, "network"),
    "mixture": ({"phases": [{"mixture": [{"options": {"guide": CODE}}]}]}, "code"),
    "phase opponents": ({"phases": [{"opponents": [{"who": CODE}]}]}, "code"),
    "opponents": ({"opponents": [{"who": CODE}]}, "code"),
    "opponents, url": ({"opponents": [{"who": "s3://bucket/run"}]}, "network"),
    "opponents, registry": ({"opponents": [{"who": "registry:agents@champion"}]}, "files"),
    "evaluation opponents": ({"evaluation": {"opponents": ["/tmp/agent"]}}, "files"),
    "baselines": ({"league": {"baselines": [CODE]}}, "code"),
    "checkpoints": ({"checkpoints": {"dir": "elsewhere"}}, "files"),
    "mirror": ({"checkpoints": {"mirror": "file:///elsewhere"}}, "network"),
    "init_from": ({"init_from": "s3://bucket/run"}, "network"),
    "cluster": ({"cluster": {"kind": "ray", "address": "10.0.0.1:6379"}}, "network"),
    "wandb": ({"monitor": {"wandb": True}}, "network"),
    "mlflow": ({"monitor": {"mlflow": True}}, "network"),
}


@pytest.mark.parametrize("field", NAMED)
def test_what_a_config_names_is_found(field: str) -> None:
    """In sections, phases, lists and tables."""
    given, kind = NAMED[field]
    found = trust.reached_by(build_config({"world": "CartPole-v1", "learner": "ppo", **given}))
    assert [reach.kind for reach in found] == [kind]


@pytest.mark.parametrize("field", NAMED)
def test_a_strangers_run_reaches_nothing(field: str, run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resuming it is rejected with the field's key and the way out, before anything is imported or opened."""
    given, _ = NAMED[field]
    monkeypatch.chdir(run.path.parent)
    (run.path.parent / "w.py").write_text("raise SystemExit('executed')")
    recorded = {key: value for key, value in run.read_config().items() if key not in given}
    run.write_config({**recorded, **given, "checkpoints": {**given.get("checkpoints", {})}})
    with pytest.raises(NotAllowed, match=r"(?s)`\w+.*--trust"):
        rookery.resume(run.path, steps=10**6)
    assert main(["resume", str(run.path), "--steps", "1000000"]) == 2


def test_nothing_is_asked_about_a_plain_run(run: RunDir) -> None:
    """Names of scripts and runs, schedules that are arithmetic, and what other learners have."""
    plain = {
        "world": "rookery/CartPole-v1", "learner": "ppo", "opponents": ["weak", "self"], "init_from": "latest",
        "ppo": {"learning_rate_schedule": "1 / (1 + progress)"}, "sac": {"network": CODE},
        "phases": [{"learner": {"learning_rate_schedule": "1 - progress / 2"}, "shaping": {"a/b": 1.0}}],
        "search": {"storage": "postgresql://host/name"},
    }  # fmt: skip
    assert trust.reached_by(build_config(plain)) == []


def test_playing_asks_only_about_what_it_reaches(run: RunDir) -> None:
    """An evaluation neither copies checkpoints nor runs callbacks."""
    config = build_config({"world": "w.py:World", "callbacks": [CODE], "checkpoints": {"mirror": "s3://bucket/runs"}})
    assert [reach.key for reach in trust.reached_by(config, playing=True)] == ["world"]


def test_places_are_known_by_the_run_that_was_started_with_them(run: RunDir) -> None:
    """Another run, or this run with another place, is asked about."""
    config = build_config({"world": "CartPole-v1", "checkpoints": {"mirror": "s3://bucket/runs"}})
    other = build_config({"world": "CartPole-v1", "checkpoints": {"mirror": "s3://bucket/other"}})
    trust.remember(run, config)
    assert trust.check_run(run, config, trust=False) is False
    with pytest.raises(NotAllowed):
        trust.check_run(run, other, trust=False)
    run.remember(id="f" * 32)
    with pytest.raises(NotAllowed):
        trust.check_run(run, config, trust=False)


SINKS: dict[str, Callable[[Path], Any]] = {
    "import": lambda folder: load_file(str(folder / "strange.py")),
    "world": lambda folder: rookery.engine.env_factory.resolve(f"{folder / 'strange.py'}:Env"),
    "mirror": lambda folder: rookery.training.storage.remote_run.open_place(f"file://{folder}/copies", "mirror"),
    "run": lambda folder: RunDir.find(f"file://{folder}/runs/one", folder),
    "cluster": lambda folder: rookery.cluster.ray_start.open_ray("127.0.0.1:1").__enter__(),
}


@pytest.mark.parametrize("sink", SINKS)
def test_what_imports_and_connects_demands_permission(sink: str, tmp_path: Path, canary: Path) -> None:
    """A caller that has not passed the gate fails, whatever it is."""
    import rookery.cluster.ray_start
    import rookery.engine.env_factory
    import rookery.training.storage.remote_run  # noqa: F401

    pytest.importorskip("ray" if sink == "cluster" else "fsspec")
    (tmp_path / "strange.py").write_text(f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n")
    with pytest.raises(NotAllowed, match="you have not agreed"):
        SINKS[sink](tmp_path)
    assert not canary.exists()


def test_what_the_user_names_is_allowed(tmp_path: Path) -> None:
    """On the command line, as an argument, or in a configuration."""
    file = tmp_path / "mine_to_run.py"
    file.write_text("x = 1")
    with pytest.raises(NotAllowed):
        load_file(str(file))
    gate.allow_given({"somewhere": [f"{file}:x"]})
    assert load_file(str(file)).x == 1


def test_an_evaluation_in_a_linked_folder_is_asked_about(run: RunDir, tmp_path: Path) -> None:
    """A path in the run's folder that leads out of it is outside."""
    (run.path / "data").symlink_to(tmp_path)
    run.write_config({**run.read_config(), "world_options": {"data": str(run.path / "data")}})
    with pytest.raises(NotAllowed, match=r"`world_options.data`"):
        evaluate(run.path, episodes=1)


# --- studies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "storage",
    ["sqlite+pysqlite:///{}/new.db", "postgresql://127.0.0.1:1/x", "{}/new.db", "../new.db", "sqlite:///{}/new.db"],
)
def test_a_strangers_study_connects_to_nothing(storage: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """study.json names a database elsewhere: reading and continuing are rejected, with the way out."""
    folder = tmp_path / "studies" / "strange"
    folder.mkdir(parents=True)
    record = {"name": "strange", "storage": storage.format(tmp_path), "format": 1, "id": "f" * 32}
    (folder / "study.json").write_text(json.dumps(record))
    with pytest.raises(NotAllowed, match="--storage"):
        StudyPlace.find("strange", tmp_path / "studies")
    with pytest.raises(NotAllowed, match="--storage"):
        StudyFolder(folder).place()
    assert main(["study", str(folder)]) == 2
    assert "--storage" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["studies"]


def test_a_linked_database_is_outside(tmp_path: Path) -> None:
    """Else a search would write to a file of the user's."""
    folder = tmp_path / "strange"
    folder.mkdir()
    (tmp_path / "mine.db").write_text("mine")
    (folder / "study.db").symlink_to(tmp_path / "mine.db")
    (folder / "study.json").write_text(json.dumps({"name": "strange", "storage": "study.db", "format": 1, "id": "0"}))
    with pytest.raises(NotAllowed):
        StudyPlace.find(folder)


def test_settings_of_a_trial_reach_no_more_than_the_study(tmp_path: Path) -> None:
    """A database may hold settings that no search has proposed."""
    base = build_config({"world": "CartPole-v1", "learner": "ppo"})
    with pytest.raises(NotAllowed, match=r"callbacks\[0\]"):
        trial_config(base, {"callbacks": [f"{tmp_path}/w.py:f"]}, 0, tmp_path)


def test_a_reach_reads_well() -> None:
    """It is part of a question."""
    text = str(Reach("code", "phases[0].learner.network", "w.py:Net"))
    assert text == "it would run code: w.py:Net (`phases[0].learner.network`)"
    assert [reach.key for reach in reaches(StudyRecord(storage="a.db"))] == ["storage"]
