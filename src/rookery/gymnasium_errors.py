"""The errors that Gymnasium's vector envs raise too: ours derive from Gymnasium's class as well.

They are used as `rookery.errors.EngineClosed` and so on, which loads this module: Gymnasium takes longer to import than
a command such as `rookery runs` needs for all it does.
"""

from __future__ import annotations

import multiprocessing

from gymnasium import error

from rookery.errors import RookeryError, SpaceError, UsageError


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
    """Results of `name` ("step", "reset" or "call") were asked for, but it was not started."""

    def __init__(self, message: str, name: str = "step") -> None:
        RuntimeError.__init__(self, message)  # Gymnasium's own takes the name as well
        self.name = name


class CallTimeout(RookeryError, TimeoutError, multiprocessing.TimeoutError):
    """`step_wait`, `reset_wait` or `call_wait` took longer than its timeout; the call continues."""


class ResetNeeded(UsageError, error.ResetNeeded, AssertionError):
    """An env was stepped that is not in an episode."""


for _shown in (CustomSpaceError, EngineClosed, CallPending, NoCallPending, CallTimeout, ResetNeeded):
    _shown.__module__ = "rookery.errors"  # where users find them
