"""The picture of dmg-acid2, a ROM that draws a face with everything that Game Boys can draw, beside its reference:

    python benchmarks/gameboy_acid.py SOURCE [--picture FILE]

SOURCE is a checkout of mattcurrie/dmg-acid2 with its submodule mgblib. It is assembled here, as far as that source
needs an assembler. Exits with 1 if a pixel differs.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from gameboy_kernel import PROFILE
from rookery.kernel.kernel_env import KernelEnv
from rookery.worlds.gameboy.game_profile import read
from rookery.worlds.gameboy.kernel.header import cartridge_of
from rookery.worlds.gameboy.kernel.starts import power_on
from rookery.worlds.gameboy.kernel.world import GameBoyWorld

EIGHT = ("b", "c", "d", "e", "h", "l", "[hl]", "a")
PAIRS, PUSHED = ("bc", "de", "hl", "sp"), ("bc", "de", "hl", "af")
POINTED = ("[bc]", "[de]", "[hl+]", "[hl-]")
CONDITIONS = ("nz", "z", "nc", "c")
ACCUMULATOR = ("add", "adc", "sub", "sbc", "and", "xor", "or", "cp")
BITS = {"bit": 0x40, "res": 0x80, "set": 0xC0}
SINGLE = {"nop": 0x00, "di": 0xF3, "ei": 0xFB, "halt": 0x76, "ret": 0xC9, "reti": 0xD9}
FRAMES = 60


class Assembler:
    """A ROM from a source in RGBDS's language: labels, macros without arguments' types, sections, data."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rom = folder, bytearray(b"\xff" * 0x8000)
        self.values: dict[str, int] = {}
        self.macros: dict[str, list[str]] = {}
        self.place, self.scope, self.calls = 0, "", 0

    def assemble(self, source: str) -> bytes:
        """In two passes, as labels may come later."""
        for self.final in (False, True):
            self.macros.clear()
            self.calls, kept = 0, {name: value for name, value in self.values.items() if "INC" not in name}
            self.values = kept if self.final else {}
            self.run(iter(source.splitlines()))
        return bytes(self.rom)

    def run(self, lines: Iterator[str]) -> None:
        for line in lines:
            text = re.sub(r';(?=(?:[^"]*"[^"]*")*[^"]*$).*', "", line).strip()
            if text:
                self.statement(text, lines)

    def statement(self, text: str, lines: Iterator[str]) -> None:
        first, _, rest = text.partition(" ")
        word, rest = first.lower(), rest.strip()
        if named := re.match(r"(\w+)\s*:\s*MACRO", text):
            self.macros[named[1].lower()] = list(until(lines, "ENDM"))
        elif named := re.match(r"(\w+)\s+(?:EQU|SET|=)\s+(.+)|(\w+)\s*=\s*(.+)", text, re.IGNORECASE):
            self.values[named[1] or named[3]] = self.value(named[2] or named[4])
        elif label := re.match(r"([\w.\\@]+):*\s*(.*)", text) if ":" in first or first.startswith(".") else None:
            self.scope = self.scope if label[1].startswith(".") else label[1]
            self.values[self.full(label[1])] = self.place
            if label[2]:
                self.statement(label[2], lines)
        elif word == "if":
            block = list(until(lines, "ENDC", "IF"))
            if self.holds(rest):
                self.run(iter(block))
        elif word == "include":
            name = rest.strip('"')
            path = next(p for p in (self.folder / name, self.folder / "mgblib" / name) if p.exists())
            self.run(iter(path.read_text().splitlines()))
        elif word == "section":
            at = re.search(r"\[(.+)\]", rest)
            self.place = self.value(at[1]) if at else 0x4000
        elif word == "incbin":
            self.put(tiles(self.folder / rest.strip('"').replace(".2bpp", ".png")))
        elif word in ("db", "dw"):
            for part in rest.split(","):
                size = 1 if word == "db" else 2
                self.put((self.value(part.strip()) & (1 << 8 * size) - 1).to_bytes(size, "little"))
        elif word in self.macros:
            self.calls += 1
            arguments = [part.strip() for part in rest.split(",")]
            body = "\n".join(self.macros[word]).replace(r"\@", f"_{self.calls}")
            for number, argument in enumerate(arguments, 1):
                body = body.replace(f"\\{number}", argument)
            self.run(iter(body.splitlines()))
        else:
            self.put(bytes(self.instruction(word, [part.strip() for part in rest.lower().split(",")], rest)))

    def holds(self, condition: str) -> bool:
        name = re.search(r"DEF\((\w+)\)", condition)
        return name is not None and ((name[1] in self.values) != condition.startswith("!"))

    def full(self, name: str) -> str:
        return self.scope + name if name.startswith(".") else name

    def value(self, text: str) -> int:
        if text.startswith("`"):  # a row of eight pixels of two bits
            low, high = (int("".join(str(int(pixel) >> bit & 1) for pixel in text[1:]), 2) for bit in (0, 1))
            return low | high << 8
        if text.startswith('"'):
            return ord(text[1])
        text = re.sub(r"LOW\((\w+)\)", r"(\1 & 255)", text)
        text = re.sub(r"\$([0-9a-fA-F]+)", r"0x\1", re.sub(r"%([01]+)", r"0b\1", text))
        return int(eval(re.sub(r"(?<![\w.])[A-Za-z_.][\w.]*", self.name, text), {}))

    def name(self, found: re.Match[str]) -> str:
        known = self.values.get(self.full(found[0]))
        if known is None and self.final:
            raise SystemExit(f"{found[0]} is not known")
        return str(known or 0)

    def put(self, data: bytes) -> None:
        self.rom[self.place : self.place + len(data)] = data
        self.place += len(data)

    def instruction(self, word: str, operands: list[str], text: str) -> list[int]:
        """The bytes of one; `text` has its operands as they were written."""
        to, what = (*operands, "", "")[:2]
        written = [part.strip() for part in text.split(",")]
        if word in SINGLE:
            return [SINGLE[word]]
        if word == "ld":
            return self.load(to, what, written)
        if word == "ldh":
            place = self.value(written[to == "a"].strip("[]")) & 0xFF
            return [0xF0 if to == "a" else 0xE0, place]
        if word in ACCUMULATOR:
            kind, given = ACCUMULATOR.index(word), what or to
            return [0x80 + 8 * kind + EIGHT.index(given)] if given in EIGHT else [
                0xC6 + 8 * kind, self.value(written[-1]) & 0xFF
            ]  # fmt: skip
        if word in ("inc", "dec"):
            down = word == "dec"
            return [0x03 + 0x10 * PAIRS.index(to) + 8 * down] if to in PAIRS else [4 + 8 * EIGHT.index(to) + down]
        if word in BITS:
            return [0xCB, BITS[word] + 8 * int(to) + EIGHT.index(what)]
        if word == "ret":
            return [0xC0 + 8 * CONDITIONS.index(to)]
        if word == "jr":
            target = self.value(written[-1]) - self.place - 2
            return [0x20 + 8 * CONDITIONS.index(to) if what else 0x18, target & 0xFF]
        if word in ("jp", "call"):
            if to == "hl":
                return [0xE9]
            base = 0xC2 if word == "jp" else 0xC4
            opcode = base + 8 * CONDITIONS.index(to) if what else {"jp": 0xC3, "call": 0xCD}[word]
            return [opcode, *self.value(written[-1]).to_bytes(2, "little")]
        raise SystemExit(f"{word} {text}: not an instruction that is known here")

    def load(self, to: str, what: str, written: list[str]) -> list[int]:
        if to in EIGHT and what in EIGHT:
            return [0x40 + 8 * EIGHT.index(to) + EIGHT.index(what)]
        if to in PAIRS:
            return [0x01 + 0x10 * PAIRS.index(to), *self.value(written[1]).to_bytes(2, "little")]
        if to in POINTED:
            return [0x02 + 0x10 * POINTED.index(to)]
        if what in POINTED:
            return [0x0A + 0x10 * POINTED.index(what)]
        if "[c]" in (to, what):
            return [0xE2 if to == "[c]" else 0xF2]
        if to.startswith("[") and to != "[hl]":
            return self.far(0xE0, 0xEA, written[0])
        if what.startswith("["):
            return self.far(0xF0, 0xFA, written[1])
        return [0x06 + 8 * EIGHT.index(to), self.value(written[1]) & 0xFF]

    def far(self, near: int, far: int, place: str) -> list[int]:
        """`rgbasm` of that time took the short form where it could."""
        address = self.value(place.strip("[]"))
        return [near, address & 0xFF] if address >= 0xFF00 else [far, *address.to_bytes(2, "little")]


def until(lines: Iterator[str], end: str, begin: str = "no word") -> Iterator[str]:
    """The lines of a block, with those of blocks inside it."""
    depth = 0
    for line in lines:
        word = (line.split(";")[0].split() or [""])[0].upper()
        depth += word == begin
        if word == end:
            if depth == 0:
                return
            depth -= 1
        yield line


def tiles(path: Path) -> bytes:
    """A picture as tiles of two bits a pixel, from light to dark."""
    shades = 3 - np.asarray(Image.open(path).convert("L")) // 85
    rows = shades.reshape(shades.shape[0] // 8, 8, shades.shape[1] // 8, 8).transpose(0, 2, 1, 3).reshape(-1, 8)
    planes = [np.packbits((rows >> bit & 1).astype(np.uint8), axis=1) for bit in (0, 1)]
    return np.concatenate(planes, axis=1).tobytes()


def picture(rom: bytes) -> np.ndarray:
    """What our console shows after a second, in greys."""
    cartridge = cartridge_of(rom, "dmg-acid2")
    world = GameBoyWorld.of(read(PROFILE.format(frames=FRAMES, kind="memory")), cartridge, [power_on(cartridge)])
    env = KernelEnv(world, render_mode="rgb_array")
    env.reset(seed=1)
    env.step(0)
    return np.asarray(env.render())[:, :, 0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="a checkout of mattcurrie/dmg-acid2")
    parser.add_argument("--picture", type=Path, help="write what is shown here")
    args = parser.parse_args()
    rom = bytearray(Assembler(args.source).assemble('INCLUDE "src/dmg-acid2.asm"'))
    rom[0x134:0x150] = b"DMG-ACID2".ljust(0x1C, b"\0")
    shown = picture(bytes(rom))
    if args.picture:
        Image.fromarray(shown).save(args.picture)
    expected = np.asarray(Image.open(args.source / "img/reference-dmg.png").convert("L"))
    levels = [np.unique(image, return_inverse=True)[1].reshape(144, 160) for image in (shown, expected)]
    different = int((levels[0] != levels[1]).sum())
    print(f"dmg-acid2: {different} of {shown.size:,} pixels differ from the reference")
    return different != 0


if __name__ == "__main__":
    sys.exit(main())
