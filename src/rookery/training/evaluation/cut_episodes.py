"""Episodes of evaluations that do not end by themselves: they are cut, and whoever evaluates is told."""

from __future__ import annotations

from collections.abc import Sequence

from rookery.errors import OptionError
from rookery.training.resolve.world_choice import World, episode_option

LONGEST = 20_000  # steps of an episode: a policy that walks against a wall may never end one by itself
WITHIN = "let its step() return `truncated` in time"


def cut_note(lengths: Sequence[int], seconds: float, remedy: str = WITHIN) -> str:
    """What to say of an evaluation whose episodes had these lengths; "" if none was cut.

    >>> cut_note([20_000, 17], 3.5)[:80]
    '1 of 2 episodes of an evaluation had not ended after 20,000 steps and was cut, a'
    """
    cut = sum(length >= LONGEST for length in lengths)
    if not cut:
        return ""
    return (
        f"{cut} of {len(lengths)} episodes of an evaluation had not ended after {LONGEST:,} steps and "
        f"{'was' if cut == 1 else 'were'} cut, and the evaluation took {seconds:.1f} s. If episodes of this world "
        f"should be shorter, {remedy}; `evaluation.episodes` and `evaluation.every` say how much is evaluated"
    )


def remedy_for(world: World) -> str:
    """What ends episodes of this world earlier."""
    try:
        episode_option(world)
    except OptionError:
        return f"{WITHIN}, or put a TimeLimit around it with `wrappers`"
    return "set `episode_length`"
