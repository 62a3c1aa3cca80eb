"""What happens to agents after training: a registry of versions, promotion, serving, paper trading.

The package is the verb as well: `rookery.deploy("my_study", to="agents/cartpole")` calls `deploy` in it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.deploy.paper.account_files import PaperStatus
    from rookery.deploy.paper.bar_sources import KillLimits
    from rookery.deploy.paper.paper import PaperOptions
    from rookery.deploy.paper.paper_status import check_paper, paper_status
    from rookery.deploy.paper.parity import Parity
    from rookery.deploy.promotion import Deployment, Watcher, deploy
    from rookery.deploy.registry import Registry, Version
    from rookery.deploy.schedule import Plan, Schedule
    from rookery.deploy.serving.client import Client
    from rookery.deploy.serving.server import AgentServer
    from rookery.monitor.alerts import Alerts

__all__ = [
    "AgentServer",
    "Alerts",
    "Client",
    "Deployment",
    "KillLimits",
    "PaperOptions",
    "PaperStatus",
    "Parity",
    "Plan",
    "Registry",
    "Schedule",
    "Version",
    "Watcher",
    "check_paper",
    "deploy",
    "paper_status",
]

__getattr__, __dir__ = lazy_names(__name__)


class _CallablePackage(ModuleType):
    """Lets `rookery.deploy` be the function and the place of its parts."""

    def __call__(self, *args: Any, **options: Any) -> Deployment:
        return self.deploy(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
