"""Everything rookery raises on purpose, as one tree.

Each class also derives from the builtin a caller would expect, so `except ValueError` and `except TimeoutError` work.
"""

from __future__ import annotations


class RookeryError(Exception):
    """The root of all errors raised by rookery itself."""


class WorldError(RookeryError, ValueError):
    """The world that was named or given cannot be turned into environments."""


class OptionError(RookeryError, ValueError):
    """An option has a value that cannot work; the message names what is valid."""


class SpaceError(RookeryError, ValueError):
    """An observation, an action or a space is not what was declared."""


class BadValue(RookeryError, ValueError):
    """An environment returned NaN or infinity where a learner would have met it."""


class EnvError(RookeryError, RuntimeError):
    """An environment raised something that could not be rebuilt in this process."""


class WorkerDied(RookeryError, RuntimeError):
    """A worker process ended on its own; the message names its envs and the reason."""


class StepTimeout(WorkerDied, TimeoutError):
    """A step did not return within `step_timeout`, and its worker was killed."""


class RestartLimit(RookeryError, RuntimeError):
    """Something failed again after every restart it was allowed; the first failure is in the message."""


class MemoryShortage(RookeryError, MemoryError):
    """What was asked for needs more memory than is free."""


class StateError(RookeryError, RuntimeError):
    """An environment's state cannot be saved or restored exactly."""


class UsageError(RookeryError, RuntimeError):
    """A call came at a moment when it cannot be served, such as `recv` before `send`."""


class MissingExtra(RookeryError, ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""


class ConfigError(OptionError):
    """A configuration cannot be used; the message names the key and the nearest valid one."""


class CheckpointError(RookeryError, ValueError):
    """A checkpoint is damaged, incomplete or of another kind of run; the message says which file and why."""


class FileError(RookeryError, OSError):
    """A file or folder is not what it should be: a link, a pipe, or too large; the message names it."""


class RunError(RookeryError, RuntimeError):
    """A run cannot be found, continued or shown."""


class RunBusy(RunError):
    """Another process is working in the run's folder."""
