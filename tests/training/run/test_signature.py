"""The keywords of `train` and `resume`, as editors, type checkers and `help()` see them."""

from __future__ import annotations

import inspect
import typing
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import rookery
from rookery.config import RunConfig, train_options
from rookery.config.layers import OLD_NAMES
from rookery.config.train_options import OlderNames, ResumeOptions, TrainOptions
from rookery.errors import UsageError, WorldError


def test_every_key_is_a_typed_keyword() -> None:
    """Those of the configuration and the older names; `world` is the first argument, `tables` a run's own record."""
    assert set(typing.get_type_hints(OlderNames)) == set(OLD_NAMES)
    keys = set(typing.get_type_hints(TrainOptions)) - set(OLD_NAMES)
    plugins = {name for name in RunConfig.model_fields if name not in keys} - {"world", "tables"}
    assert keys - set(RunConfig.model_fields) == set() and not plugins
    assert set(typing.get_type_hints(ResumeOptions)) <= set(typing.get_type_hints(TrainOptions))


@pytest.mark.parametrize("function", [rookery.train, rookery.resume])
def test_help_lists_the_keywords(function: typing.Any) -> None:
    """No bare **options, and each keyword with its type."""
    parameters = inspect.signature(function).parameters
    assert all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values())
    assert {"callbacks", "ppo", "evaluation"} <= set(parameters)
    assert parameters["max_restarts"].annotation.startswith("int")
    assert "n_envs" not in parameters  # accepted too, but not advertised


def test_help_begins_with_what_people_give() -> None:
    names = list(inspect.signature(rookery.train).parameters)
    assert names[:6] == ["world", "steps", "seed", "num_envs", "learner", "device"]


@pytest.mark.parametrize("function", [rookery.train, rookery.resume])
def test_defaults_are_of_the_declared_types(function: typing.Any) -> None:
    """And those of `train` are those of the configuration."""
    known = {**vars(train_options), **vars(inspect.getmodule(function))}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        kind = eval(parameter.annotation, known)
        assert TypeAdapter(kind).validate_python(parameter.default) == parameter.default, name
        field = RunConfig.model_fields.get(name)
        if function is rookery.train and field is not None and parameter.default is not None:
            assert parameter.default == field.default, name


@pytest.mark.parametrize("give", [rookery.train, rookery.search])
def test_the_world_may_be_a_keyword(give: typing.Any, tmp_path: Path) -> None:
    """Alone, or instead of the one in a configuration."""
    (tmp_path / "run.toml").write_text('world = "CartPole-v1"')
    for args in ((), (tmp_path / "run.toml",)):
        with pytest.raises(WorldError, match="NoSuchWorld"):
            give(*args, world="NoSuchWorld-v1", runs_dir=tmp_path)
    with pytest.raises(UsageError, match="takes a world"):
        give()


@pytest.mark.parametrize("name", rookery.__all__)
def test_what_is_public_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(rookery, name))


def test_choices_are_those_of_the_schema() -> None:
    """A keyword that is one of several words offers the words that a configuration accepts."""
    hints = typing.get_type_hints(TrainOptions)
    for name, field in RunConfig.model_fields.items():
        wanted, typed = _words(field.annotation), _words(hints.get(name))
        if wanted and typed:
            assert typed == wanted, name
    assert _words(hints["backend"]) >= {"cuda", "tensor"}


def _words(kind: typing.Any) -> set[str]:
    """The texts among the values of a Literal, also within a union."""
    if typing.get_origin(kind) is typing.Literal:
        return {value for value in typing.get_args(kind) if isinstance(value, str)}
    return {word for part in typing.get_args(kind) for word in _words(part)}
