"""All exceptions that rookery raises on purpose, as one class tree.

Each class also derives from the builtin that a caller expects, so `except ValueError` and `except TimeoutError` work.
Errors that Gymnasium's vector envs raise too derive from Gymnasium's class as well. These are made when first used:
Gymnasium takes longer to import than a command such as `rookery runs` needs for all it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

_GYMNASIUM = ("CallPending", "CallTimeout", "CustomSpaceError", "EngineClosed", "NoCallPending", "ResetNeeded")


def __getattr__(name: str) -> Any:
    if name not in _GYMNASIUM:
        raise AttributeError(f"module 'rookery.errors' has no attribute {name!r}")
    for made in _gymnasium_errors():
        globals().setdefault(made.__name__, made)  # one of each, also if two threads come here at once
    return globals()[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *_GYMNASIUM])


class RookeryError(Exception):
    """The root of all errors raised by rookery itself."""


class WorldError(RookeryError, ValueError):
    """The given world cannot be made into envs."""


class OptionError(RookeryError, ValueError):
    """An option has a value that cannot work; the message names what is valid."""


class SpaceError(RookeryError, ValueError):
    """An observation, an action or a space is not what was declared."""


class UnequalSpaces(SpaceError, RuntimeError):
    """The envs of a batch have different spaces."""


class ActionTypeError(SpaceError, TypeError):
    """One action was given where each env needs its own."""


class OptionTypeError(OptionError, TypeError):
    """An option has a value of the wrong type, such as a `reset_mask` that is not of bools."""


class BadValue(RookeryError, ValueError):
    """An env returned NaN or infinity in an observation or a reward, or an agent was given NaN."""


class EnvError(RookeryError, RuntimeError):
    """An env in another process raised an exception that cannot be rebuilt in this process."""


class WorkerDied(RookeryError, RuntimeError):
    """A worker process ended on its own; the message names its envs and the reason."""


class StepTimeout(WorkerDied, TimeoutError):
    """A step did not return within `step_timeout`, and its worker was killed."""


class RestartLimit(RookeryError, RuntimeError):
    """An env or worker failed again after all allowed restarts; the first failure is in the message."""


class MemoryShortage(RookeryError, MemoryError):
    """The operation needs more memory than is free. `lower` has what a run can lower to continue: by key, the present
    value and the lower one."""

    lower: dict[str, tuple[int, int]] | None = None


class StateError(RookeryError, RuntimeError):
    """The state of an env cannot be saved or restored exactly."""


class UsageError(RookeryError, RuntimeError):
    """A method was called in the wrong order, such as `recv` before `send`."""


class MissingExtra(RookeryError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


class ConfigError(OptionError):
    """A configuration cannot be used; the message names the key and the nearest valid one."""


class CheckpointError(RookeryError, ValueError):
    """A checkpoint is damaged, incomplete or of another kind of run; the message says which file and why."""


class DataError(RookeryError, ValueError):
    """Bars of a market cannot be read or used; the message names the file, the symbol, the row and the remedy."""


class FileError(RookeryError, OSError):
    """A file or folder is unsafe to use: a link, a pipe, or too large; the message names it."""


class RunError(RookeryError, RuntimeError):
    """A run cannot be found, resumed or shown."""


class NotAllowed(RunError):
    """A file names code, a path, a host or a command that the user has not agreed to."""


class RunBusy(RunError):
    """Another process uses the run's folder."""


class FolderLost(RunError):
    """The folder of a run was deleted, renamed or made unwritable while it trained; the message says where its agent
    is saved."""


class StudyError(RookeryError, RuntimeError):
    """A study cannot be found, opened or continued; the message names it and the remedy."""


class StorageLost(StudyError):
    """The database of a study does not answer, is full or is gone. Nothing that was recorded is lost by waiting."""


class LeaseLost(StudyError):
    """Another worker has taken over the trial, because this one was not heard of in time; nothing was written."""


class RegistryError(RookeryError, RuntimeError):
    """A registry of agents has no such version or alias, or cannot be changed; the message says why."""


class RegistryBusy(RegistryError):
    """Another process is changing the registry."""


class LiveAccount(RookeryError, RuntimeError):
    """The account or endpoint is not a paper account: rookery does not trade real money."""


class RequestRefused(RookeryError, RuntimeError):
    """A server of `rookery serve` refused a request; the message is its sentence, and `status` its HTTP status."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class KillSwitch(RookeryError, RuntimeError):
    """Paper trading has stopped at one of its limits. `kind` is drawdown, account-lost, stale-data, clock-skew,
    missing-feed or bad-bars."""

    def __init__(self, message: str, kind: str = "drawdown") -> None:
        super().__init__(message)
        self.kind = kind


def _gymnasium_errors() -> tuple[type[Exception], ...]:
    """The errors that Gymnasium's vector envs raise too."""
    import multiprocessing

    from gymnasium import error

    class CustomSpaceError(SpaceError, error.CustomSpaceError):
        """A space is of a class that is not Gymnasium's, where `shared_memory=True` needs one with a fixed size."""

    class EngineClosed(UsageError, error.ClosedEnvironmentError):
        """A method was called on a closed engine."""

    class CallPending(UsageError, error.AlreadyPendingCallError):
        """A method was called while the results of `name` ("step", "reset" or "call") have not been taken."""

        def __init__(self, message: str, name: str = "step") -> None:
            RuntimeError.__init__(self, message)  # Gymnasium's own takes the name as well
            self.name = name

    class NoCallPending(UsageError, error.NoAsyncCallError):
        """Results of `name` ("step", "reset" or "call") were requested, but it was not started."""

        def __init__(self, message: str, name: str = "step") -> None:
            RuntimeError.__init__(self, message)  # Gymnasium's own takes the name as well
            self.name = name

    class CallTimeout(RookeryError, TimeoutError, multiprocessing.TimeoutError):
        """`step_wait`, `reset_wait` or `call_wait` took longer than its timeout; the call continues."""

    class ResetNeeded(UsageError, error.ResetNeeded, AssertionError):
        """An env was stepped that is not in an episode."""

    made = (CustomSpaceError, EngineClosed, CallPending, NoCallPending, CallTimeout, ResetNeeded)
    for each in made:
        each.__qualname__ = each.__name__  # where users find them, and pickle does
    return made


if TYPE_CHECKING:  # what type checkers see of them

    class CustomSpaceError(SpaceError): ...

    class EngineClosed(UsageError): ...

    class CallPending(UsageError):
        def __init__(self, message: str, name: str = "step") -> None: ...

    class NoCallPending(UsageError):
        def __init__(self, message: str, name: str = "step") -> None: ...

    class CallTimeout(RookeryError, TimeoutError): ...

    class ResetNeeded(UsageError): ...
