# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup train test test-all check bench bench-kernels clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## a virtual environment in .venv with everything

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

train: $(READY)  ## the main job; until learners exist, a demonstration of the engine
	$(BIN)/rookery bench CartPole-v1 --num-envs 8 --against gymnasium,sb3 --seconds 2

check: $(READY)  ## linter, types, import rules
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## checks and tests
	$(BIN)/python -m pytest -q

test-all: check  ## also the slow, much repeated ones
	$(BIN)/python -m pytest -q -m ''

bench: $(READY)  ## the engine's table of figures, against its peers, on this machine
	$(BIN)/python benchmarks/engine.py

bench-kernels: $(READY)  ## the kernel worlds' table of figures, against EnvPool, on this machine
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/python benchmarks/kernels.py

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
