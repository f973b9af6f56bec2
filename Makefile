PYTHON ?= python3
BIN := .venv/bin
PARTS := base symbolic codegen runtime gait models examples

.PHONY: setup demo test no-studies test-core test-all lint tree bench regress docs clean

setup: .venv/.kinesym

.venv/.kinesym: pyproject.toml setup.py tools/build_cyipopt.py $(wildcard runtime/native/*.p[yx][xd] runtime/native/c/*.h runtime/native/c/*/*)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo \
	  "kinesym needs Python 3.10 or newer; name one, for example: make setup PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot create \
	environments; install its venv package (Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python tools/build_cyipopt.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,test,lint,pinocchio]'
	@touch $@

# The core in an environment of its own, without the packages of any extra but those of its tests.
test-core:
	test -x build/core/bin/python || $(PYTHON) -m venv build/core
	build/core/bin/python -m pip install --quiet --disable-pip-version-check '.[test-core]'
	build/core/bin/python -m pytest -q -n auto --core -m "not study"

demo: setup
	$(BIN)/kinesym run standing --out results
	$(BIN)/kinesym run quiet_standing --out results

# Side by side, as a linter keeps one core busy at most.
test: setup
	@$(MAKE) --no-print-directory --jobs=2 lint no-studies

no-studies: setup
	$(BIN)/pytest -q -n auto --dist worksteal -m "not study"

test-all: lint
	KINESYM_TIER=compiled $(BIN)/pytest -q -n auto --dist worksteal

lint: setup tree
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tools/docstrings.py
	PYTHONPATH=build/tree $(BIN)/lint-imports --no-logo pyproject.toml tools/circles.toml

# What 'import kinesym' sees, as relative links, for the tools that only read files.
tree:
	@rm -rf build/tree && mkdir -p build/tree/kinesym
	@cd build/tree/kinesym && ln -s $(addprefix ../../../,$(PARTS)) . && ln -s ../../../api/* .

bench: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/kinesym bench

# Iterations, factorisations, operations and instructions of solves, against the record.
regress: setup
	$(BIN)/python benchmarks/counts.py --instructions

.venv/.docs: .venv/.kinesym
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

docs: .venv/.docs
	$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/docs/doctrees . build/docs/html

clean:
	rm -rf .venv build dist results bench_report docs/gallery/pages *.egg-info runtime/native/*.so
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
