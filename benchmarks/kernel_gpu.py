"""The rows of the kernel worlds' table that need a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

import rookery
from engine_rows import Row

STEPS_A_GRAPH = 64


def available() -> bool:
    """Whether there is a GPU to measure."""
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def graph_rate(world: str, num_envs: int, rounds: int, **env_kwargs: Any) -> float:
    """Steps per second inside a CUDA graph, with actions drawn beforehand."""
    import torch

    envs = rookery.make_vec(world, num_envs, backend="cuda", env_kwargs=env_kwargs)
    envs.reset(seed=1)
    actions = draw_actions(envs, STEPS_A_GRAPH)
    for k in range(300):  # to where games differ
        envs.step(actions[k % STEPS_A_GRAPH])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for k in range(STEPS_A_GRAPH):
            envs.step(actions[k])
    best = 0.0
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        best = max(best, 10 * STEPS_A_GRAPH * num_envs / (start.elapsed_time(end) * 1e-3))
    envs.check()
    return best


def draw_actions(envs: Any, steps: int) -> Any:
    """Actions for so many steps of all envs, drawn on the GPU."""
    import torch

    space, generator = envs.single_action_space, torch.Generator(device="cuda").manual_seed(1)
    shape = (steps, envs.num_envs, *space.shape)
    if space.shape == ():
        return torch.randint(0, int(space.n), shape, device="cuda", generator=generator)
    low, high = (torch.from_numpy(side).cuda() for side in (space.low, space.high))
    return low + (high - low) * torch.rand(shape, device="cuda", generator=generator)


def speed_rows(rounds: int) -> list[Row]:
    """Hockey and CartPole with 65,536 envs in a CUDA graph."""
    rows = []
    for name, world, least, kwargs in (
        ("hockey", "rookery/HockeyOne-v0", 300e6, {"opponent": "strong"}),
        ("CartPole", "rookery/CartPole-v1", 10e9, {}),
    ):
        rate = graph_rate(world, 65536, rounds, **kwargs)
        rows.append(
            Row(f"{name} on a GPU, n=65,536, CUDA graph", f"{rate:,.0f}/s", "", rate / 1e6, least / 1e6, " M/s")
        )
    return rows


def agreement_rows(rounds: int) -> list[Row]:
    """The same games on both: without contact to the digit, with it in the long run."""
    import torch

    n = 1024
    cpu = rookery.make_vec("rookery/Hockey-v0", n, backend="kernel")
    gpu = rookery.make_vec("rookery/Hockey-v0", n, backend="cuda", copy=True)
    cpu.reset(seed=3), gpu.reset(seed=3)
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(100):
        actions = (0.05 * rng.uniform(-1, 1, (n, 8))).astype(np.float32)  # too little to meet anything
        mine, theirs = cpu.step(actions)[0], gpu.step(torch.from_numpy(actions).cuda())[0]
        worst = max(worst, float(np.abs(mine - theirs.cpu().numpy()).max()))
    shares = [outcome_shares(backend) for backend in ("kernel", "cuda")]
    points = 100 * float(np.abs(shares[0] - shares[1]).max())
    return [
        Row("hockey, CPU and GPU after 100 steps without contact", "", "", worst * 1e4, 1.0, "e-4", most=True),
        Row(
            "hockey, CPU and GPU, shares of 10,000 games",
            _text(shares[1]),
            _text(shares[0]),
            points,
            2,
            " points",
            True,
        ),
    ]


def outcome_shares(backend: str, games: int = 10_000) -> np.ndarray:
    """How strong against strong ends: won, drawn, lost by the first."""
    kwargs = {"player_one": "strong", "player_two": "strong"}
    envs = rookery.make_vec("rookery/Hockey-v0", games, backend=backend, env_kwargs=kwargs, copy=True)
    envs.reset(seed=11)
    actions = np.zeros((games, 8), np.float32)
    if backend == "cuda":
        import torch

        actions = torch.from_numpy(actions).cuda()
    winner, open_games = np.zeros(games), np.ones(games, np.bool_)
    for _ in range(250):
        _, _, terminated, truncated, infos = envs.step(actions)
        ended, won = (_host(part) for part in (terminated | truncated, infos["winner"]))
        winner[open_games & ended] = won[open_games & ended]
        open_games &= ~ended
    return np.array([(winner == side).mean() for side in (1, 0, -1)])


def _host(part: Any) -> np.ndarray:
    return part.cpu().numpy() if hasattr(part, "cpu") else part


def _text(shares: np.ndarray) -> str:
    return " ".join(f"{share:.3f}" for share in shares)
