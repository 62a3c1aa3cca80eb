# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

TRAIN_READY := $(VENV)/.ready-to-train
# What an installation is made from.
PACKAGE := pyproject.toml setup.py constraints.txt src/rookery/engine/_loops.c src/rookery/worlds/atari/_screen.c
# Documentation and wheels have an environment of their own, so that the one of the tests stays small.
DOCS_VENV := .venv-docs
DOCS_BIN := $(DOCS_VENV)/bin
DOCS_READY := $(DOCS_VENV)/.ready
NOTEBOOKS_READY := $(DOCS_VENV)/.ready-for-notebooks

# Modules are kept as bytecode whatever the environment says. Otherwise each program that a test starts compiles the
# sources of torch again, which takes longer than most tests.
export PYTHONDONTWRITEBYTECODE :=

# Tests run in parts, each whatever became of the one before: most of them four at a time, on two cores too, as those of
# processes spend a third of their time waiting; one by one those that another test would disturb; at last, beside each
# other, those that step engines in this process and in workers once more, without compiled loops, and those of worker
# processes over what every system offers.
PYTEST := $(BIN)/python -m pytest -q
TOGETHER := -n 4 --dist worksteal
PARTS := test-together test-alone test-forms
# The linter of the dashboard's JavaScript is a program from npm, installed when it is first used. A machine without npm,
# or without a network at that moment, checks everything else.
NPM ?= npm
BIOME_VERSION := 2.6.7
BIOME_HOME := $(VENV)/biome-$(BIOME_VERSION)
BIOME := $(BIOME_HOME)/node_modules/.bin/biome
INSTALL_BIOME = $(NPM) install --prefix $(BIOME_HOME) --no-save --no-fund --no-audit --fetch-retries 0 \
	--fetch-timeout 30000 @biomejs/biome@$(BIOME_VERSION) > /dev/null 2>&1
# What benchmarks compare with. gym-trading-env wants an old ccxt, which our market extra does not take; the benchmark of
# its env needs neither.
INSTALL_PEERS := $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]' && \
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps gym-trading-env
# What fails is run again with the machine to itself, and both results are printed: what waits for processes and browsers
# can be disturbed by neighbours. Whatever fails twice has failed, and so have more than three of a part, which keeps its
# failures in a folder of its own.
CACHES := .pytest_cache
CACHE = $(CACHES)/$@
FAILED = $(CACHE)/v/cache/lastfailed
FLAKY = $(CACHE)/flaky
TRY = @echo 'make $@'; rm -f $(FAILED) $(FLAKY); $(PYTEST) -o cache_dir=$(CACHE)
AGAIN = || { [ $$? -eq 1 ] && grep -o '".*::.*"' $(FAILED) > $(FLAKY) && [ `wc -l < $(FLAKY)` -le 3 ] && \
	echo 'again, alone:' && $(PYTEST) -o cache_dir=$(CACHE) --last-failed
TIMES := .pytest_cache/times
WHICH := and not slow and not web
ALONE = $(shell grep -rl --include='*.py' mark.alone tests)
# By their names: threads and kernels have no such loops, and how workers start has nothing to do with them. Of faults,
# in every `make test`, those in which results of such loops are lost in different ways; in `make test-all` both suites.
PLAIN_FAULTS := tests/faults/test_01_worker_killed.py tests/faults/test_02_hung_step.py
PLAIN_MAIN_FAULTS := $(addprefix tests/faults/test_01_worker_killed.py::,test_restart_truncates_the_lost_and_leaves_others_alone \
	test_the_lost_tell_nothing_of_their_old_lives test_restart_under_send_and_recv test_restart_under_groups \
	test_a_worker_that_dies_while_it_reports_is_replaced test_raise_under_send_and_recv) \
	$(addprefix tests/faults/test_02_hung_step.py::,test_a_hung_worker_is_replaced_and_the_rest_keep_their_results \
	test_a_hang_while_reporting_is_found)
PLAIN = tests/engine/test_loops.py tests/conformance/test_contract.py tests/conformance/test_trajectories.py \
	tests/conformance/test_odd_results.py $(PLAIN_FAULTS) -k 'not thread and not kernel and not spawn'

# Over workers that need nothing of Linux: the main rows in every `make test`, both suites in `make test-all`. Seeds,
# actions and numbers of envs that are refused never reach a worker.
PORTABLE_MAIN := tests/conformance/test_contract.py tests/faults/test_12_main_killed.py \
	tests/faults/test_01_worker_killed.py::test_restart_truncates_the_lost_and_leaves_others_alone \
	-k 'not thread and not kernel and not serial and not fork and not seeds_that_are_none \
	and not wrong_actions and not env_ids_are_numbers'
PORTABLE := tests/conformance tests/platforms $(sort $(wildcard tests/faults/test_*.py)) \
	-k 'not thread and not kernel and not serial'

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

.PHONY: dist test-dist docs docs-serve test-docs
.PHONY: help rom setup train train-20k train-parallel train-pure-rl test test-all test-times test-flaky test-web $(PARTS) test-plain test-portable-main test-portable test-mujoco-gpu test-sanitize check
.NOTPARALLEL:
.PHONY: bench bench-tune bench-house bench-start bench-portable bench-cost bench-kernels bench-bounds bench-mujoco bench-mujoco-gpu bench-learners bench-cpu bench-learning bench-tasks bench-gpu bench-gpu-learning bench-curriculum bench-league bench-transfer bench-gameboy bench-scaling bench-snake bench-monitor bench-rewind bench-markets bench-search bench-search-cost bench-search-quality bench-search-faults bench-population bench-signals bench-serve bench-paper bench-dashboard bench-cluster bench-cluster-search bench-cluster-scaling clean

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

# Pip waits for files and needs one core. On the other one, what tests use is compiled as soon as its compiler is there,
# and tests are collected, which keeps their bytecode: otherwise each of the processes that run them makes all of it. If
# that fails, the first tests only take longer. What is installed later adds to the package: it is not built again.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt
$(READY): $(VENV)/.made $(PACKAGE)
	$(INSTALL) -e '.[kernel]' pytest pytest-timeout
	$(BIN)/python tests/warm_up.py worlds > $(VENV)/worlds.log 2>&1 & \
	$(INSTALL) 'rookery[train]' && { \
		{ $(BIN)/python tests/warm_up.py learners; $(PYTEST) -p no:cacheprovider --collect-only; } > $(VENV)/warm_up.log 2>&1 & \
		$(INSTALL) 'rookery[dev]'; }; installed=$$?; wait; exit $$installed
	@touch $@ $(TRAIN_READY)

$(DOCS_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_BIN)/python -m pip install --quiet --upgrade pip
	$(DOCS_BIN)/python -m pip install --quiet -c constraints.txt '.[docs,dist]'
	@touch $@

$(NOTEBOOKS_READY): $(DOCS_READY) $(PACKAGE)
	$(DOCS_BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs,train]'
	@touch $@

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

check: $(READY)  ## linters, types, import rules, warnings of the C compiler
	$(BIN)/ruff check src tests benchmarks gameboy_game
	$(BIN)/ruff format --check src tests benchmarks gameboy_game
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/check_compiled.py warnings
	@if ! command -v $(NPM) > /dev/null; then echo 'JavaScript not linted: npm is not installed'; \
	elif [ -x $(BIOME) ] || $(INSTALL_BIOME); then $(BIOME) lint --error-on-warnings; \
	else echo 'JavaScript not linted: npm could not install biome'; fi

ROMS := src/rookery/worlds/gameboy/roms
rom:  ## build rookery's own Game Boy game from gameboy_game/ into the file that ships
	$(PYTHON) -m gameboy_game $(ROMS)/meadow.gb $(ROMS)/meadow.json

# The checks run beside the first tests, and are done long before those that run alone; what they say comes last.
test: $(READY)  ## checks and tests
	@rm -f $(CACHES)/*/flaky
	@$(MAKE) --no-print-directory check > $(VENV)/check.log 2>&1 & checks=$$!; \
	$(MAKE) --no-print-directory --keep-going $(PARTS); tests=$$?; \
	wait $$checks; checked=$$?; cat $(VENV)/check.log; \
	flaky=$$(cat $(CACHES)/*/flaky 2> /dev/null); [ -z "$$flaky" ] || { echo 'failed once (make test-flaky):'; echo "$$flaky"; }; \
	exit $$((checked || tests))

test-times:  ## the same, with a report of what each test takes
	@rm -rf $(TIMES) && mkdir -p $(TIMES)
	-@ROOKERY_TEST_TIMES=$(TIMES) $(MAKE) --no-print-directory test
	$(BIN)/python tests/times.py $(TIMES) | tee $(TIMES)/report.txt
	@echo in $(TIMES)/report.txt

test-flaky: $(READY)  ## what failed in `make test` beside others, or TESTS='...', a hundred times on a busy machine
	$(BIN)/python tests/flaky.py $(TESTS)

test-mujoco-gpu: $(READY)  ## mujoco-warp itself, on the CPU: it compiles for minutes
	$(BIN)/python -m pip install --quiet -c constraints.txt mujoco-warp
	$(PYTEST) -m slow tests/worlds/test_mujoco_warp.py

test-all:  ## also the slow, much repeated ones
	@$(MAKE) --no-print-directory test PARTS='$(filter-out test-forms,$(PARTS)) test-plain test-portable test-sanitize' WHICH=

test-together: $(READY)
	$(TRY) $(TOGETHER) -m 'not alone $(WHICH)' $(AGAIN) -m 'not alone $(WHICH)'; }

test-alone: $(READY)
	$(TRY) -m 'alone $(WHICH)' $(ALONE) $(AGAIN) -m 'alone $(WHICH)' $(ALONE); }

test-plain: export ROOKERY_PLAIN := 1
test-plain: $(READY)  ## the engine's tests without its compiled loops
	$(TRY) $(TOGETHER) -m 'not alone $(WHICH)' $(PLAIN) $(AGAIN) -m 'not alone $(WHICH)' $(PLAIN); }

test-forms: TWO_BY_TWO := TOGETHER='-n 2 --dist worksteal'
test-forms: $(READY)
	@$(MAKE) --no-print-directory $(TWO_BY_TWO) PLAIN_FAULTS='$(PLAIN_MAIN_FAULTS)' test-plain > $(VENV)/plain.log 2>&1 & plain=$$!; \
	$(MAKE) --no-print-directory $(TWO_BY_TWO) test-portable-main; portable=$$?; \
	wait $$plain; plain=$$?; cat $(VENV)/plain.log; exit $$((portable || plain))

test-web: TOGETHER := -n 3 --dist worksteal  # each with a browser, which never waits
test-web: $(READY)  ## the dashboard in a real browser: needs chromium
	$(TRY) $(TOGETHER) -m 'web and not slow' tests/web/browser $(AGAIN) -m 'web and not slow' tests/web/browser; }

test-sanitize: $(READY)  ## the tests of what is in C under the address and undefined-behaviour sanitizers
	$(BIN)/python tests/check_compiled.py sanitizers

dist: $(DOCS_READY)  ## sdist and wheels in dist/: one with the compiled loops, one without for every system
	rm -rf build dist
	$(DOCS_BIN)/python -m build --outdir dist .
	ROOKERY_PURE=1 $(DOCS_BIN)/python -m build --wheel --outdir dist .
	$(DOCS_BIN)/twine check --strict dist/*
	$(DOCS_BIN)/check-wheel-contents dist/*.whl

test-dist: dist  ## the README and the tour with each wheel, in an empty environment without a compiler (ten minutes)
	for wheel in dist/*.whl; do $(PYTHON) tests/dist/check_wheel.py $$wheel || exit 1; done

docs: $(DOCS_READY)  ## the documentation as a site in site/, which needs no network
	NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs build --strict

docs-serve: $(DOCS_READY)  ## the same at http://127.0.0.1:8000, following changes
	NO_MKDOCS_2_WARNING=1 $(DOCS_BIN)/mkdocs serve --strict --dev-addr 127.0.0.1:8000

test-docs: docs $(NOTEBOOKS_READY)  ## links of the site, notebooks and workflows (a few minutes)
	$(DOCS_BIN)/python tests/docs/check_site.py site
	$(DOCS_BIN)/python tests/docs/check_notebooks.py
	$(DOCS_BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

test-portable-main: export ROOKERY_PORTABLE := 1
test-portable-main: $(READY)
	$(TRY) $(TOGETHER) -m 'not alone and not slow' $(PORTABLE_MAIN) $(AGAIN) -m 'not alone and not slow' $(PORTABLE_MAIN); }

test-portable: $(READY)  ## the conformance suite and all faults over workers that need nothing of Linux
	ROOKERY_PORTABLE=1 $(PYTEST) $(TOGETHER) -m 'not alone $(WHICH)' $(PORTABLE)
	ROOKERY_PORTABLE=1 $(PYTEST) -m 'alone $(WHICH)' $(PORTABLE)

bench: $(READY)  ## the engine's table of figures, against its peers, on this machine
	$(BIN)/python benchmarks/engine.py

bench-tune: $(READY)  ## what `rookery tune` and `auto` choose beside a busy core, ten times (three minutes)
	$(BIN)/python benchmarks/tune_busy.py

bench-portable: $(READY)  ## workers that need nothing of Linux, against those that do (three minutes)
	$(BIN)/python benchmarks/portable.py

bench-house: $(READY)  ## how many lines and files the package has, and how they are laid out
	$(BIN)/python benchmarks/house.py

bench-start: $(READY)  ## how long commands and engines take to start and to end, beside `import torch` and AsyncVectorEnv (three minutes)
	$(BIN)/python benchmarks/start.py

AGAINST ?= main
bench-cost: $(READY)  ## what the working tree costs in speed against another commit (AGAINST=main), a few minutes
	$(BIN)/python benchmarks/cost.py --against $(AGAINST)

bench-kernels: $(READY)  ## the kernel worlds' table of figures, against EnvPool, on this machine
	$(INSTALL_PEERS)
	$(BIN)/python benchmarks/kernels.py

bench-bounds: $(READY)  ## what checked indices cost in four users' worlds, with 64 and 16,384 envs (three minutes)
	$(BIN)/python benchmarks/bounds.py

bench-mujoco: $(READY)  ## the MuJoCo worlds' table, against EnvPool, Gymnasium and Stable-Baselines3 (five minutes)
	$(INSTALL_PEERS)
	$(BIN)/python benchmarks/mujoco_table.py

bench-mujoco-gpu: $(READY)  ## MuJoCo worlds on an NVIDIA GPU, beside all cores of the CPU (six minutes)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[mujoco-gpu]'
	$(BIN)/python benchmarks/mujoco_gpu.py

bench-learners: $(READY)  ## the learners' speed, against Stable-Baselines3, on this machine
	$(BIN)/python benchmarks/learners.py

bench-cpu: $(READY)  ## PPO on one core and on all of them
	$(BIN)/python benchmarks/cpu_scaling.py

bench-learning: $(READY)  ## what the learners reach, over three seeds (two hours)
	$(INSTALL_PEERS)
	$(BIN)/python benchmarks/learning.py

bench-gpu: $(READY)  ## everything on an NVIDIA GPU, beside its peers (eight minutes; PEERS=DIR and PEER_PATH=DIR: PureJaxRL)
	$(BIN)/python benchmarks/gpu.py $(if $(PEERS),--peers $(PEERS)) $(if $(PEER_PATH),--peer-path $(PEER_PATH))

bench-gpu-learning: $(READY)  ## what the learners reach on a GPU, over ten seeds and with each precision
	$(BIN)/python benchmarks/gpu_learning.py

bench-tasks: $(READY)  ## every task of Gymnasium by its name, over five seeds (a day; called again, it continues)
	$(INSTALL_PEERS)
	$(BIN)/python benchmarks/every_task.py --jobs 2 --set workers=1

bench-curriculum: $(READY)  ## phases, opponents and the agent that comes with rookery, on this machine
	$(BIN)/python benchmarks/curriculum.py

bench-league: $(READY)  ## a league of twenty agents: its time, and whether ratings say who wins
	$(BIN)/python benchmarks/league.py

bench-monitor: $(READY)  ## what episode rows and system figures cost in steps/s
	$(BIN)/python benchmarks/monitor_cost.py

bench-rewind: $(READY)  ## moments, forks, differences and bad updates of runs: found, and bit for bit (six minutes)
	$(BIN)/python benchmarks/rewind.py

bench-transfer: $(READY)  ## the hockey agent in the original's game on Box2D
	$(INSTALL_PEERS)
	$(BIN)/python benchmarks/transfer.py

bench-gameboy: $(READY)  ## emulators in parallel, and what is learned on them (a quarter of an hour)
	$(BIN)/python benchmarks/gameboy.py

bench-snake: $(READY)  ## PPO on images of 10 x 10 pixels by default choices (seven minutes)
	$(BIN)/python benchmarks/snake.py

bench-scaling: $(READY)  ## steps/s of stepping and training with 1 to 16 envs, as a table and docs/scaling.png
	$(BIN)/python benchmarks/scaling.py

bench-search: $(READY)  ## forty small trials with two workers and with one (a few minutes)
	$(BIN)/python benchmarks/search.py

bench-search-cost: $(READY)  ## how long a search takes against another commit (AGAINST=main), ten minutes
	$(BIN)/python benchmarks/search.py --against $(AGAINST)

bench-search-quality: $(READY)  ## what a search finds on six tasks, against rl_zoo3's tuner, plain TPE and random settings (a night)
	$(INSTALL_PEERS)
	$(BIN)/python benchmarks/search_quality.py --jobs 2

bench-population: $(READY)  ## sixteen PPO trials side by side, over one by one (two minutes)
	$(BIN)/python benchmarks/population.py

bench-search-faults: $(READY)  ## whether a search survives kills, a broken database and sick trials (an hour; SHORT=1: some minutes)
	$(BIN)/python benchmarks/search_faults.py $(if $(SHORT),--short)

bench-signals: $(READY)  ## a minute of signals to workers and fork servers, ten times for each start method (half an hour)
	PYTHONPATH=tests $(BIN)/python -m faults.signal_storm

bench-serve: $(READY)  ## an agent behind HTTP: 64 clients while its champion changes 20 times (two minutes)
	$(BIN)/python benchmarks/serve.py

bench-markets: $(READY)  ## the market worlds: speed against their peers, memory, guards, and what is learned (an hour)
	$(INSTALL_PEERS)
	$(BIN)/python benchmarks/markets.py

bench-paper: $(READY)  ## paper trading: parity of 10,000 bars with the backtest, and 100 kills (five minutes)
	$(BIN)/python benchmarks/paper.py

bench-dashboard: $(READY)  ## every figure of the dashboard, in a real browser, beside TensorBoard and optuna-dashboard (ten minutes)
	$(BIN)/python benchmarks/dashboard.py

bench-cluster: $(READY)  ## what a run on Ray costs and survives on this machine (25 minutes; QUICK=1: six)
	$(BIN)/python benchmarks/cluster.py $(if $(QUICK),--quick)

bench-cluster-search: $(READY)  ## 40 trials of a search over two nodes of a Ray cluster, one of which is killed (two minutes)
	$(BIN)/python benchmarks/cluster_search.py

bench-cluster-scaling: $(READY)  ## a model of PPO on a cluster, beside runs with 1, 2, 4 and 8 collectors (five minutes)
	$(BIN)/python benchmarks/scaling_model.py --plot docs/cluster-scaling.png

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) $(DOCS_VENV) build dist site .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
