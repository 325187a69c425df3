# `make demo` and `make test` need nothing but make and Python 3.11 or newer; they set up the rest.
PYTHON ?= python3
BIN    := .venv/bin
# STRICT=1: nothing may be left out (what .ci/run uses).
STRICT ?=
JOBS   ?= 2

.PHONY: help demo test lint types check-imports fast real bench bench-iris proto proto-check docs deb image setup clean

help:
	@echo "make demo     a control plane and three agents on this machine, one real operation"
	@echo "make test     lint, types, import contract and every test"
	@echo "make test HOSTLER_SLOW=1   the same with every guard removal and every crash"
	@echo "make fast     the tests that need no root and no network"
	@echo "make lint     ruff, mypy, import-linter, codespell"
	@echo "make deb      the Debian packages, into dist/"
	@echo "make image    the control plane's container image, into dist/ (as root; needs debootstrap)"
	@echo "make bench    the figures of the README, as JSON (bench-iris: side by side with Iris)"
	@echo "make proto    generate the protobuf code; make docs: generate the reference pages"

setup:
	@$(PYTHON) packaging/environment.py agent,control,dev \
	  --system-packages tests/real/packages.txt $(if $(STRICT),--strict)

demo:
	@$(PYTHON) packaging/environment.py agent,control
	@$(BIN)/hostler demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell
	$(BIN)/python -I packaging/proto.py --check

test: lint
	$(if $(STRICT),HOSTLER_TESTS=all) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

fast: setup
	$(BIN)/python -m pytest -n $(JOBS) tests/unit tests/guards tests/architecture

real: setup
	HOSTLER_TESTS=all $(BIN)/python -m pytest tests/real

bench: setup
	$(BIN)/python -m tests.bench.run

bench-iris: setup
	$(BIN)/python -m tests.bench.run --iris

proto: setup
	$(BIN)/python -I packaging/proto.py

docs: setup
	$(BIN)/python -I packaging/reference.py

deb: setup
	$(BIN)/python packaging/build_deb.py $(if $(SUITE),--suite $(SUITE))

image: setup
	$(BIN)/python packaging/build_image.py $(if $(SUITE),--suite $(SUITE))

clean:
	rm -rf .venv build dist demo-state .pytest_cache .mypy_cache .ruff_cache .hypothesis
