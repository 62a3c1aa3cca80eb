"""What happens to agents after training: a registry of versions, promotion, serving, paper trading.

The package is the verb as well: `rookery.deploy("my_study", to="agents/cartpole")` calls `deploy` in it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rookery.lazy import lazy_names

if TYPE_CHECKING:
    from rookery.deploy.paper.account_files import PaperStatus as PaperStatus
    from rookery.deploy.paper.bar_sources import KillLimits as KillLimits
    from rookery.deploy.paper.paper import PaperOptions as PaperOptions
    from rookery.deploy.paper.paper_status import check_paper as check_paper, paper_status as paper_status
    from rookery.deploy.paper.parity import Parity as Parity
    from rookery.deploy.promotion import Deployment as Deployment, Watcher as Watcher, deploy as deploy
    from rookery.deploy.registry import Registry as Registry, Version as Version
    from rookery.deploy.schedule import Plan as Plan, Schedule as Schedule
    from rookery.deploy.serving.client import Client as Client
    from rookery.deploy.serving.server import AgentServer as AgentServer
    from rookery.monitor.alerts import Alerts as Alerts

__getattr__, __dir__, __all__ = lazy_names(__name__)


class _CallablePackage(ModuleType):
    """Lets `rookery.deploy` be the function and the place of its parts."""

    def __call__(self, *args: Any, **options: Any) -> Deployment:
        return self.deploy(*args, **options)


sys.modules[__name__].__class__ = _CallablePackage
