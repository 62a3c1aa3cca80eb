"""A team of threads for compiled work, and updates that are the same on any number of them."""

from __future__ import annotations

import functools
import threading
from typing import Any

import numba
import numpy as np
import pytest
import torch
from gymnasium import spaces

from learners.scripted import Script, play
from rookery.learners.algorithms.ppo import PPO
from rookery.learners.kernels.cpu.fused_ppo import FusedPPO
from rookery.learners.kernels.cpu.layer_table import (
    BACKWARD,
    BIAS,
    BIAS_GRAD,
    CHAINS,
    GRAD,
    INPUTS,
    OUTPUTS,
    PACKED,
    PACKED_BIAS,
    LayerTable,
    pack_layers,
    sum_gradients,
)
from rookery.learners.kernels.cpu.product_tiles import (
    LANES,
    ROWS,
    UNROLL,
    add_outer,
    multiply,
    padded,
    panel_place,
    product_addresses,
)
from rookery.learners.kernels.cpu.slice_team import SliceTeam
from rookery.learners.registry import PPOOptions

SEEN = spaces.Box(-1, 1, (3,))


@functools.cache
def callable_from_python(part: Any) -> Any:
    """What only compiled code calls, called by compiled code."""

    @numba.njit
    def call(*arguments: Any) -> Any:
        return part(*arguments)

    return call


def test_a_part_of_compiled_code_is_not_for_python() -> None:
    with pytest.raises(TypeError, match="multiply is a part of compiled code"):
        multiply(0)


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"), [(64, 64, 64), (8, 1, 1), (16, 5, 30), (24, 67, 2), (8, 3, 2 * LANES + 1)]
)
def test_products_are_numpys(rows: int, inputs: int, outputs: int) -> None:
    """For sizes that are not multiples of anything, with what lies around the outputs left alone."""
    random = np.random.default_rng(0)
    inner, columns = padded(inputs, UNROLL), padded(outputs, LANES)
    left, right = np.zeros((rows, inner), np.float32), np.zeros((inner, columns), np.float32)
    left[:, :inputs], right[:inputs, :outputs] = (
        random.normal(size=(rows, inputs)),
        random.normal(size=(inputs, outputs)),
    )
    bias, out = random.normal(size=columns).astype(np.float32), np.full((rows + 1, columns), 7.0, np.float32)
    panels = np.zeros(inner * columns, np.float32)
    for k in range(inner):
        for n in range(columns):
            panels[panel_place.py_func(k, n, inner, columns)] = right[k, n]
    product, outer = product_addresses()
    places = left.ctypes.data, inner, panels.ctypes.data, inner, bias.ctypes.data, 0, out.ctypes.data, columns
    callable_from_python(multiply)(product, *places, rows, columns)
    np.testing.assert_allclose(out[:rows], left @ right + bias, rtol=1e-4, atol=1e-4)
    assert (out[rows] == 7.0).all()
    sums = np.full((outputs + 1, padded(inputs, LANES)), 7.0, np.float32)
    wide = np.zeros((rows, padded(inputs, LANES)), np.float32)
    wide[:, :inputs] = left[:, :inputs]
    grads = out[:rows].copy()
    callable_from_python(add_outer)(
        outer, grads.ctypes.data, columns, wide.ctypes.data, wide.shape[1], rows, sums.ctypes.data, wide.shape[1],
        outputs, wide.shape[1], 0,
    )  # fmt: skip
    np.testing.assert_allclose(sums[:outputs], 7.0 + (grads.T @ wide)[:outputs], rtol=1e-3, atol=1e-3)
    assert (sums[outputs] == 7.0).all()
    assert rows % ROWS == 0


@pytest.fixture
def layers() -> tuple[LayerTable, torch.Tensor]:
    """A net whose sizes are multiples of nothing; the weights of its last layer lie the other way round."""
    flat = torch.randn(50 * 37 + 50 + 3 * 50 + 3)
    weights = flat[:1850].view(50, 37), flat[1900:2050].view(50, 3).t()
    return LayerTable([[(weights[0], flat[1850:1900]), (weights[1], flat[2050:])]], flat, 8), flat


@pytest.mark.slow
@pytest.mark.parametrize("tasks", [1, 16])
def test_weights_are_copied_into_panels(tasks: int, layers: tuple[LayerTable, torch.Tensor]) -> None:
    table, flat = layers
    packed = np.zeros(table.packed_size, np.float32)
    for task in range(tasks):
        callable_from_python(pack_layers)(table.table, flat.data_ptr(), packed.ctypes.data, task, tasks)
    for layer, weight, bias in (
        (table.table[0], flat[:1850].view(50, 37), flat[1850:1900]),
        (table.table[1], flat[1900:2050].view(50, 3).t(), flat[2050:]),
    ):
        outputs, inputs = weight.shape
        for n in range(outputs):
            assert packed[layer[PACKED_BIAS] + n] == bias[n]
            for k in range(inputs):
                forward = panel_place.py_func(k, n, padded(inputs, UNROLL), padded(outputs, LANES))
                backward = panel_place.py_func(n, k, padded(outputs, UNROLL), padded(inputs, LANES))
                assert packed[layer[PACKED] + forward] == packed[layer[BACKWARD] + backward] == weight[n, k]


@pytest.mark.slow
def test_squares_are_added_in_order(layers: tuple[LayerTable, torch.Tensor]) -> None:
    """Side by side or not: to the last bit, as if each share were summed by itself."""
    table, flat = layers
    size, slices, shares = table.gradient_size, 3, 4 * CHAINS
    partial = np.random.default_rng(0).normal(size=(slices, size)).astype(np.float32)
    total = (partial[0] + partial[1]) + partial[2]
    wanted = np.zeros(shares)
    for layer in table.table:
        outputs, inputs, wide = layer[OUTPUTS], layer[INPUTS], padded(int(layer[INPUTS]), LANES)
        for task in range(shares):
            for n in range(outputs * task // shares, outputs * (task + 1) // shares):
                row = total[layer[GRAD] + n * wide :][:inputs]
                for grad in (*row, total[layer[BIAS_GRAD] + n]):
                    wanted[task] += np.float64(grad * grad)
    gradient, squares = torch.zeros_like(flat), np.zeros(shares)
    for task in range(shares // CHAINS):
        callable_from_python(sum_gradients)(
            table.table, partial.ctypes.data, size, slices, gradient.data_ptr(), squares, task
        )
    assert (squares == wanted).all()
    last = table.table[1]
    assert gradient[int(last[BIAS]) + 2] == total[last[BIAS_GRAD] + 2]
    row = total[last[GRAD] + 2 * padded(50, LANES) :][:50]
    assert (gradient[1900:2050].view(50, 3).t()[2].numpy() == row).all()


def test_a_row_of_a_product_does_not_depend_on_the_others() -> None:
    random, product = np.random.default_rng(0), product_addresses()[0]
    left, panels = random.normal(size=(24, 8)).astype(np.float32), random.normal(size=8 * LANES).astype(np.float32)
    bias, alone, among = (
        np.zeros(LANES, np.float32),
        np.zeros((8, LANES), np.float32),
        np.zeros((24, LANES), np.float32),
    )
    for rows, out, start in ((24, among, 0), (8, alone, 16)):
        places = left[start:].ctypes.data, 8, panels.ctypes.data, 8, bias.ctypes.data, 0, out.ctypes.data, LANES
        callable_from_python(multiply)(product, *places, rows, LANES)
    assert (among[16:] == alone).all()


def learner_after(
    threads: int, actions: spaces.Space, choices: tuple[int, ...], **options: Any
) -> tuple[PPO, list[Any]]:
    """A learner after some updates, and their metrics. Minibatches have 250, 250 and 100 rows: several slices of
    different sizes."""
    settings = PPOOptions(rollout_length=20, batch_size=250, hidden=[20, 12], epochs=2, **options)
    learner, script = PPO(SEEN, actions, settings, 30, seed=5), Script(SEEN, 30, choices=choices)
    learner.use_threads(threads)
    metrics = []
    for _ in range(4):
        play(learner, script, 20)
        metrics.append(learner.update())
    return learner, metrics


@pytest.mark.slow
@pytest.mark.parametrize(
    ("actions", "choices", "options"),
    [
        (spaces.Discrete(3), (3,), {"entropy": 0.01, "clip_values": 0.2}),
        (spaces.MultiDiscrete([2, 3]), (), {"normalise_observations": True, "activation": "relu"}),
        (spaces.Box(-1, 1, (2,)), (), {"normalise_rewards": True, "target_kl": 1e-3}),
    ],
)
def test_updates_are_the_same_on_any_number_of_threads(
    actions: spaces.Space, choices: tuple[int, ...], options: dict[str, Any]
) -> None:
    """To the bit: weights, moments and metrics."""
    alone, metrics = learner_after(1, actions, choices, **options)
    assert isinstance(alone.accelerator, FusedPPO)
    for threads in (2, 5):
        other, its = learner_after(threads, actions, choices, **options)
        assert its == metrics
        for one, same in zip(
            (alone.adam.flat, *alone.adam.moments), (other.adam.flat, *other.adam.moments), strict=True
        ):
            assert torch.equal(one, same)


def test_the_threads_of_a_team_end_with_it() -> None:
    before = threading.active_count()
    team = SliceTeam(4)
    assert threading.active_count() == before + 3
    team.close()
    assert threading.active_count() == before


def test_a_learner_changes_its_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of its own are started at the next update; torch is left with one. In a forked process, which has none
    of them, others are started."""
    learner, script = PPO(SEEN, spaces.Discrete(3), PPOOptions(rollout_length=8), 4), Script(SEEN, 4)
    before = threading.active_count()
    for threads in (3, 2, 1, 4):
        play(learner, script, 4)
        learner.adjust({"threads": threads})  # in the middle of a rollout
        play(learner, script, 4)
        learner.update()
        assert threading.active_count() == before + threads - 1
        assert torch.get_num_threads() == 1
    team = learner.accelerator._team
    monkeypatch.setattr(team, "pid", -1)
    play(learner, script, 8)
    learner.update()
    assert learner.accelerator._team is not team
