# Bare `make` lists what there is. Every target makes the virtual environment that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find native CMakeLists.txt pyproject.toml -type f 2>/dev/null)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

# pip >= 25.1 reads dependency groups.
$(BIN)/.tools: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -q --group build
	@touch $@

# Editable and without build isolation, so that a rebuild only compiles what changed.
$(BIN)/.built: $(BIN)/.tools $(NATIVE)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e .
	@touch $@

$(BIN)/.test: $(BIN)/.built
	$(BIN)/python -m pip install -q --group test
	@touch $@

$(BIN)/.lint: $(BIN)/.built
	$(BIN)/python -m pip install -q --group lint
	@touch $@

.PHONY: build
build: $(BIN)/.built ## build the native core and install the package into .venv, editable

.PHONY: test
test: $(BIN)/.test lint ## lint, types, import laws and every test that needs no GPU
	$(BIN)/python -m pytest

.PHONY: lint
lint: $(BIN)/.lint ## style, types, import laws
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/native_law.py
	find native tests/native benchmarks/native -name '*.[ch]pp' | xargs $(BIN)/clang-format --dry-run --Werror

.PHONY: stubs
stubs: $(BIN)/.built ## write the golden stubs of the native modules again
	$(BIN)/python -m nanobind.stubgen -q -r -m forebay._core -O src/forebay
