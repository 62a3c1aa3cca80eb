"""Which seeds are meant by `--seeds`."""

from __future__ import annotations

from rookery.config.schema import SEEDS
from rookery.errors import OptionError

MOST = 1000


def seed_list(text: str, first: int = 0) -> list[int]:
    """The seeds that a number or a list names. A number counts from `first`, the seed of the configuration.

    >>> seed_list("3"), seed_list("3", first=7), seed_list("1,2,5"), seed_list("4,")
    ([0, 1, 2], [7, 8, 9], [1, 2, 5], [4])
    """
    words = [word.strip() for word in text.split(",")]
    listed = len(words) > 1
    try:
        numbers = [int(word) for word in words if word]
    except ValueError:
        raise _wrong(text) from None
    seeds = numbers if listed else list(range(first, first + min(numbers[0], MOST + 1))) if numbers else []
    if not seeds or len(seeds) > MOST or any(not 0 <= seed < SEEDS for seed in seeds):
        raise _wrong(text)
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise OptionError(f"--seeds {text}: seed {twice[0]} is given twice; the same seed gives the same run")
    return seeds


def _wrong(text: str) -> OptionError:
    return OptionError(
        f"--seeds should be a number of seeds from 1 to {MOST}, such as 5, or a list of seeds >= 0, such as 1,2,3; "
        f"got {text!r}"
    )
