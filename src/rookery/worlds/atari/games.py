"""The names of Atari games, and the scores of people."""

from __future__ import annotations

import difflib
import re
from importlib.util import find_spec
from typing import Any, NamedTuple

from rookery.errors import MissingExtra, WorldError

# Scores of random play and of a person (Wang et al., 2016), which human-normalised scores refer to.
HUMAN_SCORES = {
    "alien": (227.8, 7127.7), "amidar": (5.8, 1719.5), "assault": (222.4, 742.0), "asterix": (210.0, 8503.3),
    "asteroids": (719.1, 47388.7), "atlantis": (12850.0, 29028.1), "bank_heist": (14.2, 753.1),
    "battle_zone": (2360.0, 37187.5), "beam_rider": (363.9, 16926.5), "berzerk": (123.7, 2630.4),
    "bowling": (23.1, 160.7), "boxing": (0.1, 12.1), "breakout": (1.7, 30.5), "centipede": (2090.9, 12017.0),
    "chopper_command": (811.0, 7387.8), "crazy_climber": (10780.5, 35829.4), "defender": (2874.5, 18688.9),
    "demon_attack": (152.1, 1971.0), "double_dunk": (-18.6, -16.4), "enduro": (0.0, 860.5),
    "fishing_derby": (-91.7, -38.7), "freeway": (0.0, 29.6), "frostbite": (65.2, 4334.7), "gopher": (257.6, 2412.5),
    "gravitar": (173.0, 3351.4), "hero": (1027.0, 30826.4), "ice_hockey": (-11.2, 0.9), "jamesbond": (29.0, 302.8),
    "kangaroo": (52.0, 3035.0), "krull": (1598.0, 2665.5), "kung_fu_master": (258.5, 22736.3),
    "montezuma_revenge": (0.0, 4753.3), "ms_pacman": (307.3, 6951.6), "name_this_game": (2292.3, 8049.0),
    "phoenix": (761.4, 7242.6), "pitfall": (-229.4, 6463.7), "pong": (-20.7, 14.6), "private_eye": (24.9, 69571.3),
    "qbert": (163.9, 13455.0), "riverraid": (1338.5, 17118.0), "road_runner": (11.5, 7845.0),
    "robotank": (2.2, 11.9), "seaquest": (68.4, 42054.7), "skiing": (-17098.1, -4336.9), "solaris": (1236.3, 12326.7),
    "space_invaders": (148.0, 1668.7), "star_gunner": (664.0, 10250.0), "surround": (-10.0, 6.5),
    "tennis": (-23.8, -8.3), "time_pilot": (3568.0, 5229.2), "tutankham": (11.4, 167.6), "up_n_down": (533.4, 11693.2),
    "venture": (0.0, 1187.5), "video_pinball": (16256.9, 17667.9), "wizard_of_wor": (563.5, 4756.5),
    "yars_revenge": (3092.9, 54576.9), "zaxxon": (32.5, 9173.3),
}  # fmt: skip
OTHER_GAMES = """
adventure air_raid atlantis2 backgammon basic_math blackjack carnival casino crossbow darkchambers donkey_kong
earthworld elevator_action entombed et flag_capture frogger galaxian hangman haunted_house human_cannonball
journey_escape kaboom keystone_kapers king_kong klax koolaid laser_gates lost_luggage mario_bros miniature_golf
mr_do othello pacman pitfall2 pooyan sir_lancelot space_war superman tetris tic_tac_toe_3d trondead turmoil
video_checkers video_chess video_cube word_zapper
""".split()  # noqa: SIM905 - as a list it is a page
GAMES = {game.title().replace("_", ""): game for game in sorted([*HUMAN_SCORES, *OTHER_GAMES])}  # as ids have them
ID = re.compile(r"(?P<space>ALE/)?(?P<name>\w+?)(?P<kind>NoFrameskip|Deterministic|-ram)?(-v(?P<version>\d+))?")
STICKY = {"0": 0.25, "4": 0.0, "5": 0.25}  # by version: how likely the emulator repeats the last action


class AtariGame(NamedTuple):
    """What an id says."""

    rom: str
    sticky: float


def options_of(world: str) -> dict[str, Any] | None:
    """The options with which `rookery/Atari-v0` is the env of an id of ale-py; None for ids of other envs.

    >>> options_of("BreakoutNoFrameskip-v4"), options_of("CartPole-v1")
    ({'game': 'BreakoutNoFrameskip-v4'}, None)
    """
    found = ID.fullmatch(world)
    if found is None or not (found["space"] or found["name"] in GAMES or found["kind"] == "NoFrameskip"):
        return None
    if not found["space"] and found["version"] not in ("0", "4"):
        return None
    game_of(world)
    if find_spec("ale_py") is None:
        raise MissingExtra(f"{world} needs ale-py, which is not installed: pip install 'rookery[atari]'")
    return {"game": world}


def game_of(world: str) -> AtariGame:
    """The game that an id names.

    >>> game_of("ALE/SpaceInvaders-v5")
    AtariGame(rom='space_invaders', sticky=0.25)
    """
    found = ID.fullmatch(world)
    name = "" if found is None else found["name"]
    if found is None or name not in GAMES:
        raise WorldError(f"{world!r} is not an Atari game that ale-py has; {_meant(name)}")
    usual = ("NoFrameskip", "0"), ("NoFrameskip", "4")
    if (found["kind"], found["version"]) in ([(None, "5")] if found["space"] else usual):
        return AtariGame(GAMES[name], STICKY[found["version"]])
    if found["space"]:
        raise WorldError(f"{world!r} is not an id of ale-py; did you mean ALE/{name}-v5?")
    raise WorldError(
        f"{world!r} skips frames itself, in another way than agents are used to: use ALE/{name}-v5 or "
        f"{name}NoFrameskip-v4, or ale_py:{world} for the env as it is"
    )


def _meant(name: str) -> str:
    by_small = {known.lower(): known for known in GAMES}
    near = difflib.get_close_matches(name.lower(), by_small, n=1, cutoff=0.6)
    return f"did you mean ALE/{by_small[near[0]]}-v5?" if near else "a game is named as in ALE/Pong-v5"


def human_normalised(rom: str, score: float) -> float | None:
    """0 is random play and 1 a person; None for games without known scores.

    >>> human_normalised("breakout", 30.5)
    1.0
    """
    if rom not in HUMAN_SCORES:
        return None
    random, human = HUMAN_SCORES[rom]
    return (score - random) / (human - random)
