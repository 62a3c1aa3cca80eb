"""What evaluations return: the episodes of an agent, or its games against opponents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.printing import plain_table

HEADINGS = ("against", "games>", "won (95 % CI)>", "drawn>", "lost (95 % CI)>", "length>", "return>")


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationResult(Mapping[str, Any]):
    """Returned by `rookery.evaluate`: complete episodes of an agent. Its figures are found by name too, as `--json`
    prints them: `played["return_mean"]`."""

    run: str | None
    step: int | None  # at which the agent was saved
    world: str
    returns: np.ndarray  # of each episode
    lengths: np.ndarray
    interval: tuple[float, float]  # of the mean return: 95 %
    outcomes: Mapping[str, Any]  # such as the share of successes, where the world tells
    restarts: int  # of envs that failed
    seconds: float

    @property
    def mean(self) -> float:
        """The mean return."""
        return float(self.returns.mean())

    @property
    def std(self) -> float:
        """The standard deviation of the returns."""
        return float(self.returns.std())

    def __getitem__(self, name: str) -> Any:
        return self.as_json()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_json())

    def __len__(self) -> int:
        return len(self.as_json())

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"EvaluationResult({self.run} in {self.world}: mean return {self.mean:,.4g}, 95 % interval {low:,.4g} to "
            f"{high:,.4g}, {len(self.returns)} episodes)"
        )

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        low, high = self.interval
        return {
            "run": self.run,
            "step": self.step,
            "world": self.world,
            "episodes": len(self.returns),
            "return_mean": self.mean,
            "return_std": self.std,
            "return_low": low,
            "return_high": high,
            "return_min": float(self.returns.min()),
            "return_max": float(self.returns.max()),
            "length_mean": float(np.mean(self.lengths)),
            **self.outcomes,
            **({"restarts": self.restarts} if self.restarts else {}),
            "seconds": self.seconds,
        }

    def print(self) -> None:
        """The figures for people, one to a line."""
        (low, high), shown = self.interval, self.as_json()
        figures = {name: value for name, value in shown.items() if not name.startswith("return_")}
        interval = f" (95 % interval {low:,.4g} to {high:,.4g})" if len(self.returns) > 1 else ""
        figures["mean return"] = f"{self.mean:,.4g}{interval}"
        figures["returns"] = (
            f"{shown['return_min']:,.4g} to {shown['return_max']:,.4g}, standard deviation {self.std:,.4g}"
        )
        figures["mean length"], figures["seconds"] = figures.pop("length_mean"), figures.pop("seconds")
        for name, value in figures.items():
            print(f"{name:<12} {f'{value:,.4g}' if isinstance(value, float) else value}")


@dataclass(frozen=True, eq=False, repr=False)
class GamesResult(EvaluationResult):
    """Returned by `rookery.evaluate_games`: games of an agent. `opponents` has a row for each: its name, how many games
    were won, drawn and lost, and what follows. Against a single one, these figures are the games' own. `returns` are
    those of the games in which the world's rewards are this agent's."""

    agent: str
    opponents: Sequence[Mapping[str, Any]]
    seed: int

    @property
    def win_rate(self) -> float:
        """The share of games that were won: the mean over all opponents."""
        return float(np.mean([row["win_rate"] for row in self.opponents]))

    def __repr__(self) -> str:
        rows = (
            f"{_share(row['win_rate'], row['win_rate_interval'])} of {row['games']} against {row['opponent']}"
            for row in self.opponents
        )
        return f"GamesResult({self.agent} in {self.world} won {', '.join(rows)})"

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "agent": self.agent,
            **({} if self.run is None else {"run": self.run, "step": self.step}),
            "world": self.world,
            **(self.opponents[0] if len(self.opponents) == 1 else {"opponents": list(self.opponents)}),
            "seed": self.seed,
            **({"restarts": self.restarts} if self.restarts else {}),
            "seconds": self.seconds,
        }

    def print(self) -> None:
        """A table with a row for each opponent. Lines are never cut: names can be copied."""
        step = f" at step {self.step:,}" if self.step is not None else ""
        print(f"{self.agent}{step}, seed {self.seed}, {self.seconds:.1f} s")
        print(*plain_table(HEADINGS, [_row(row) for row in self.opponents]), sep="\n")


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["opponent"],
        f"{row['games']:,}",
        _share(row["win_rate"], row["win_rate_interval"]),
        f"{100 * row['draw_rate']:.1f} %",
        _share(row["loss_rate"], row["loss_rate_interval"]),
        f"{row['length_mean']:.0f}",
        f"{row['return_mean']:.2f}",
    )


def _share(share: float, interval: Sequence[float]) -> str:
    """
    >>> _share(0.872, [0.8499, 0.891])
    '87.2 % (85.0 to 89.1)'
    """
    return f"{100 * share:.1f} % ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})"
