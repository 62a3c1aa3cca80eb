"""rookery's own worlds, as it knows them by name; classic control and MuJoCo: compiled versions of Gymnasium's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.worlds.atari.games import options_of
from rookery.worlds.market.market_options import OTHER_NAMES
from rookery.worlds.world_spec import PlayableGame, ShippedAgent, TwoPlayerForm, WorldOption, WorldSpec

# --- classic control, Catch, MuJoCo -----------------------------------------------------------------------------------

CLASSIC = tuple(
    WorldSpec(
        name=gym_id,
        source=f"rookery/{gym_id}",
        kernels={f"rookery/{gym_id}": f"rookery.worlds.classic:{gym_id.partition('-')[0]}"},
        is_kernel=True,
        original=gym_id,
        extra="kernel",
        recipes="rookery.worlds.known_recipes:CLASSIC",
    )
    for gym_id in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0")
)
CATCH = WorldSpec(
    name="catch",
    source="rookery/Catch-v0",
    kernels={"rookery/Catch-v0": "rookery.worlds.catch:Catch"},
    is_kernel=True,
    extra="kernel",
    recipes="rookery.worlds.known_recipes:CATCH",
)
_ROBOTS_IN = {
    "fixed_robots": "InvertedDoublePendulum InvertedPendulum Pusher Reacher",
    "flat_robots": "HalfCheetah Hopper Swimmer Walker2d",
    "large_robots": "Ant Humanoid HumanoidStandup",
}
ROBOTS = dict(sorted((name, module) for module, names in _ROBOTS_IN.items() for name in names.split()))

MUJOCO = tuple(
    WorldSpec(
        name=f"{name}-v5",
        source=f"rookery/{name}-v5",
        kernels={f"rookery/{name}-v5": f"rookery.worlds.mujoco.{module}:{name}"},
        is_kernel=True,
        original=f"{name}-v5",
        extra="mujoco",
        recipes="rookery.worlds.known_recipes:GYMNASIUM",
    )
    for name, module in ROBOTS.items()
)

# --- air hockey -------------------------------------------------------------------------------------------------------


def with_player_two(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the game against a script as those of the two-player game: the opponent is its second player.

    >>> with_player_two({"opponent": "strong", "mode": "shooting"})
    {'mode': 'shooting', 'player_two': 'strong'}
    """
    rest = {key: value for key, value in options.items() if key not in ("opponent", "player_two")}
    return {**rest, "player_two": options.get("player_two", options.get("opponent", "weak"))}


HOCKEY = WorldSpec(
    name="hockey",
    source="rookery/HockeyOne-v0",
    kernels={
        "rookery/HockeyOne-v0": "rookery.worlds.hockey.world:hockey_one",
        "rookery/Hockey-v0": "rookery.worlds.hockey.world:hockey",
    },
    is_kernel=True,
    extra="kernel",
    recipes="rookery.worlds.known_recipes:HOCKEY",
    discrete_options={"discrete": True},
    kernel_class="rookery.worlds.hockey.world:HockeyWorld",
    viewer="rookery.worlds.hockey.render:HockeyViewer",
    two_player=TwoPlayerForm(
        source="rookery/Hockey-v0",
        from_one_player=with_player_two,
        unused_options=("rows",),
        discrete_options=("discrete", "action_fineness"),
        player_spaces="rookery.worlds.hockey.world:player_spaces",
        action_table="rookery.worlds.hockey.world:action_table",
        usual_opponent="strong",
    ),
    agent=ShippedAgent(folder="rookery:agents/hockey", title="rookery's agent", aliases=("agent",)),
    game=PlayableGame(
        function="rookery.worlds.hockey.play:play",
        players=("human", "weak", "strong"),
        modes=("normal", "shooting", "defense"),
        keys="WASD or the arrows move your racket, Q/E or comma/period turn it, space or Enter shoots the puck that "
        "you hold, R restarts and Esc quits. Two people share the keyboard: WASD, Q/E and space are the left player's, "
        "arrows, comma/period and Enter the right one's.",
    ),
    examples=(
        "rookery train hockey --learner sac --set sac.hidden=[128,128] --set world_options.opponent=strong",
        "rookery train hockey --opponents self,strong --steps 1e7",
    ),
    options=(
        WorldOption("mode", "KIND", "normal, shooting or defense: what is played (normal)"),
        WorldOption("keep_mode", "true|false", "whether a racket keeps a puck that it touches until it shoots (true)"),
        WorldOption(
            "one_starts", "1|0|-1", "whose half the puck starts in: 1 the agent's, 0 the opponent's, -1 in turn (-1)"
        ),
        WorldOption("discrete", "true|false", "one of a few actions in each step, as DQN needs (false)"),
    ),
    has_curriculum_json=True,
)

# --- Game Boy games ---------------------------------------------------------------------------------------------------

GAME_BOY_ID = "rookery/GameBoy-v0"
COMPILED_GAME_BOY_ID = "rookery/CompiledGameBoy-v0"


def _game_boy_name(options: Mapping[str, Any]) -> str:
    """World, profile (of one in a file, the file's name) and kind of observation.

    >>> _game_boy_name({"profile": "games/My Game.toml", "observation": "pixels"})
    'gameboy-My-Game-pixels'
    """
    profile = re.sub(r"[^\w.+=-]+", "-", Path(str(options.get("profile", "meadow"))).stem)
    return "-".join(map(str, filter(None, ["gameboy", profile, options.get("observation")])))


def _guide_options(options: Mapping[str, Any], steps: int, num_envs: int) -> dict[str, Any]:
    """The options of the guide, which envs that evaluate do not have. It fades out over the run.

    >>> _guide_options({"profile": "meadow", "guide": "mine.py:Guide"}, 1000, 4)
    {'guide': 'mine.py:Guide', 'guide_fade': 250}
    """
    given = {name: value for name, value in options.items() if name == "guide" or name.startswith("guide_")}
    return {**given, "guide_fade": given.get("guide_fade") or max(1, steps // num_envs)} if "guide" in given else given


GAME_BOY = WorldSpec(
    name="gameboy",
    source=GAME_BOY_ID,
    envs={GAME_BOY_ID: "rookery.worlds.gameboy.env:GameBoyEnv"},
    kernels={COMPILED_GAME_BOY_ID: "rookery.worlds.gameboy.kernel.world:GameBoyWorld"},
    is_kernel=False,
    compiled=COMPILED_GAME_BOY_ID,
    extra="gameboy",
    recipes="rookery.worlds.known_recipes:GAME_BOY",
    options=(
        WorldOption(
            "profile",
            "NAME",
            "which game: meadow, oracle_of_seasons, or a profile of your own, as a .toml file (meadow)",
            is_file=True,
        ),
        WorldOption("rom", "PATH", "path to your ROM file; if omitted, the file in ROOKERY_ROM_DIR", is_file=True),
        WorldOption("observation", "WHAT", "memory, pixels or both (as the profile says)"),
        WorldOption(
            "guide",
            "FILE:NAME",
            "what gives hints during training: my_file.py:Guide, openai, or the hints.jsonl of a run",
            is_file=True,
            connects=("openai",),
        ),
    ),
    training_options=_guide_options,
    episode_length_option="episode_length",
    run_name=_game_boy_name,
    commands="rookery.apps.gameboy_verbs",
)

# --- Atari games ------------------------------------------------------------------------------------------------------

ATARI_ID = "rookery/Atari-v0"


def _atari_name(options: Mapping[str, Any]) -> str:
    """The id of the game, with its kind of observation if that is not the usual one.

    >>> _atari_name({"game": "ALE/Pong-v5", "obs_type": "ram"})
    'ALE-Pong-v5-ram'
    """
    kind = options.get("obs_type", "grayscale")
    game = str(options.get("game", "ALE/Pong-v5")).replace("/", "-")
    return game if kind == "grayscale" else f"{game}-{kind}"


def _atari_training(options: Mapping[str, Any], steps: int, num_envs: int) -> dict[str, Any]:
    """What only envs that train get: each life is an episode there, and rewards are signs.

    >>> _atari_training({"episodic_life": False}, 1, 1)
    {'episodic_life': False, 'clip_rewards': True, 'fire_reset': True}
    """
    return {name: options.get(name, True) for name in ("episodic_life", "clip_rewards", "fire_reset")}


def _atari_evaluation(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"fire_reset": options.get("fire_reset", True)}


ATARI = WorldSpec(
    name="atari",
    source=ATARI_ID,
    envs={ATARI_ID: "rookery.worlds.atari.env:AtariEnv"},
    is_kernel=False,
    stands_for=options_of,
    extra="atari",
    recipes="rookery.worlds.known_recipes:ATARI",
    options=(
        WorldOption("game", "ID", "which game, by its id in ale-py (ALE/Pong-v5)"),
        WorldOption("obs_type", "KIND", "grayscale, rgb or ram (grayscale)"),
        WorldOption("frame_skip", "N", "frames in which an action is repeated (4)"),
    ),
    training_options=_atari_training,
    evaluation_options=_atari_evaluation,
    run_name=_atari_name,
    examples=("rookery train ALE/Pong-v5", "rookery train BreakoutNoFrameskip-v4 --learner dqn"),
)

# --- markets ----------------------------------------------------------------------------------------------------------


def _market_training(options: Mapping[str, Any], steps: int, num_envs: int) -> dict[str, Any]:
    """A run trains on the split "train", unless another is given."""
    return {"split": options.get("split", "train")}


def market_evaluation(options: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluations, which choose the best checkpoint, are on bars that nobody trains on.

    The split "test" is for the report, and for nothing before it.

    >>> market_evaluation({}), market_evaluation({"split": "all"})
    ({'split': 'validation'}, {'split': 'all'})
    """
    split = options.get("split", "train")
    usual = "validation" if isinstance(split, str) and split == "train" else split
    return {"split": options.get("evaluation_split") or usual}


_MARKET_OPTIONS = (
    WorldOption("data", "PATH", "bars: a Parquet file or a folder (a synthetic set)", is_folder=True),
    WorldOption("data_dir", "FOLDER", "the same as --data", is_folder=True),
    WorldOption("symbols", "A,B", "which symbols of the data (all)"),
    WorldOption("timeframe", "5m", "the length of a bar; shorter ones are joined (as the data are)"),
    WorldOption("costs", "NAME", "costs: alpaca-crypto, usdt-perpetuals, ecn-forex, flat-fee-forex or none"),
    WorldOption("lookback", "N", "the number of bars in an observation"),
)


_BROKER = WorldOption("broker", "FILE", "a broker's table of swaps and spreads: CSV or TOML", is_file=True)

BACKTEST = "rookery.training.backtest.backtest:backtest"


def _market(name: str, source: str, more_options: tuple[WorldOption, ...] = (), **own: Any) -> WorldSpec:
    """What all markets have, with a market's `own` fields."""
    place = name.replace("-", "_")
    return WorldSpec(
        name=name,
        source=source,
        kernels={source: f"rookery.worlds.market.{place}:{place}"},
        is_kernel=True,
        extra="kernel,data",
        recipes="rookery.worlds.known_recipes:MARKETS",
        search_space=f"rookery.worlds.market.market_options:{place.upper()}_SPACE",
        options=(*_MARKET_OPTIONS, *more_options),
        option_names=OTHER_NAMES,
        training_options=_market_training,
        evaluation_options=market_evaluation,
        episode_length_option="episode_length",
        report=BACKTEST,
        **own,
    )


CRYPTO = _market(
    "crypto", "rookery/Crypto-v0", examples=("rookery train crypto --data-dir data/5m --timeframe 5m --n-envs 12",)
)
PERPETUALS = _market(
    "perpetuals", "rookery/Perpetuals-v0", examples=("rookery train perpetuals --data-dir data/1h --timeframe 1h",)
)
FOREX = _market(
    "forex",
    "rookery/Forex-v0",
    (_BROKER,),
    discrete_options={"action_type": "discrete"},
    continuous_options={"action_type": "continuous"},
    has_trading_config=True,
    examples=("rookery train forex --data-dir data/forex --symbols EURUSD,GBPUSD",),
)

FOREX_ACCOUNT = _market(
    "forex-account",
    "rookery/ForexAccount-v0",
    (_BROKER,),
    examples=("rookery train forex-account --data-dir data/forex --symbols EURUSD,USDJPY,EURGBP --broker swaps.csv",),
)

MARKETS = (CRYPTO, PERPETUALS, FOREX, FOREX_ACCOUNT)
BUILT_IN: tuple[WorldSpec, ...] = (*CLASSIC, HOCKEY, GAME_BOY, ATARI, *MARKETS, CATCH, *MUJOCO)
