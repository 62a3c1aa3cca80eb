"""What is said when an env cannot be built or begun: the option that it does not take, or the argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Protocol

import gymnasium as gym

from rookery.config import RunConfig
from rookery.console import printable
from rookery.engine.env_factory import EnvFactory, EnvFromCallable, EnvFromFile, RegisteredEnv, world_in
from rookery.errors import MissingExtra, OptionError, RookeryError, WorldError
from rookery.extras import missing_package
from rookery.worlds import registry

UNEXPECTED = re.compile(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'")
MISSING = re.compile(r"\(\) missing \d+ required")


class BuildableWorld(Protocol):
    """What is needed of `world_choice.World`, which needs this module."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> Any: ...

    @property
    def env_kwargs(self) -> dict[str, Any]: ...

    @property
    def factory(self) -> EnvFactory: ...


@contextmanager
def explain_option_errors(world: BuildableWorld) -> Iterator[None]:
    """Around code that builds envs: the error of a world that does not take its options says which it takes, and how
    options are given."""
    try:
        yield
    except RookeryError:
        raise
    except Exception as error:
        missing = missing_package(error)
        if missing and _is_library_error(world, error):
            raise MissingExtra(f"{world.name} cannot be built: {missing}") from None
        what = str(error).partition(" was raised from the environment creator")[0]
        if isinstance(error, TypeError) and (found := UNEXPECTED.search(what)):
            _explain_keyword(world, found[1], found[2], error)
        if not (isinstance(error, TypeError) and MISSING.search(what)) and not _is_library_error(world, error):
            raise
        raise OptionError(
            f"{world.name} cannot be built: {type(error).__name__}: {printable(what)}; its options are given as "
            "world_options, as in --set world_options.size=5"
        ) from error


def _explain_keyword(world: BuildableWorld, function: str, keyword: str, error: TypeError) -> None:
    """Raise what is known of a keyword that a function of the world does not take. One that the user did not give is
    a mistake of the world's own code, which its traceback shows."""
    if function.rpartition(".")[2] == "reset" and keyword in ("seed", "options"):
        raise WorldError(
            f"{world.name}: its reset() takes no `{keyword}`, as envs of the old Gym: a Gymnasium env has `def "
            "reset(self, *, seed=None, options=None)`, which returns (observation, info), and a step() that returns "
            "(observation, reward, terminated, truncated, info)"
        ) from error
    if keyword in world.env_kwargs:
        taken = _taken(world)
        if taken is not None and keyword in taken:
            return  # what it calls with it does not take it: a mistake of its own code too
        names = "" if taken is None else f" (it has {', '.join(taken) or 'none'})"
        near = get_close_matches(keyword, taken or [], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else _worlds_with(keyword)
        raise OptionError(f"{world.name} has no option {keyword!r}{names}{hint}") from error


def _taken(world: BuildableWorld) -> list[str] | None:
    """The options that a world takes by name, where its envs' class or function says so."""
    try:
        kinds = inspect.signature(_creator(world.factory.makers[0])).parameters.values()
    except (TypeError, ValueError):
        return None
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return [each.name for each in kinds if each.kind in by_name and each.name != "render_mode"]


def _creator(maker: Any) -> Any:
    """What is called with the options: it was called before, or the world would not be known to refuse one."""
    if isinstance(maker, EnvFromFile):
        return world_in(maker.path, maker.attribute)
    if isinstance(maker, EnvFromCallable):
        return maker.function
    entry = maker.spec.entry_point if isinstance(maker, RegisteredEnv) else None
    return gym.envs.registration.load_env_creator(entry) if isinstance(entry, str) else entry


def _worlds_with(option: str) -> str:
    """For which worlds the flag of this name is."""
    worlds = [spec.name for spec in registry.specs() if any(each.name == option for each in spec.options)]
    return f"; --{option.replace('_', '-')} is for {', '.join(worlds)}" if worlds else ""


def _is_library_error(world: BuildableWorld, error: Exception) -> bool:
    """Whether a library's world fails, because of its options or a missing package: the message alone explains it."""
    named = isinstance(world.source, str) and ".py:" not in world.source
    return named and (bool(world.env_kwargs) or isinstance(error, (ImportError, gym.error.DependencyNotInstalled)))


def failure_options(config: RunConfig) -> dict[str, Any]:
    """Options of `make_vec`. On a GPU no env is restarted: an error ends the run."""
    names = ("step_timeout", "on_failure", "max_restarts", "bad_values")
    options = {name: getattr(config, name) for name in names}
    return {**options, "on_failure": "raise"} if config.backend == "cuda" else options
