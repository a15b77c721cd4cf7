# Everything from a bare checkout: `make run` breaks a real cluster and judges it, `make test` is the gate.
# Both set up what is missing first, and skip that the second time. ARGS go to kafka-chaos.

PYTHON ?= python3
ARGS ?=
# The gate asks the same of each change; nights draw anew.
SEED ?= 7
OLD_KAFKA := 0.10.2.2
# Two files at a time, the longest first as their names happen to sort.
TWO_FILES := --numprocesses=2 --dist=loadfile --no-loadscope-reorder
BENCHES ?= segments verify verify-ops op-cycles verify-runs recording throughput faults start-up

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# A package index that hangs must not hang us; macOS has no `timeout`.
LIMIT := $(shell command -v timeout >/dev/null 2>&1 && echo timeout 1800)
# Clients and tests are hundreds of processes: where bytecode is forbidden, each compiles all it needs.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test quick night-test night-spark night-suites drawn mutants lint images unit clients spark stories suites benches contracts gallery doctor clean ready
.DELETE_ON_ERROR:

run: ready
	@$(BIN)/kafka-chaos run $(ARGS)

# The gate: whatever a change can break, on real clusters too.
test: ready
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target lint images clients
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit spark
	@$(MAKE) --no-print-directory suites

# While you work: no engine, no cluster, one Spark job that meets every checker.
quick: $(INSTALLED)
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target lint unit stories

# What takes minutes for one sentence, and what is drawn anew each time: before a release. A part that
# fails does not keep the others from being run.
night-test: ready
	@$(MAKE) --no-print-directory --keep-going --jobs=1 night-spark night-suites drawn mutants benches

night-spark: $(INSTALLED)
	@echo "== nightly: Spark and clients"
	@$(BIN)/pytest -m nightly --durations=12 tests/spark tests/clients

night-suites: $(INSTALLED)
	@echo "== nightly: suites"
	@$(BIN)/pytest -m nightly $(TWO_FILES) --durations=12 tests/suites

drawn: $(INSTALLED)
	@echo "== histories drawn anew, by the thousand"
	@DRAWN_HISTORIES=5000 DRAWN_SEED=$$(date +%s) \
	  $(BIN)/pytest --hypothesis-profile=night \
	  tests/unit tests/clients tests/spark/test_run_reference.py tests/spark/test_op_reference.py

mutants: $(INSTALLED)
	@echo "== dangerous lines, broken one at a time"
	@$(BIN)/python -m tests.mutants

unit: $(INSTALLED)
	@echo "== unit tests"
	@$(BIN)/pytest --quiet --numprocesses=2 --dist=worksteal tests/unit

# Most of their time is waiting for librdkafka: more of them than cores are run at once.
clients: $(INSTALLED)
	@echo "== clients, against librdkafka's mock cluster"
	@$(BIN)/pytest --quiet --numprocesses=4 --dist=worksteal tests/clients

# Each worker has one session; a file stays with its worker.
spark: $(INSTALLED)
	@echo "== Spark tests"
	@$(BIN)/pytest $(TWO_FILES) tests/spark

stories: $(INSTALLED)
	@echo "== every checker meets every story"
	@$(BIN)/pytest --quiet tests/spark/test_stories.py

# Of the Kafka of 2017: fetched and built beside something else, not while the suites wait for it.
images: $(INSTALLED)
	@$(BIN)/kafka-chaos doctor --fix --quick --kafka $(OLD_KAFKA)

suites: $(INSTALLED)
	@echo "== suites: real clusters, real faults"
	@$(BIN)/pytest $(TWO_FILES) --durations=12 --chaos-seed=$(SEED) tests/suites examples/test_orders_survive.py

benches: $(INSTALLED)
	@echo "== benches: each ends with 1 below its goal"
	@missed=; for bench in $(BENCHES); do \
	  echo "== $$bench"; $(BIN)/kafka-chaos bench $$bench || missed="$$missed $$bench"; \
	done; test -z "$$missed" || { echo "Not as it should be:$$missed" >&2; exit 1; }

lint: $(INSTALLED)
	@echo "== style, import direction, types"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports
	@$(BIN)/mypy

# What each contract permits, on paper; a test demands that it is up to date.
contracts: $(INSTALLED)
	@$(BIN)/python -m verifiers.checking.contracts docs/contracts.md

# The reports that docs/gallery shows, each of a real run: six minutes.
gallery: ready
	@rm -rf build/gallery
	@$(call picture,loss-with-acks-1,run leader_cut_and_kill --acks 1 --seed 11)
	@$(call picture,kip-101,claims run kip101-hw-truncation-loss --kafka $(OLD_KAFKA))
	@$(call picture,divergence,claims run kip101-divergence --kafka $(OLD_KAFKA))
	@$(call picture,green,run --seed 7)
	@$(call picture,unknown,run --faults partition --hold 1s-2s --rate 1 --producers 1 --duration 30s --seed 3)

# A report is that of the only run of its store; what the verdict is decides nothing here.
define picture
echo "== $(1)"; $(BIN)/kafka-chaos $(2) --store build/gallery/$(1) || true; \
  find build/gallery/$(1) -name report.html -exec cp {} docs/gallery/$(1).html \;
endef

doctor: $(INSTALLED)
	@$(BIN)/kafka-chaos doctor --fix $(ARGS)

ready: $(INSTALLED)
	@echo "== what a run needs: engine, images, agent, Java, Spark"
	@$(BIN)/kafka-chaos doctor --fix --quick

# Leftovers of runs, then what tools left here; run folders and the environment stay.
clean:
	@if [ -x $(BIN)/kafka-chaos ]; then $(BIN)/kafka-chaos clean --all; fi
	@rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@rm -rf spark-warehouse metastore_db derby.log

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or later is needed: name one with make PYTHON=…" >&2; exit 1; }
	@echo "== a virtual environment in $(VENV)"
	@# Debian ships Python without ensurepip, and says so only when it is wanted.
	@if ! $(PYTHON) -c 'import ensurepip' 2>/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing python3-venv"; \
	    $(LIMIT) apt-get update -q && DEBIAN_FRONTEND=noninteractive \
	      $(LIMIT) apt-get install -y -q --no-install-recommends python3-venv; \
	  else \
	    echo "Python cannot make environments: apt-get install python3-venv" >&2; exit 1; \
	  fi; \
	fi
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)

# Dependency groups are known to pip from 25.1 on.
$(INSTALLED): pyproject.toml | $(BIN)/python
	@echo "== Python packages (a minute the first time)"
	@$(LIMIT) $(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(LIMIT) $(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@
