"""All exceptions that rookery raises on purpose, as one class tree.

Each class also derives from the builtin that a caller expects, so `except ValueError` and `except TimeoutError` work.
"""

from __future__ import annotations


class RookeryError(Exception):
    """The root of all errors raised by rookery itself."""


class WorldError(RookeryError, ValueError):
    """The given world cannot be made into envs."""


class OptionError(RookeryError, ValueError):
    """An option has a value that cannot work; the message names what is valid."""


class SpaceError(RookeryError, ValueError):
    """An observation, an action or a space is not what was declared."""


class BadValue(RookeryError, ValueError):
    """An env returned NaN or infinity in an observation or a reward."""


class EnvError(RookeryError, RuntimeError):
    """An env in another process raised an exception that cannot be rebuilt in this process."""


class WorkerDied(RookeryError, RuntimeError):
    """A worker process ended on its own; the message names its envs and the reason."""


class StepTimeout(WorkerDied, TimeoutError):
    """A step did not return within `step_timeout`, and its worker was killed."""


class RestartLimit(RookeryError, RuntimeError):
    """An env or worker failed again after all allowed restarts; the first failure is in the message."""


class MemoryShortage(RookeryError, MemoryError):
    """The operation needs more memory than is free."""


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


class FileError(RookeryError, OSError):
    """A file or folder is unsafe to use: a link, a pipe, or too large; the message names it."""


class RunError(RookeryError, RuntimeError):
    """A run cannot be found, resumed or shown."""


class RunBusy(RunError):
    """Another process uses the run's folder."""
