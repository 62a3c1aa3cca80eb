"""The tables and keys of a profile, each with its help text."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rookery.gate import Inside, Reaches
from rookery.worlds.gameboy import conditions

BUTTONS = ("up", "down", "left", "right", "a", "b", "start", "select")
HEIGHT, WIDTH = 144, 160  # pixels of the screen
Kind = Literal["memory", "pixels", "both"]
SHRINKS = (1, 2, 4, 8)


def _number(value: Any) -> Any:
    """An address or mask as a number, or as text of hexadecimal digits."""
    if isinstance(value, str):
        digits = value.strip().lower().removeprefix("$").removeprefix("0x")
        if not re.fullmatch(r"[0-9a-f]{1,8}", digits):
            raise ValueError(f'{value!r} is not a number in hexadecimal digits, such as 0xC0A0 or "C0A0"')
        return int(digits, 16)
    return value


def _condition(value: Any) -> Any:
    return conditions.parse(value) if isinstance(value, str) else value


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _buttons(value: Any) -> Any:
    """An action such as "a+right" in one form: its buttons in a fixed order."""
    if not isinstance(value, str):
        raise ValueError(f'{value!r} is not an action: it should be text, such as "up" or "a+right"')
    names = [part.strip().lower() for part in value.split("+")]
    if names == ["nothing"]:
        return ()
    for name in names:
        if name not in BUTTONS:
            raise ValueError(f"{value!r}: there is no button {name!r}; use nothing, {', '.join(BUTTONS)}")
    return tuple(name for name in BUTTONS if name in names)


Hexadecimal = Annotated[int, BeforeValidator(_number)]
Condition = Annotated[conditions.Condition, BeforeValidator(_condition)]
Text = Annotated[str, Inside("it is only shown or compared")]
ValueName = Annotated[str, Inside("the name of a value in [memory]")]
Names = Annotated[list[ValueName], BeforeValidator(_list), Field(min_length=1)]
Action = Annotated[tuple[Text, ...], BeforeValidator(_buttons)]
Bound = int | float | ValueName


class ProfileTable(BaseModel):
    """A table of a profile."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Game(ProfileTable):
    """The game of the profile."""

    title: Text = Field(max_length=16, description="The title in the ROM's header, at address 0134; a few have none.")
    description: Text = Field("", description="A sentence about the game.")
    sha256: list[Text] = Field([], description="Checksums of the allowed ROM files; if empty, any with this title.")
    sha1: list[Text] = Field([], description="The same by SHA-1.")
    built_in: Literal["meadow"] | None = Field(None, description="A game that comes with rookery, and needs no ROM.")

    @model_validator(mode="after")
    def _known(self) -> Game:
        if not self.title and not self.sha256 and not self.sha1:
            raise ValueError(
                'a game without a title needs its checksum: sha256 = ["..."], which `rookery gameboy info` prints'
            )
        return self


class Actions(ProfileTable):
    """The actions of the agent."""

    buttons: list[Action] = Field(min_length=1, description="One action each: nothing, a button, or several as a+up.")
    frame_skip: int = Field(4, ge=1, le=600, description="How many frames a step takes.")
    hold: int | None = Field(None, ge=1, description="For how many of them the buttons are held; if omitted, all.")

    @property
    def held(self) -> int:
        return self.frame_skip if self.hold is None else self.hold

    @model_validator(mode="after")
    def _fits(self) -> Actions:
        if self.held > self.frame_skip:
            raise ValueError(f"hold is {self.hold}, but a step takes only {self.frame_skip} frames (frame_skip)")
        return self


class MemoryValue(ProfileTable):
    """A value in the game's memory."""

    address: Hexadecimal = Field(description='Where it is: 0xC0A0 or "C0A0".')
    size: int = Field(1, ge=1, le=4, description="How many bytes it has.")
    bits: Hexadecimal | None = Field(None, gt=0, description="Only these bits of it, moved to the right: 0x0F, 0x80.")
    signed: bool = Field(False, description="Whether it may be negative (two's complement).")
    bcd: bool = Field(False, description="Whether each byte holds two decimal digits.")
    big_endian: bool = Field(False, description="Whether the highest byte comes first.")

    @model_validator(mode="after")
    def _readable(self) -> MemoryValue:
        problem = problem_at(self.address, self.size)
        if problem is None and (self.bits is not None) + self.signed + self.bcd > 1:
            problem = "use only one of bits, signed and bcd"
        if problem is None and self.bits is not None and self.bits >= 1 << 8 * self.size:
            problem = f"bits {self.bits:#x} are more than {self.size} byte{'s' * (self.size > 1)} have"
        if problem is not None:
            raise ValueError(problem)
        return self


class MemoryFeature(ProfileTable):
    """One part of the memory observation: a value scaled to 0..1 (or -1..1), or one-hot."""

    value: ValueName = Field(description="The name of a value in [memory].")
    minus: ValueName | None = Field(None, description="Another value, to be subtracted; the result is from -1 to 1.")
    low: Bound | None = Field(None, description="What becomes 0; if omitted, 0 does.")
    high: Bound | None = Field(None, description="What becomes 1: a number or a value's name; else its largest number.")
    values: int | list[int] | None = Field(None, description="One number for each of so many values, or of these.")
    equals: int | ValueName | None = Field(
        None, description="1 where it is this number, or the same as this value; else 0."
    )

    @property
    def width(self) -> int:
        """The number of elements in the observation."""
        if self.values is None:
            return 1
        return self.values if isinstance(self.values, int) else len(self.values)

    @model_validator(mode="after")
    def _one_way(self) -> MemoryFeature:
        scaled = self.low is not None or self.high is not None or self.minus is not None
        if scaled + (self.values is not None) + (self.equals is not None) > 1:
            raise ValueError("use one way only: a scaled number (low, high, minus), `values`, or `equals`")
        if self.values == [] or (isinstance(self.values, int) and not 1 <= self.values <= 256):
            raise ValueError("`values` should be a number of values, from 1 to 256, or a list of values")
        low = 0 if self.low is None else self.low
        if isinstance(self.high, (int, float)) and isinstance(low, (int, float)) and self.high <= low:
            raise ValueError(f"high ({self.high}) should be above low ({low})")
        return self


class Pixels(ProfileTable):
    """The screen as an observation."""

    shrink: int = Field(2, description="Keep every n-th pixel in both directions: 2 makes 72 x 80 of 144 x 160.")
    grey: bool = Field(True, description="One channel instead of three.")
    stack: int = Field(1, ge=1, le=16, description="How many of the last screens are stacked.")

    @model_validator(mode="after")
    def _divides(self) -> Pixels:
        if self.shrink not in SHRINKS:
            raise ValueError(f"shrink should be one of {', '.join(map(str, SHRINKS))}, got {self.shrink}")
        return self


class Observation(ProfileTable):
    """The observation of the agent."""

    kind: Kind = Field("memory", description="The default observation: memory, pixels or both.")
    size: int | None = Field(
        None, ge=1, le=65536, description="How many numbers the memory observation has, zeros at its end."
    )
    memory: list[MemoryFeature] = Field([], description="The values in the memory observation.")
    pixels: Pixels = Field(Pixels(), description="The form of the pixel observation.")


class Reward(ProfileTable):
    """One term of the reward; all of them are added up."""

    name: Text = Field(min_length=1, description="What it is for.")
    kind: Literal["step", "change", "first_visit", "threshold"] = Field(description="When it is given.")
    weight: float = Field(description="How much.")
    of: Names | None = Field(None, description="change, first_visit: the value, or several values as a tuple.")
    direction: Literal["up", "down", "any"] = Field("any", description="change: which way.")
    by: Literal["each", "difference"] = Field(
        "each", description="change: the weight per change, or the weight times the difference."
    )
    jump: int | None = Field(None, ge=1, description="change: differences of at least this much are ignored.")
    when: Condition | None = Field(None, description='Only if this is true: "mode == 1".')
    once: bool = Field(False, description="threshold: only the first time in an episode.")

    @model_validator(mode="after")
    def _whole(self) -> Reward:
        problem = self._problem()
        if problem is not None:
            raise ValueError(problem)
        return self

    def _problem(self) -> str | None:
        wants_of = self.kind in ("change", "first_visit")
        if wants_of != (self.of is not None):
            return f"a reward of kind {self.kind!r} {'needs' if wants_of else 'has no'} `of`"
        if self.kind == "threshold" and self.when is None:
            return 'a reward of kind "threshold" needs `when`, such as when = "hearts < 2"'
        if self.once and self.kind != "threshold":
            return f'`once` is for the kind "threshold", not for {self.kind!r}'
        if self.kind != "change" and {"direction", "by", "jump"} & self.model_fields_set:
            return f'`direction`, `by` and `jump` are for the kind "change", not for {self.kind!r}'
        if self.of is not None and len(self.of) > 1 and (self.by, self.direction, self.jump) != ("each", "any", None):
            return "`direction`, `by` and `jump` need a single value in `of`"
        return None


class Episode(ProfileTable):
    """When an episode ends."""

    length: int = Field(500, ge=1, description="Steps after which the episode is truncated.")
    end: list[Condition] = Field([], description="The episode terminates as soon as one of these is true.")
    success: Condition | None = Field(None, description="The episode is a success if this was true at any step.")


class ButtonPress(ProfileTable):
    """Buttons held for a number of frames."""

    buttons: Action
    frames: int = Field(ge=1)


def _press(value: Any) -> Any:
    """
    >>> _press("start 5")
    {'buttons': 'start', 'frames': 5}
    """
    if not isinstance(value, str):
        return value
    words = value.split()
    if len(words) != 2 or not words[1].isdigit():
        raise ValueError(f'{value!r} should be buttons and a number of frames, such as "start 5" or "nothing 120"')
    return {"buttons": words[0], "frames": int(words[1])}


class Start(ProfileTable):
    """What an episode starts from; of several states, the seed chooses one."""

    files: Annotated[list[str], Reaches("files", when_playing=True)] = Field(
        [], description="Save states, as paths relative to the profile's folder; * is a wildcard."
    )
    boot: list[Annotated[ButtonPress, BeforeValidator(_press)]] = Field(
        [ButtonPress(buttons="nothing", frames=120)],  # type: ignore[arg-type]
        description="From power-on: the buttons to press, and for how many frames, before the episode starts.",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Start:
        if "files" in self.model_fields_set and not self.files:
            raise ValueError('files is empty: write files = ["states/*.state"], or omit it')
        if {"files", "boot"} <= self.model_fields_set:
            raise ValueError("an episode starts from save states (files) or from power-on (boot), not from both")
        return self


class Info(ProfileTable):
    """The info dict of every step."""

    values: list[ValueName] = Field([], description="Names of values in [memory].")


class Profile(ProfileTable):
    """A game as an env: actions, observation, reward and episode."""

    game: Game
    actions: Actions
    memory: dict[ValueName, MemoryValue] = Field({}, description="Names for values in the game's memory.")
    observation: Observation = Observation()
    reward: list[Reward] = []
    episode: Episode = Episode()
    start: Start = Start()
    info: Info = Info()


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
