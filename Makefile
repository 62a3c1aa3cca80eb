# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

TRAIN_READY := $(VENV)/.ready-to-train
PACKAGE := pyproject.toml setup.py constraints.txt src/rookery/engine/_loops.c  # what an installation is made from

# Tests run in parts, each whatever became of the one before: most of them two at a time; one by one those that another
# test would disturb; and once more, without compiled loops, those that step engines in this process and in workers.
PYTEST := $(BIN)/python -m pytest -q
TOGETHER := -n 2 --dist worksteal
PARTS := test-together test-alone test-plain
WHICH := and not slow and not web
ALONE = $(shell grep -rl --include='*.py' mark.alone tests)
# By their names: threads and kernels have no such loops, and how workers start has nothing to do with them.
PLAIN := tests/engine/test_loops.py tests/conformance/test_contract.py tests/conformance/test_trajectories.py \
	tests/conformance/test_odd_results.py tests/faults/test_01_worker_killed.py tests/faults/test_02_hung_step.py \
	-k 'not thread and not kernel and not spawn'

# What `make train` trains on and for how long; left empty, the world's recipe decides.
TRAIN_WORLD ?= hockey
TRAIN_ENVS ?=
TRAIN_STEPS ?=
TRAIN_SEED ?=
TRAIN_EPISODE_LENGTH ?=
TRAIN_UPDATE_EPOCHS ?=
TRAIN_BATCH_SIZE ?=
TRAIN_OUTPUT_DIR ?=
TRAIN_ARGS ?=
CHOSEN = $(if $(TRAIN_ENVS),--num-envs $(TRAIN_ENVS)) $(if $(TRAIN_STEPS),--steps $(TRAIN_STEPS)) \
	$(if $(TRAIN_SEED),--seed $(TRAIN_SEED)) $(if $(TRAIN_UPDATE_EPOCHS),--set ppo.epochs=$(TRAIN_UPDATE_EPOCHS)) \
	$(if $(TRAIN_BATCH_SIZE),--batch-size $(TRAIN_BATCH_SIZE)) \
	$(if $(TRAIN_OUTPUT_DIR),--runs-dir $(TRAIN_OUTPUT_DIR)) \
	$(if $(TRAIN_EPISODE_LENGTH),--episode-length $(TRAIN_EPISODE_LENGTH)) $(TRAIN_ARGS)

.PHONY: help setup train train-20k train-parallel train-pure-rl test test-all test-web $(PARTS) test-sanitize check
.NOTPARALLEL:
.PHONY: bench bench-cost bench-kernels bench-learners bench-cpu bench-learning bench-gpu bench-gpu-learning bench-curriculum bench-league bench-transfer bench-gameboy bench-scaling bench-snake bench-monitor bench-markets bench-search bench-search-quality bench-search-faults bench-population bench-serve bench-paper clean

help:  ## this list
	@grep -E '^[a-z0-9-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 16

setup: $(READY)  ## a virtual environment in .venv with everything

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(TRAIN_READY): $(VENV)/.made $(PACKAGE)
	@echo "setting up: torch and a compiler take a minute"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[train,gameboy]'
	@touch $@

$(READY): $(VENV)/.made $(PACKAGE)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	@touch $@ $(TRAIN_READY)

train: $(TRAIN_READY)  ## train an agent (TRAIN_WORLD=hockey, TRAIN_ENVS=, TRAIN_STEPS=), with a plot and a video
	$(BIN)/rookery train $(TRAIN_WORLD) --video $(CHOSEN)

train-20k train-parallel train-pure-rl: TRAIN_WORLD = gameboy

train-20k: TRAIN_STEPS = 20000
train-20k: TRAIN_ENVS = 2
train-20k: TRAIN_EPISODE_LENGTH = 750
train-20k: TRAIN_UPDATE_EPOCHS = 6
train-20k: train  ## a Game Boy game on two emulators for 20,000 steps: it learns to fetch the key

train-parallel: TRAIN_STEPS = 10000
train-parallel: TRAIN_ENVS = 2
train-parallel: train  ## the same, shorter: to see that everything works

train-pure-rl: train  ## the same, to the end: rewards are all that an agent here learns from

check: $(READY)  ## linter, types, import rules, warnings of the C compiler
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/engine/check_loops.py warnings

test: check  ## checks and tests
	@$(MAKE) --no-print-directory --keep-going $(PARTS)

test-all: check  ## also the slow, much repeated ones
	@$(MAKE) --no-print-directory --keep-going $(PARTS) test-sanitize WHICH=

test-together: $(READY)
	$(PYTEST) $(TOGETHER) -m 'not alone $(WHICH)'

test-alone: $(READY)
	$(PYTEST) -m 'alone $(WHICH)' $(ALONE)

test-plain: $(READY)  ## the engine's tests without its compiled loops
	ROOKERY_PLAIN=1 $(PYTEST) $(TOGETHER) -m 'not alone $(WHICH)' $(PLAIN)

test-web: $(READY)  ## the dashboard in a real browser: needs chromium
	$(PYTEST) -m web tests/web/browser

test-sanitize: $(READY)  ## the compiled loops' tests under the address and undefined-behaviour sanitizers
	$(BIN)/python tests/engine/check_loops.py sanitizers

bench: $(READY)  ## the engine's table of figures, against its peers, on this machine
	$(BIN)/python benchmarks/engine.py

AGAINST ?= main
bench-cost: $(READY)  ## what the working tree costs in speed against another commit (AGAINST=main), a few minutes
	$(BIN)/python benchmarks/cost.py --against $(AGAINST)

bench-kernels: $(READY)  ## the kernel worlds' table of figures, against EnvPool, on this machine
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/kernels.py

bench-learners: $(READY)  ## the learners' speed, against Stable-Baselines3, on this machine
	$(BIN)/python benchmarks/learners.py

bench-cpu: $(READY)  ## PPO on one core and on all of them
	$(BIN)/python benchmarks/cpu_scaling.py

bench-learning: $(READY)  ## what the learners reach, over three seeds (two hours)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/learning.py

bench-gpu: $(READY)  ## everything on an NVIDIA GPU, beside its peers (eight minutes; PEERS=DIR and PEER_PATH=DIR: PureJaxRL)
	$(BIN)/python benchmarks/gpu.py $(if $(PEERS),--peers $(PEERS)) $(if $(PEER_PATH),--peer-path $(PEER_PATH))

bench-gpu-learning: $(READY)  ## what the learners reach on a GPU, over ten seeds and with each precision
	$(BIN)/python benchmarks/gpu_learning.py

bench-curriculum: $(READY)  ## phases, opponents and the agent that comes with rookery, on this machine
	$(BIN)/python benchmarks/curriculum.py

bench-league: $(READY)  ## a league of twenty agents: its time, and whether ratings say who wins
	$(BIN)/python benchmarks/league.py

bench-monitor: $(READY)  ## what episode rows and system figures cost in steps/s
	$(BIN)/python benchmarks/monitor_cost.py

bench-transfer: $(READY)  ## the hockey agent in the original's game on Box2D
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/transfer.py

bench-gameboy: $(READY)  ## emulators in parallel, and what is learned on them (a quarter of an hour)
	$(BIN)/python benchmarks/gameboy.py

bench-snake: $(READY)  ## PPO on images of 10 x 10 pixels by default choices (seven minutes)
	$(BIN)/python benchmarks/snake.py

bench-scaling: $(READY)  ## steps/s of stepping and training with 1 to 16 envs, as a table and docs/scaling.png
	$(BIN)/python benchmarks/scaling.py

bench-search: $(READY)  ## forty small trials with two workers and with one (a few minutes)
	$(BIN)/python benchmarks/search.py

bench-search-quality: $(READY)  ## what a search finds, against rl_zoo3's tuner and random settings (two hours)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/search_quality.py --jobs 2

bench-population: $(READY)  ## sixteen PPO trials side by side, over one by one (two minutes)
	$(BIN)/python benchmarks/population.py

bench-search-faults: $(READY)  ## whether a search survives kills, and a restarted, full, locked or deleted database (an hour)
	$(BIN)/python benchmarks/search_faults.py

bench-serve: $(READY)  ## an agent behind HTTP: 64 clients while its champion changes 20 times (two minutes)
	$(BIN)/python benchmarks/serve.py

bench-markets: $(READY)  ## the market worlds: speed against their peers, memory, guards, and what is learned (an hour)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/markets.py

bench-paper: $(READY)  ## paper trading: parity of 10,000 bars with the backtest, and 100 kills (five minutes)
	$(BIN)/python benchmarks/paper.py

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
