"""Which addresses of a Game Boy's memory a profile may name."""

from __future__ import annotations

ROM_END, ECHO, ECHO_END, UNUSABLE, UNUSABLE_END = 0x8000, 0xE000, 0xFE00, 0xFEA0, 0xFF00


def problem_at(address: int, size: int = 1) -> str | None:
    """Why a value cannot be read at this address; None if it can.

    >>> problem_at(0xC0A0), problem_at(0xE0A0)
    (None, 'E0A0 is an echo of C0A0: write C0A0')
    """
    last = address + size - 1
    if not 0 <= address <= last <= 0xFFFF:
        return f"{address:X} is outside of the Game Boy's memory, which goes from 0000 to FFFF"
    for at in (address, last):
        if at < ROM_END:
            return f"{at:04X} is in the ROM, which never changes; use an address >= 8000 (most values are from C000 on)"
        if address < ECHO <= at:
            return f"{address:04X} with {size} bytes ends at {at:04X}, which is only an echo of {at - 0x2000:04X}"
        if ECHO <= at < ECHO_END:
            return f"{at:04X} is an echo of {at - 0x2000:04X}: write {at - 0x2000:04X}"
        if UNUSABLE <= at < UNUSABLE_END:
            return f"{at:04X} is in the unused area from FEA0 to FEFF, which holds no data"
    return None
