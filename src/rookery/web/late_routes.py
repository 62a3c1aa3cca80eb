"""Routes whose modules are imported when they are first asked for: what most pages do not need takes half a second."""

from __future__ import annotations

import asyncio
from functools import cached_property
from importlib import import_module

from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send


class LateRoutes(BaseRoute):
    """All paths that begin with one of these prefixes. `place` names the function that makes their routes, as
    "package.module:function"."""

    def __init__(self, place: str, *prefixes: str) -> None:
        self._place, self._prefixes = place, prefixes

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        fits = scope["type"] in ("http", "websocket") and scope["path"].startswith(self._prefixes)
        return (Match.FULL, {}) if fits else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        router = await asyncio.to_thread(lambda: self.router)
        await router(scope, receive, send)

    @cached_property
    def router(self) -> Router:
        """The routes themselves. Two threads at once would make two equal ones, of which the last stays."""
        module, _, function = self._place.partition(":")
        return Router(getattr(import_module(module), function)())
