"""A ROM of a hundred bytes and its profile, so that nothing here depends on how a real game is made.

Each frame it reads the pad, walks x (C002) to the right or left, draws the screen in a grey of x, counts frames (C003)
and says in which room of 32 pixels it is (C004). C000 holds the directions, C001 the buttons, as they were read.
"""

from __future__ import annotations

from pathlib import Path

LOOP = bytes.fromhex(
    "F044 FE90 20FA"  # wait for line 144: the picture is done
    "3E20 E000 F000 2F E60F 47 EA00C0"  # directions -> B, C000
    "3E10 E000 F000 2F E60F EA01C0"  # buttons -> C001
    "2102C0 CB40 2801 34 CB48 2801 35"  # x += right - left
    "7E E043 E047"  # scroll the background by x, and take it for the four greys
    "23 34"  # frames += 1
    "FA02C0 CB37 CB3F E607 EA04C0"  # room = x / 32
    "F044 FE90 28FA"  # wait until line 144 is over
    "C35001"
)

PROFILE = """
[game]
title = "{title}"

[actions]
buttons = ["nothing", "left", "right", "a", "a+right"]
frame_skip = 4

[memory]
pad     = {{ address = 0xC000 }}
keys    = {{ address = 0xC001 }}
x       = {{ address = 0xC002 }}
frames  = {{ address = 0xC003 }}
room    = {{ address = "C004" }}
x_and_frames = {{ address = 0xC002, size = 2 }}

[observation]
memory = [
    {{ value = "x" }},
    {{ value = "room", values = 8 }},
    {{ value = "frames", minus = "x", high = 255 }},
    {{ value = "x_and_frames" }},
]

[observation.pixels]
shrink = 4
stack = 2

[[reward]]
name = "new room"
kind = "first_visit"
of = "room"
weight = 1.0

[[reward]]
name = "walk"
kind = "change"
of = "x"
by = "difference"
jump = 100
weight = 0.5

[[reward]]
name = "far"
kind = "threshold"
when = "room == 3"
once = true
weight = 5.0

[episode]
length = 40
end = ["room == 4"]
success = "room >= 3"

[start]
boot = {boot}

[info]
values = ["x", "room"]
"""


def rom(title: str = "PACER", cartridge: int = 0, memory: int = 0, colour: int = 0) -> bytes:
    """The ROM, with checksums that are right."""
    data = bytearray(0x8000)
    data[0x100:0x104] = bytes.fromhex("C3500100")
    data[0x134 : 0x134 + len(title)] = title.encode()
    data[0x143], data[0x147], data[0x149] = colour, cartridge, memory
    data[0x150 : 0x150 + len(LOOP)] = LOOP
    return sealed(data)


def sealed(data: bytes | bytearray) -> bytes:
    """A ROM with checksums that are right."""
    made = bytearray(data)
    made[0x14D] = (-sum(made[0x134:0x14D]) - 25) & 0xFF
    made[0x14E:0x150] = bytes(2)
    made[0x14E:0x150] = (sum(made) & 0xFFFF).to_bytes(2, "big")
    return bytes(made)


def patched(*pieces: tuple[int, str], size: int = 0, **options: int) -> bytes:
    """The ROM with other bytes, in hexadecimal digits, at some addresses; it has 32 KiB << size."""
    data = bytearray(rom(**options)).ljust(0x8000 << size, b"\0")  # type: ignore[arg-type]
    data[0x148] = size
    for address, digits in pieces:
        new = bytes.fromhex(digits)
        data[address : address + len(new)] = new
    return sealed(data)


BREAKS_ON_A = patched((0x150 + len(LOOP) - 2, "0002"), (0x200, "FA01C0 A7 CA5001 D3"))  # D3: no Game Boy knows it
"""Each time that A is pressed the game meets an instruction which there is not."""


def folder(path: Path, title: str = "PACER", boot: str = '["nothing 100"]') -> dict[str, str]:
    """A folder with the ROM and its profile; returns the keywords for the env."""
    (path / "pacer.gb").write_bytes(rom(title))
    (path / "pacer.toml").write_text(PROFILE.format(title=title, boot=boot))
    return {"profile": str(path / "pacer.toml"), "rom": str(path / "pacer.gb")}
