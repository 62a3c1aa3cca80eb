"""What all routes of the dashboard share."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request

from rookery.web.run_folders import RunFolders


@dataclass
class DashboardState:
    """What is shown, and what may be done.

    Attributes:
        folders: Where runs, studies and leagues are.
        allow_control: Whether runs may be stopped, resumed, tagged and hidden from the page.
        parts: Long-lived objects of the packages below, by name; each is made on first use by `part`.
        csrf: What our own page reads and sends with every change; no page of another site can read it.
    """

    folders: RunFolders
    allow_control: bool = False
    parts: dict[str, Any] = field(default_factory=dict)
    csrf: str = field(default_factory=secrets.token_urlsafe, repr=False)


def state_of(request: Request) -> DashboardState:
    """The state of the dashboard that answers a request."""
    found: DashboardState = request.app.state.dashboard
    return found
