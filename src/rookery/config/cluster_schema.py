"""The fields of the section `cluster`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rookery.config.curriculum_schema import ConfigTable, Count
from rookery.errors import ConfigError
from rookery.gate import Reaches


class ClusterOptions(ConfigTable):
    """Where the envs of a run step."""

    kind: Literal["local", "ray"] = Field(
        "local",
        description="Where envs step. local: on this machine; ray: on the nodes of a Ray cluster, each with its share "
        "of them, for learners on a CPU.",
    )
    address: Annotated[str | None, Reaches("network")] = Field(
        None,
        min_length=1,
        description="Address of the cluster, HOST:PORT, or auto for the one that this machine is part of; if omitted, "
        "one is started on this machine and ends with the run.",
    )
    nodes: Count | None = Field(
        None,
        description="Number of collectors, which step a share of the envs each; if omitted, one for every node, "
        "also for those that join during the run. The numbers of a ppo run do not depend on it as long as it stays.",
    )
    timeout: float = Field(
        600.0,
        gt=0,
        description="Seconds after which a collector that has not returned its rollout, or a learner that has not sent "
        "its gradient, is replaced.",
    )
    learners: Count = Field(
        1,
        description="For ppo: processes of the cluster that compute the gradients of an update together, the run's own "
        "among them. The weights are those of one learner, to float tolerance.",
    )
    learner_device: Literal["cpu", "cuda"] = Field(
        "cpu",
        description="For ppo: where gradients are computed. cuda: every learner has a GPU of its own, and NCCL sums "
        "gradients between them. The policy acts on CPUs in any case.",
    )
    evaluate_apart: bool = Field(
        False,
        description="Evaluate the agent in a process of its own on the cluster, with a copy of its weights, while the "
        "run continues. Results are recorded when they arrive, for the step of their weights.",
    )
    asynchronous: bool = Field(
        False,
        description="For ppo: collectors do not wait for the learner, which takes rollouts as they arrive and corrects "
        "by V-trace what older weights did. Numbers then depend on arrival. Collectors of off-policy learners never "
        "wait, with and without it.",
    )
    max_staleness: Count | None = Field(
        None,
        description="Where collectors do not wait: updates of the weights that may be made between sending them to a "
        "collector and learning from the steps that it made with them. Older steps are discarded. If omitted, 256, and "
        "4 for ppo.",
    )


def leads(options: ClusterOptions) -> bool:
    """Whether the run's learner shares its updates with others, or has a GPU make them."""
    return options.learners > 1 or options.learner_device == "cuda"


def check_local(options: ClusterOptions) -> None:
    """Refuse what only a cluster reads in a configuration that asks for none. One that names `kind` may have it all the
    same: `--on local` is for the file of a run on a cluster."""
    given = options.model_fields_set
    for key in ("address", "nodes", "timeout", "max_staleness"):
        if key in given and "kind" not in given and getattr(options, key) is not None:
            raise needs_cluster(key)


def needs_cluster(key: str) -> ConfigError:
    """The error for a key of this section in a run on one machine."""
    return ConfigError(f'`cluster.{key}` is for runs on a cluster: give `cluster.kind` = "ray" too')
