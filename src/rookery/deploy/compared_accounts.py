"""The accounts of a comparison on a market's bars, kept beside the versions for people who want to see them."""

from __future__ import annotations

from rookery.console import say
from rookery.deploy.gates.gate_result import GateResult
from rookery.deploy.registered_version import Version
from rookery.files import own_folder
from rookery.training.backtest.joined_account import write_account
from rookery.training.storage.registry_folder import outputs_folder

GATE = "gate"  # the folder in the outputs of a version


def write_compared(version: Version, gate: GateResult) -> None:
    """Write the accounts that a gate has compared to `outputs/NUMBER/gate/`. A full disk does not stop a decision."""
    if not gate.accounts:
        return
    try:
        folder = own_folder(outputs_folder(version.folder) / GATE)
        for name, account in gate.accounts.items():
            write_account(folder / f"{name}.npy", account)
        for other in {"candidate", "champion"} - gate.accounts.keys():
            (folder / f"{other}.npy").unlink(missing_ok=True)  # of an earlier comparison
    except OSError as error:
        say(f"the accounts of the comparison were not written: {error}")
