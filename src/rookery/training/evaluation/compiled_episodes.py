"""Episodes of an evaluation that compiled code plays: nets act and envs step without Python in between, until one ends.
For agents that take their most likely action in a compiled world."""

from __future__ import annotations

from typing import Any

import numpy as np

from rookery.atomics import call_entry
from rookery.engine.kernel import KernelEngine
from rookery.kernel.batch_loop import STEP
from rookery.kernel.env_loop import ENDED, FAULT
from rookery.kernel.runner import BATCH_STEP
from rookery.learners.cached_njit import cached_njit
from rookery.learners.frozen_policy import PackedPolicy
from rookery.learners.heads import CategoricalHead
from rookery.learners.kernels.cpu.perceptron import forward
from rookery.training.evaluation.episodes import EpisodeEnvs, Episodes
from rookery.training.players.agents import AgentPlayer

STEPS_AT_ONCE = 1_000  # after which a request to stop is seen


@cached_njit(nogil=True, error_model="numpy")
def _play(
    entry: int, plan: np.ndarray, plan_address: int, world: Any, net: Any, rows: np.ndarray, start: int, most: int
) -> tuple[int, int]:
    """Step the envs in `rows` until an episode ends; returns how many steps were made, and what came of the last."""
    observations, actions = world
    sizes, packed, kind, outputs = net
    envs, outcome = len(observations), 0
    for turn in range(most):
        forward(observations, sizes, packed, kind, outputs)
        for i in rows:
            best = 0
            for k in range(1, outputs.shape[1]):
                if outputs[i, k] > outputs[i, best]:
                    best = k
            actions[i] = best + start
        plan[BATCH_STEP] += 1
        if len(rows) == envs:
            outcome = call_entry(entry, plan_address, STEP, 0, envs, 0)
        else:
            outcome = 0
            for i in rows:
                outcome |= call_entry(entry, plan_address, STEP, i, i + 1, 0)
        if outcome & (FAULT | ENDED):
            return turn + 1, outcome
    return most, outcome


class FusedEpisodes(Episodes):
    """Numbered episodes, played side by side by compiled code."""

    def _advance(self) -> tuple[np.ndarray, dict[str, Any]]:
        engine, packed = self._envs.engine, self._player.packed
        assert isinstance(engine, KernelEngine) and packed is not None
        observations, actions, *_ = engine.plain_arrays()
        outputs = np.empty((len(observations), packed.net.sizes[-1]), np.float32)
        net = packed.net.sizes, packed.net.packed, packed.net.kind, outputs
        start = int(self._player.action_space.start)  # type: ignore[attr-defined]
        _play(*engine.compiled_step(), (observations, actions), net, self._rows, start, STEPS_AT_ONCE)
        self._observations, _, terminated, truncated, infos = engine.finish_rows(self._rows)
        return terminated | truncated, infos


def episodes_for(envs: EpisodeEnvs, player: AgentPlayer) -> type[Episodes]:
    """How an agent plays in these envs: by compiled code where that is possible. The numbers are the same."""
    engine = envs.engine
    plain = isinstance(engine, KernelEngine) and envs.agents == 1 and engine.has_plain_steps
    packed: PackedPolicy | None = player.packed
    chooses = player.deterministic and isinstance(getattr(player.policy, "head", None), CategoricalHead)
    return FusedEpisodes if plain and chooses and packed is not None and not packed.normalises else Episodes
