"""Rows of nets that assets share (`share_weights`), for compiled code: a sample is as many rows as there are assets."""

from __future__ import annotations

import numpy as np

from rookery.learners.cached_njit import inner


@inner
def gather_assets(sample: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> None:
    """What the net reads of a sample for each asset, as rows; `columns` is [assets, inputs]."""
    for a in range(len(columns)):
        reads, row = columns[a], rows[a]
        for k in range(len(reads)):
            row[k] = sample[reads[k]]


@inner
def join_assets(rows: np.ndarray, assets: int, joined: np.ndarray) -> None:
    """The outputs of all rows, sample by sample: the first of each asset, then the second."""
    for r in range(len(joined)):
        for j in range(joined.shape[1]):
            joined[r, j] = rows[r * assets + j % assets, j // assets]


@inner
def part_assets(joined: np.ndarray, assets: int, rows: np.ndarray) -> None:
    """The way back: the gradients of the outputs of all rows, from those of samples."""
    for r in range(len(joined)):
        for j in range(joined.shape[1]):
            rows[r * assets + j % assets, j // assets] = joined[r, j]


@inner
def mean_of_assets(rows: np.ndarray, assets: int, values: np.ndarray) -> None:
    """The value of each sample, from those of its rows."""
    for r in range(len(values)):
        total = np.float32(0.0)
        for a in range(assets):
            total += rows[r * assets + a, 0]
        values[r, 0] = total / np.float32(assets)


@inner
def spread_mean(values: np.ndarray, assets: int, rows: np.ndarray) -> None:
    """The way back: the gradients of the values of all rows, from those of samples."""
    for r in range(len(values)):
        for a in range(assets):
            rows[r * assets + a, 0] = values[r, 0] / np.float32(assets)
