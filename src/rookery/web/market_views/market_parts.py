"""The long-lived objects of this package, one of each for a dashboard."""

from __future__ import annotations

from rookery.web.dashboard_state import DashboardState
from rookery.web.market_views.account_cache import AccountCache
from rookery.web.market_views.account_curves import AccountCurves
from rookery.web.market_views.account_paths import account_file, is_log
from rookery.web.market_views.market_listing import MarketListing
from rookery.web.market_views.stored_reports import StoredReports
from rookery.web.run_folders import RunFolders


class MarketParts:
    """What was read of accounts and reports."""

    def __init__(self, folders: RunFolders) -> None:
        self.folders, self.cache, self.reports = folders, AccountCache(), StoredReports()
        self.listing = MarketListing(folders, self.cache, self.reports)

    def curves(self, place: str, name: str, account: str) -> AccountCurves:
        """An account in a folder, as it is now."""
        path = account_file(self.folders, place, name, account)
        if not is_log(account):
            return self.cache.curves(path)
        log = self.cache.log(path)
        with log.lock:
            return log.columns.curves()


def market_parts(state: DashboardState) -> MarketParts:
    """Made on first use. Only the event loop asks, so that there is one."""
    found: MarketParts = state.parts.setdefault("markets", MarketParts(state.folders))
    return found
