# Everything happens in .venv; `make demo` and `make test` set it up themselves.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo demo-network test test-all lint check bench clean

demo: .venv/.base
	$(BIN)/limbeck demo

# A server and three parties as programs of their own, over TLS; their folders stay in network-demo/.
demo-network: .venv/.network
	$(BIN)/python examples/network.py network-demo

test: .venv/.full
	$(BIN)/pytest -n 2 -m "not slow"

test-all: .venv/.full
	$(BIN)/pytest -n 2

lint: .venv/.full
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

bench: .venv/.full
	$(BIN)/python benchmarks/fedkt_adult.py
	$(BIN)/python benchmarks/pool.py
	$(BIN)/python benchmarks/rounds.py
	$(BIN)/python benchmarks/votes.py

clean:
	rm -rf .venv

.venv/bin/python:
	$(PYTHON) -m venv .venv

# What `limbeck demo` needs.
.venv/.base: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e .
	touch $@

.venv/.network: .venv/.base
	$(INSTALL) -e ".[privacy,flower]"
	touch $@

# Every extra; the CPU build of XGBoost is a tenth of the size of the other and imports under the same name.
.venv/.full: .venv/.base
	$(INSTALL) -e ".[torch,privacy,lightgbm,plot,tables,download,flower,dev]" xgboost-cpu
	touch $@
