"""`rookery export`: a trained agent as a file for other programs, in the format that the file's name says."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from rookery.config import RunConfig
from rookery.console import say
from rookery.data.calendars import timeframe_name
from rookery.data.features import memory
from rookery.engine.env_factory import kernel_of
from rookery.errors import OptionError
from rookery.standalone.market_account import WORLDS
from rookery.standalone.writer import harmless
from rookery.training.evaluation.trained_run import AgentOrRun, open_run
from rookery.training.export.agent_card import checked_path, export_card, written
from rookery.training.export.onnx_file import agent_facts, checked_text, export_onnx, export_standalone
from rookery.training.resolve.world_choice import find
from rookery.training.storage.run_dir import RunDir

# `rookery export --freqtrade` and `--nautilus`: an agent of a market world as a strategy of another program.
# The file contains the agent as NumPy alone and a class of that program. Features, and the account that the agent
# observes, are computed by rookery's own market world, which must be installed there; torch need not be.

Program = Literal["freqtrade", "nautilus"]
PROGRAMS: dict[Program, str] = {"freqtrade": "freqtrade", "nautilus": "nautilus_trader"}
OF_BARS = ("data", "data_dir", "split", "evaluation_split", "window", "symbols", "columns", "timeframe",
           "observation_feature_cols", "episode_length", "time_limit")  # fmt: skip
END = '\n\nif __name__ == "__main__":'
CLASS = "RookeryStrategy"
TOP = '''"""A trained agent as a strategy of {program}. It needs {program}, NumPy, and rookery with its extra `data`.

{facts}

Assumed: the bars have the timeframe {timeframe}, and a gap in them ends what the agent holds. The agent decides when a
bar is complete. It observes an account of its own, which trades by the rules and costs of its training and begins with
the first bars that it is given; {program} trades what that account wants, by its own fills and fees.

Written by `rookery export --{flag}`. The weights are read as numbers and never as code.
"""
'''


def export_strategy(
    run: AgentOrRun, program: Program, runs_dir: str | Path = "runs", out: str | Path | None = None, best: bool = True,
    overwrite: bool = False,
) -> Path:  # fmt: skip
    """Write the agent of a run as a strategy of "freqtrade" or "nautilus" to the Python file `out`
    (`freqtrade_strategy.py` in the run's folder). Its actions are compared with the agent's before."""
    trained = open_run(run, runs_dir, best, trust=False)
    usual = trained.run.outputs / f"{program}_strategy.py"
    path = checked_path(out or usual, "a strategy is a Python file", ".py", overwrite)
    saved, about = agent_facts(trained)
    text = strategy_text(program, checked_text(saved, about, False, path.stem), about, trained.config)
    return written(path, text.encode())


def strategy_text(program: Program, agent: str, about: Mapping[str, Any], config: RunConfig) -> str:
    """The file's text. `agent` is that of a standalone agent, and `about` says what a reader may want to know of it."""
    name, options, world = market_options(config)
    market = world.market
    _, body = agent.split('"""\n', 1)
    facts = "\n".join(f"    {key:<8} {harmless(value)}" for key, value in about.items())
    timeframe = timeframe_name(market.timeframe)
    top = TOP.format(program=PROGRAMS[program], facts=facts, timeframe=timeframe, flag=program)
    constants = {
        "WORLD": name,
        "OPTIONS": options,
        "CALENDAR": market.calendar,
        "TOGETHER": name == "crypto",  # whether all symbols are one portfolio
    }
    made = files("rookery.standalone").joinpath("strategies", f"{program}.txt").read_text(encoding="utf-8").format(
        name=CLASS,
        timeframe=timeframe,
        shorts=name == "forex",
        pairs={symbol: symbol for symbol in market.symbols},
        startup=memory(market.columns) + world.lookback + 2,
    )  # fmt: skip
    lines = "\n".join(f"{key} = {value!r}" for key, value in constants.items())
    return f"{top}{body.split(END)[0]}\n\n{lines}\n\n{made}"


def market_options(config: RunConfig) -> tuple[str, dict[str, Any], Any]:
    """The market world of a run: its name, its options for other bars, and the world itself."""
    if config.wrappers:
        raise OptionError(f"a strategy needs the world itself, and the run has wrappers: {', '.join(config.wrappers)}")
    found = find(config.world, config.takes_compiled, config.learner, {**config.world_options, "split": "all"})
    kernel = kernel_of(found.factory, build=True) if found.kernel else None
    world: Any = None if kernel is None else kernel.world
    name = config.world.lower().removeprefix("rookery/").removesuffix("-v0")
    if name not in WORLDS or not hasattr(world, "market"):
        raise OptionError(f"{config.world}: a strategy can be written of agents of crypto and forex")
    given = {key: value for key, value in config.world_options.items() if key not in OF_BARS}
    if given.get("scaling") == "power" or given.get("layout", "rookery") != "rookery":
        raise OptionError("a strategy needs scaling=relative and layout=rookery: others depend on the training bars")
    if given.get("broker") is not None:
        given["broker"] = world.broker.as_table()  # a file may not be there
    if name == "forex":
        given["action_type"] = "continuous" if hasattr(world.action_space, "high") else "discrete"
    own = {"symbols": list(world.market.symbols), "columns": list(world.market.columns)}
    return name, {**given, **own, "lookback": int(world.lookback)}, world


Format = Literal["onnx", "standalone", "sb3", "card", "freqtrade", "nautilus"]
SUFFIXES: dict[str, Format] = {".onnx": "onnx", ".py": "standalone", ".zip": "sb3", ".md": "card"}


def export(
    agent: AgentOrRun = "latest",
    out: str | Path | None = None,
    *,
    format: Format | None = None,
    runs_dir: str | Path = "runs",
    best: bool = True,
    overwrite: bool = False,
    trust: bool = False,
) -> Path:
    """Write an agent to a file that other programs can use; returns its path. The file includes the normalisation of
    observations and the action masks, and its actions are compared with those of the agent.

    Args:
        agent: An agent, the result of `rookery.train`, a run by its name, its path or as "latest"; with "standalone",
            also the name of an agent that comes with rookery.
        out: The file; if omitted, it is in the run's folder.
        format: "onnx" (`.onnx`), "standalone" (`.py`: a class Agent that needs only NumPy), "sb3" (`.zip`: a model that
            Stable-Baselines3 loads), "card" (`.md`: an agent card, as Hugging Face shows it), "freqtrade" or "nautilus"
            (`.py`: a strategy, of an agent of a market world); if omitted, by the end of the file's name, or "onnx".
        runs_dir: The folder of the runs.
        best: Of a run, take the best agent by evaluation; False takes the last.
        overwrite: Replace an existing file; if False, it is only replaced after a question on the terminal.
        trust: Import the code of a network of somebody's own without a question.
    """
    format = format or _format_of(out)
    if format == "standalone":
        return export_standalone(agent, runs_dir, out, best, overwrite)
    if format == "onnx":
        return export_onnx(agent, runs_dir, out, best, overwrite=overwrite, trust=trust)
    if format == "card":
        named = isinstance(agent, (str, Path))
        run = RunDir.find(agent, Path(runs_dir)) if named else open_run(agent, runs_dir).run  # type: ignore[arg-type]
        return export_card(run, out, overwrite)
    if format in get_args(Program):
        return export_strategy(agent, format, runs_dir, out, best, overwrite)  # type: ignore[arg-type]
    if format != "sb3":
        raise OptionError(f"format should be one of {', '.join(get_args(Format))}, got {format!r}")
    from rookery.training.export.sb3_file import export_sb3

    path, *others = export_sb3(agent, runs_dir, out, best, overwrite, trust)
    for other in others:
        say(f"{other} has the normalisation of observations: VecNormalize.load({str(other)!r}, vec_env)")
    return path


def _format_of(out: str | Path | None) -> Format:
    if out is None:
        return "onnx"
    suffix = Path(out).suffix.lower()
    if suffix not in SUFFIXES:
        raise OptionError(f"an agent is exported to a file ending in {', '.join(SUFFIXES)}, got {str(out)!r}")
    return SUFFIXES[suffix]
