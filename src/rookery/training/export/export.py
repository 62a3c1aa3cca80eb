"""`rookery export`: a trained agent as a file for other programs, in the format that the file's name says."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from rookery.console import say
from rookery.errors import OptionError
from rookery.training.evaluation.trained_run import AgentOrRun, open_run
from rookery.training.export.agent_card import export_card
from rookery.training.export.onnx_file import export_onnx, export_standalone
from rookery.training.export.strategy_file import Program, export_strategy
from rookery.training.storage.run_dir import RunDir

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
