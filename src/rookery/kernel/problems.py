"""Problems that a world finds in its own step, such as a simulation that has become unstable."""

from typing import Any

FIRST_PROBLEM = 4  # a `stage` of an env, besides those in env_loop.py and random.py; the others follow it


def mark_problem(state: Any, number: int) -> None:
    """Report `problems[number]` of the world when this step or reset ends, as an error that names the env and the step.
    It may be called several times: the last call counts."""
    state.stage = FIRST_PROBLEM + number
