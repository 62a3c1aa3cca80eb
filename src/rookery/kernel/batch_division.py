"""How a team of threads divides a batch of envs, by what a step costs."""

from typing import NamedTuple

CHUNKS = 4  # per thread's share, at least, so that the other threads can take some of them
CHUNK_SECONDS = 20e-6  # a shorter chunk is not worth dividing further: to take one costs about 0.1 us
PART_SECONDS = 5e-6  # a shorter last part of a step is not worth being apart, which costs 1 to 2 us
ENVS_IN_PARTS = 3  # per thread: those that are taken last. More would not shorten the wait for the last one
FEW = 8  # envs per thread, at most, that are taken by their cost: with more, the wait for the last one is short
PATIENCE = 100_000  # nanoseconds of looks for the next batch, from the end of the last one on; then the thread sleeps
MOST_PATIENCE = 20 * PATIENCE


class Division(NamedTuple):
    """How a batch is divided."""

    shares: int  # one for each thread, or one for all of them
    chunks: int  # of each share
    by_cost: bool = False  # each chunk is one env, and the costliest are first
    patience: int = PATIENCE  # for how many nanoseconds a thread looks for the next batch before it sleeps
    in_parts: int = 0  # of so many envs, the last part of a step is a chunk of its own


def division_of(envs: int, seconds: float, threads: int, parts: int = 1) -> Division:
    """How to divide a batch that takes one thread so many seconds, if a step has so many equal parts. Chunks of costly
    envs are single envs, after which threads wait longer for the next batch."""
    each = seconds / envs
    if envs <= FEW * threads and each > CHUNK_SECONDS:
        patience = max(PATIENCE, min(MOST_PATIENCE, int(2e9 * each)))
        apart = parts > 1 and each / parts > PART_SECONDS and envs > threads
        in_parts = min(envs, ENVS_IN_PARTS * threads) if apart else 0
        return Division(1, envs + in_parts, True, patience, in_parts)
    return Division(threads, max(CHUNKS, min(-(-envs // threads), int(seconds / threads / CHUNK_SECONDS))))
