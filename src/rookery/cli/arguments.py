"""What several verbs share: arguments, checks of their values, the stored run that they name, and how they print."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.parser import takes
from rookery.console import meanwhile
from rookery.errors import OptionError, RunError
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.config import RunConfig
    from rookery.training.storage.run_dir import RunDir

WORLD_HELP = (
    "a Gymnasium id, such as CartPole-v1; a class or function in a file, such as my_env.py:MyEnv; or "
    + " or ".join(registry.names())
)


def shipped_help() -> str:
    """The agents that are installed with a world, for the help."""
    worlds = [spec.name for spec in registry.specs() if spec.agent is not None]
    return f"{' or '.join(worlds)} (the agent that comes with rookery)"


def config_value(text: str) -> Any:
    """The type of an argument that is a value of the configuration, which is loaded when there is one to read."""
    from rookery.config import parse_value

    return parse_value(text)


def run_arguments(parser: argparse.ArgumentParser, others: str = "") -> None:
    """Which run the verb is about."""
    takes(parser, "name RUN", f"the name of a run, its folder, or latest{others}")
    runs_dir_argument(parser)


def runs_dir_argument(parser: argparse.ArgumentParser) -> None:
    takes(parser, "--runs-dir DIR", "the folder that contains the runs", "runs")


def last_argument(parser: argparse.ArgumentParser, default: bool | None = True) -> None:
    """`best` is False with `--last`. `--best` is what these verbs do anyway, and was not in earlier versions."""
    text = "take the last agent instead of the best by evaluation"
    takes(parser, "--last", text, dest="best", action="store_false", default=default)
    takes(parser, "--best", argparse.SUPPRESS, default=default)


def trust_argument(parser: argparse.ArgumentParser) -> None:
    """For verbs that may execute code that a run names."""
    takes(
        parser, "--trust", "execute the Python files that the run names without asking, even if they were never used "
        "for training on this machine",
    )  # fmt: skip


def no_panel_argument(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """`panel` is False if it is given, else None."""
    takes(
        parser, "--no-panel", "print plain lines instead of the live panel",
        dest="panel", action="store_const", const=False,
    )  # fmt: skip


def quiet_argument(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    takes(parser, "--quiet", "print nothing at all", dest="monitor.verbose", action="store_const", const=False)


def set_argument(parser: argparse.ArgumentParser | argparse._ArgumentGroup, which: str) -> None:
    """`--set KEY=VALUE`: in every verb, KEY is a key of the configuration. `which` says which keys the verb accepts."""
    takes(
        parser, "--set KEY=VALUE",
        f"set a key of the configuration: {which}; can be repeated", action="append", default=[],
    )  # fmt: skip


def env_arguments(parser: argparse.ArgumentParser) -> None:
    """An env, and options of its world."""
    takes(parser, "env ENV", WORLD_HELP)
    set_argument(parser, "an option of the world, such as world_options.lookback=5")


def env_options(options: argparse.Namespace) -> dict[str, Any]:
    """The options of the world that `--set` gives."""
    changes = changes_from(options)
    others = [key for key in changes if key != "world_options"]
    if others:
        raise OptionError(
            f"--set {others[0]}: this command takes options of the world only, as world_options.NAME=VALUE"
        )
    return changes.get("world_options", {})


def named_env(options: argparse.Namespace) -> Any:
    """The world that was named with its options, as the engine takes it."""
    from rookery.engine.env_factory import resolve_given

    name, given = world_name(options.env), env_options(options)
    return resolve_given(name, kwargs=given) if given else name


def changes_from(options: argparse.Namespace, **flags: Any) -> dict[str, Any]:
    """The keys that `--set` and flags give, nested and checked. A flag overrides `--set`; None is not given.

    Args:
        flags: Values of flags by the key of the configuration that each one sets, such as `steps`.
    """
    from rookery.config import collect_changes

    return collect_changes(options.set, **flags)


def check_cluster_flags(options: argparse.Namespace, config: RunConfig) -> None:
    """Refuse flags of a cluster for a run that has none."""
    for flag in ("address", "nodes"):
        if config.cluster.kind == "local" and getattr(options, f"cluster.{flag}", None) is not None:
            raise OptionError(f"--{flag} is for a Ray cluster: give --on ray as well")


def check_seed(seed: int | None) -> None:
    """Refuse a seed that NumPy or torch would not accept."""
    from rookery.config.schema import SEEDS

    if seed is not None and not 0 <= seed < SEEDS:
        raise OptionError(f"seed should be an integer >= 0 and < {SEEDS}, got {seed}")


def check_positive(options: argparse.Namespace, *names: str) -> None:
    """Refuse flags that are given and are not integers >= 1."""
    from rookery.engine.settings import positive_int

    for name in names:
        if getattr(options, name) is not None:
            positive_int(name, getattr(options, name))


def world_name(name: str) -> str:
    """The world that was named, by the name that the engine knows."""
    if name.endswith(".py") and Path(name).is_file():
        raise OptionError(f"{name!r}: name the class in the file as well, such as {name}:MyEnv")
    known = registry.get(name)
    return name if known is None else known.source


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Says that torch is imported, which takes seconds. What is imported stays: looking for garbage in it, again and
    again, would take a tenth of them."""
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        with meanwhile("loading torch"):
            yield
        gc.freeze()
    finally:
        gc.enable()


def find_run(options: argparse.Namespace) -> RunDir:
    from rookery.training.storage.run_dir import RunDir

    return RunDir.find(options.name, Path(options.runs_dir))


def find_run_or_shipped(options: argparse.Namespace) -> RunDir | None:
    """The run; None if there is no run of this name, but an agent that comes with rookery."""
    try:
        return find_run(options)
    except RunError:
        if options.name not in registry.names() or options.name not in registry.agents():
            raise
        return None


def check_run_world(found: RunDir | None, options: argparse.Namespace, resuming: bool = False) -> dict[str, bool]:
    """Ask for permission to execute the code of a run's world, and find the world, before torch is loaded. Returns the
    keyword that prevents a second question."""
    if found is None:
        return {}
    from rookery.config import build_config
    from rookery.training.resolve import world_choice
    from rookery.training.storage import trust

    config = build_config(found.read_config())
    trusted = trust.check_run(found, config, options.trust, playing=not resuming)
    world_choice.find(config.world, config.takes_compiled, config.learner, config.world_options)
    return {"trust": True} if trusted else {}


def stdout_to_stderr(wanted: bool) -> contextlib.AbstractContextManager:
    """With --json, standard output holds the JSON object alone: what a run prints goes to standard error."""
    return contextlib.redirect_stdout(sys.stderr) if wanted else contextlib.nullcontext()


def show(
    options: argparse.Namespace, as_json: Callable[[], Any], print_text: Callable[[], object] | None = None
) -> int:
    """Print a result: with --json as that, else as text, if there is any. Returns the exit status of success."""
    if options.json:
        from rookery import printing

        printing.emit_json(as_json())
    elif print_text is not None:
        print_text()
    return 0


def finish_run(result: Any, options: argparse.Namespace) -> int:
    """The exit status of a run, after its result was printed as JSON if that was requested."""
    show(options, lambda: result.as_json())
    return result.exit_code


def print_path(path: Path | None, options: argparse.Namespace) -> int:
    """Print the file that was written, if one was. Returns the exit status."""
    return show(options, lambda: {"path": path and str(path)}, None if path is None else lambda: print(path))
