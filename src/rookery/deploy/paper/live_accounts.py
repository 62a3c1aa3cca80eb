"""Refuses everything that could be an account with real money, before a key is read."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from rookery.console import printable
from rookery.errors import LiveAccount

PAPER_HOSTS = ("paper-api.alpaca.markets", "data.alpaca.markets", "127.0.0.1", "localhost", "::1")
ADDRESSES = ("APCA_API_BASE_URL", "ALPACA_BASE_URL", "ALPACA_API_BASE_URL", "APCA_API_DATA_URL")
KEYS = ("APCA_API_KEY_ID", "ALPACA_API_KEY")
LIVE_KEY = "AK"  # keys of Alpaca's live accounts begin with it, those of paper accounts with PK
REMEDY = "rookery trades on paper only"


def refuse_live(data: str) -> None:
    """Refuse a live endpoint in `--data` or in the environment, and the key of a live account."""
    _refuse_address("--data", data if "://" in data else "")
    if data.lower().startswith(("alpaca", "ccxt")) and "live" in data.lower().replace(":", "-").split("-"):
        raise LiveAccount(f"--data {printable(data)} names a live account: {REMEDY}; --data alpaca has bars")
    if not data.lower().startswith("alpaca"):
        return
    for name in ADDRESSES:
        _refuse_address(name, os.environ.get(name, ""))
    for name in KEYS:
        if os.environ.get(name, "").strip().startswith(LIVE_KEY):
            raise LiveAccount(f"{name} holds the key of a live account (it begins with {LIVE_KEY}): {REMEDY}; take the "
                              "keys of the paper account, which begin with PK")  # fmt: skip


def _refuse_address(name: str, address: str) -> None:
    host = (urlsplit(address if "://" in address else f"https://{address}").hostname or "") if address else ""
    if host.endswith("alpaca.markets") and host not in PAPER_HOSTS:
        raise LiveAccount(f"{name} names {printable(host)}, the endpoint of live accounts: {REMEDY}; the paper "
                          "endpoint is https://paper-api.alpaca.markets")  # fmt: skip
