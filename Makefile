# Bare `make` lists what there is. Every target makes the virtual environment that it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-script-location
NATIVE := $(shell find native CMakeLists.txt pyproject.toml -type f 2>/dev/null)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-10s %s\n", $$1, $$2}'

# pip >= 25.1 reads dependency groups.
$(BIN)/.tools: pyproject.toml
	@echo "making $(VENV) with the tools that build" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade 'pip>=25.1'
	@$(PIP) --group build
	@touch $@

# Editable and without build isolation, so that a rebuild only compiles what changed.
$(BIN)/.built: $(BIN)/.tools $(NATIVE)
	@echo "building the native core: about a minute the first time on two cores" >&2
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-build-isolation -e .
	@touch $@

$(BIN)/.test: $(BIN)/.built
	@echo "installing what the tests need" >&2
	@$(PIP) --group test
	@touch $@

$(BIN)/.lint: $(BIN)/.built
	@echo "installing what lint needs" >&2
	@$(PIP) --group lint
	@touch $@

.PHONY: run
run: $(BIN)/.built ## the bundled decode server on a simulated device, checked against a plain reference
	@$(BIN)/forebay demo

.PHONY: build
build: $(BIN)/.built ## build the native core and install the package into .venv, editable

.PHONY: test
test: $(BIN)/.test lint stress-short ## lint, types, import laws and every test that needs no GPU
	$(BIN)/python -m pytest -n 2 -p no:benchmark

.PHONY: lint
lint: $(BIN)/.lint ## style, types, import laws
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/native_law.py
	find $(wildcard native tests/native tests/fake_cuda benchmarks/native) -name '*.[ch]pp' | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/python tools/largest.py

# The native stress programs, with local checks on every operation: one thread under ASan and UBSan (and the full walk
# every 1,000 operations), eight under TSan. Each object has its own rule and its own list of headers, so a change
# compiles what it touches and -j uses every core.
SANITIZED := address+undefined thread
POOL := $(patsubst native/%.cpp,%,$(wildcard native/pool/*.cpp)) driver/status torch/private_pools
STRESS := $(foreach kind,$(SANITIZED),$(foreach name,pool paged guarded hush,build/stress-$(kind)/$(name)_stress))
comma := ,
sanitized = $(CXX) -std=c++20 -O1 -g -fsanitize=$(subst +,$(comma),$1)
define stress_of
build/stress-$1/%.o: native/%.cpp
	@mkdir -p $$(@D)
	$$(call sanitized,$1) -DFOREBAY_CHECKS=1 -Inative -MMD -MP -c $$< -o $$@
build/stress-$1/%_stress.o: tests/native/%_stress.cpp
	@mkdir -p $$(@D)
	$$(call sanitized,$1) -DFOREBAY_CHECKS=1 -Inative -Itests/native -MMD -MP -c $$< -o $$@
.PRECIOUS: build/stress-$1/%.o build/stress-$1/%_stress.o
build/stress-$1/%_stress: build/stress-$1/%_stress.o $(POOL:%=build/stress-$1/%.o)
	$$(call sanitized,$1) $$^ -o $$@ -pthread
endef
$(foreach kind,$(SANITIZED),$(eval $(call stress_of,$(kind))))
-include $(foreach kind,$(SANITIZED),$(POOL:%=build/stress-$(kind)/%.d) $(patsubst %,build/stress-$(kind)/%_stress.d,pool paged guarded hush))

# Operations, then a seed; the pool in each way to grow. One that looks at every byte that it watches gets a tenth of them.
stressed = set -e; for run in pool:segments pool:frames pool:mixed paged: guarded:segments guarded:frames guarded:pinned hush:; do name=$${run%%:*} growth=$${run\#\#*:}; \
  count=$1; if [ $$name = guarded ]; then count=$$(($1 / 10)); fi; \
  build/stress-address+undefined/$${name}_stress $$count 1 $2 $$growth; build/stress-thread/$${name}_stress $$count 8 $2 $$growth; done
# As many jobs as there are cores, unless whoever called make said how many.
JOBS = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 2))
.PHONY: stress stress-short stress-programs
stress-programs: $(STRESS)
stress: $(BIN)/.test ## 10^7 random operations on each native pool, under sanitizers; ten minutes of threads, finalisers and forks
	@$(MAKE) --no-print-directory $(JOBS) stress-programs
	$(call stressed,10000000,1)
	$(BIN)/python tests/storm.py 600 1
stress-short:
	@$(MAKE) --no-print-directory $(JOBS) stress-programs
	$(call stressed,100000,2)

# Broken inputs of every reader; the native ones also under sanitizers, from the same sound snapshots.
build/stress-address+undefined/ingest_fuzz: tests/native/ingest_fuzz.cpp $(wildcard native/ingest/*.[ch]pp native/emulate/h*.[ch]pp native/emulate/sizes.[ch]pp)
	@mkdir -p $(@D)
	$(call sanitized,address+undefined) -I$(CURDIR)/native $(filter %.cpp,$^) -o $@
.PHONY: fuzz
fuzz: $(BIN)/.test build/stress-address+undefined/ingest_fuzz ## 100,000 broken inputs for each reader; half an hour
	set -e; for reader in $$($(BIN)/python tests/fuzz.py readers); do $(BIN)/python tests/fuzz.py $$reader 100000 1; done
	$(BIN)/python tests/fuzz.py snapshots build/fuzz
	build/stress-address+undefined/ingest_fuzz 100000 1 build/fuzz/*.pickle

.PHONY: stubs
stubs: $(BIN)/.built ## write the golden stubs of the native modules again
	$(BIN)/python -m nanobind.stubgen -q -r -m forebay._core -O src/forebay

.PHONY: docs
docs: $(BIN)/.built ## write docs/reference/ and the shipped JSON Schemas again, from the code
	$(BIN)/python tools/generated.py

.PHONY: bench
bench: $(BIN)/.test ## every benchmark beside its peers; figures of one run, as ratios
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file; done

.PHONY: test-gpu bench-gpu
test-gpu: ## what only a GPU can show: needs one, CMake, ninja, nanobind, scikit-build-core and pytest; fetches nothing
	$(PYTHON) tests/gpu/run.py
bench-gpu: ## the guide's numbers, all allocators and PyTorch's workloads on a GPU; builds and needs what test-gpu does
	$(PYTHON) benchmarks/gpu/run.py
