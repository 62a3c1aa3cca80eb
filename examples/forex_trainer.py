"""Train on intraday forex with a `TrainerAgent`, as older trainers do, on synthetic bars of four currency pairs.

    python examples/forex_trainer.py

Real bars go into the same folder, one Parquet or CSV file per symbol: see docs/markets.md.
"""

import sys
from pathlib import Path

import rookery
from rookery.data import synthesise, write
from rookery.markets import TrainerAgent

SYMBOLS = ["EURUSD", "GBPUSD", "USDJPY", "USDCHF"]
CONFIG = {
    "algorithm": "DQN",
    "environment": {
        "observation_feature_cols": ["rsi_14", "ema_10", "ema_20"],
        "initial_balance": 100_000,
        "action_type": "discrete",
    },
    "training": {"total_timesteps": int(sys.argv[1]) if len(sys.argv) > 1 else 50_000},
}

folder = Path("data/forex")
folder.mkdir(parents=True, exist_ok=True)
bars = synthesise(symbols=SYMBOLS, bars=6_000, timeframe="1h", kind="forex")
for symbol in SYMBOLS:
    write(bars.select([symbol]), folder / f"{symbol}.parquet")

trainer = TrainerAgent(CONFIG)
trainer.set_env(trainer.create_vectorized_env(symbols=SYMBOLS, data_dir=folder, n_envs=16))
model_path = trainer.train()
print("agent:", rookery.load(model_path), "in", model_path)
