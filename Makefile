# Everything happens in .venv, which the targets set up themselves. `make` alone lists the targets.
ifeq ($(OS),Windows_NT)
  PYTHON ?= python
  SCRIPTS := Scripts
else
  PYTHON ?= python3
  SCRIPTS := bin
endif
BIN := .venv/$(SCRIPTS)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# The CPU build of XGBoost is a tenth of the size and imports under the same name. macOS has one build only.
XGBOOST := $(if $(filter Darwin,$(shell uname -s)),xgboost,xgboost-cpu)

PORTABLE := tests/test_without_unix.py tests/test_python.py tests/test_fuzz_python.py tests/test_sklearn.py \
  tests/test_package.py tests/test_progress.py tests/knowledge tests/privacy/test_accountants.py

.PHONY: help demo demo-network test test-all test-portable lint check docs wheel bench clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

demo: .venv/.base  ## Run the demonstration: ten organisations learn to read digits
	$(BIN)/limbeck demo

demo-network: .venv/.network  ## Run a server and three parties as separate programs over TLS, in network-demo/
	$(BIN)/python examples/network.py network-demo

test: .venv/.full  ## Run the tests, without those marked slow
	$(BIN)/pytest -n 2 -m "not slow"

test-all: .venv/.full  ## Run all tests, with the papers' settings where LIMBECK_DATA has the data sets
	$(BIN)/pytest -n 2

test-portable: .venv/.full  ## Run the tests of what works on every system, Windows too
	$(BIN)/pytest -n 2 -m "not slow" $(PORTABLE)

lint: .venv/.full  ## Check style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test  ## Run lint, then test

docs: .venv/.full  ## Check the links and the code of README and docs
	$(BIN)/pytest -n 2 -m "not slow" tests/test_links.py tests/test_docs.py tests/test_contributing.py

wheel: .venv/.dev  ## Build the sdist and the wheel into dist/, and try the wheel in a fresh environment
	rm -rf build dist
	$(BIN)/python -m build --outdir dist
	$(PYTHON) -m venv build/venv
	build/venv/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && venv/$(SCRIPTS)/limbeck --help
	cd build && venv/$(SCRIPTS)/limbeck demo

bench: .venv/.full  ## Measure ratios side by side, in less than 15 minutes; needs data sets in LIMBECK_DATA
	$(BIN)/python benchmarks/run_all.py run

clean:  ## Remove .venv, build/ and dist/
	rm -rf .venv build dist

.venv/pyvenv.cfg:
	$(PYTHON) -m venv .venv

# What `limbeck demo` needs.
.venv/.base: pyproject.toml constraints.txt | .venv/pyvenv.cfg
	$(INSTALL) -e .
	touch $@

.venv/.network: .venv/.base
	$(INSTALL) -e ".[privacy,flower]"
	touch $@

.venv/.dev: .venv/.base
	$(INSTALL) -e ".[dev]"
	touch $@

# Every extra.
.venv/.full: .venv/.base
	$(INSTALL) -e ".[torch,privacy,lightgbm,plot,tables,excel,text,download,cluster,flower,dev]" $(XGBOOST)
	touch $@
