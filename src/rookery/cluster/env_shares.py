"""Which envs each collector has: a contiguous range, so that env i is the same one wherever it is stepped."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rookery.engine.seeding import child_seed
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.resolve.world_choice import num_agents


@dataclass(frozen=True)
class Share:
    """The envs of one collector. `run` is the run as if it had these envs only."""

    index: int  # of the collector
    first: int  # number of its first env among all
    run: ResolvedRun

    @property
    def num_envs(self) -> int:
        return self.run.num_envs

    @property
    def rows(self) -> slice:
        """Its rows of the learner's batch: every agent of every env."""
        agents = num_agents(self.run.env_world)
        return slice(self.first * agents, (self.first + self.num_envs) * agents)

    @property
    def text(self) -> str:
        """For messages."""
        last = self.first + self.num_envs - 1
        return f"env {self.first}" if self.num_envs == 1 else f"envs {self.first} to {last}"

    def seeds(self, root: int, times_lost: int = 0) -> list[int]:
        """Of its envs, as one engine with all envs seeds them; next ones if they were lost before, as often as that."""
        numbers = range(self.first, self.first + self.num_envs)
        return [child_seed(root, i, times_lost) if times_lost else child_seed(root, i) for i in numbers]


def divide_envs(run: ResolvedRun, workers: list[int]) -> list[Share]:
    """One share for each collector, which steps its envs with so many `workers`: as equal as possible, the larger
    shares first."""
    size, more = divmod(run.num_envs, len(workers))
    counts = [size + (k < more) for k in range(len(workers))]
    return [Share(k, sum(counts[:k]), _part_of(run, counts[k], workers[k])) for k in range(len(workers))]


def _part_of(run: ResolvedRun, num_envs: int, workers: int) -> ResolvedRun:
    # Collectors of an off-policy learner never wait for it, and one group is one chunk of steps.
    groups = 1 if num_envs == 1 or run.config.learner != "ppo" else run.config.groups
    changed = run.with_config(num_envs=num_envs, workers=min(workers, num_envs), groups=groups)
    world, env_world = replace(run.world), replace(run.env_world)  # without what they keep at hand
    return replace(changed, num_envs=num_envs, choice=None, world=world, env_world=env_world)
