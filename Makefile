# Commands of specdeck. `make bench` compares the arms of a recipe; `make test` and `make lint` check this repository.
# Everything is set up on demand; relative paths only, so that any working directory will do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
BASE_URL ?=
RECIPE ?= $(if $(BASE_URL),,tiny-next-cpu)
PLAN ?= mtp-vs-dflash2
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.harness: requirements.lock pyproject.toml tools/setup.sh
	@tools/setup.sh harness "$(PYTHON)"

$(VENV)/.dev: $(VENV)/.harness requirements-dev.lock
	@tools/setup.sh dev "$(PYTHON)"

# Whether this machine can run the CPU engine is asked before anything is downloaded for it.
.PHONY: host
host:
	@tools/setup.sh host "$(PYTHON)"

.PHONY: bench
bench: $(if $(BASE_URL),,$(if $(filter tiny-next-cpu,$(RECIPE)),host)) $(VENV)/.harness ## Compare the arms of RECIPE by PLAN (or a running server: BASE_URL=http://…)
	@$(PY) -m specdeck bench $(if $(RECIPE),"$(RECIPE)") --plan "$(PLAN)" \
	  $(foreach url,$(BASE_URL),--base-url "$(url)") $(ARGS)

.PHONY: test
test: host $(VENV)/.dev ## Run all tests, those on a real vLLM included
	@$(PY) -m specdeck engine setup
	@.venv-engine/bin/python -m pytest -q engines/cpu/tests
	@$(PY) -m pytest -m "not long" $(ARGS)

.PHONY: test-long
test-long: host $(VENV)/.dev ## Run the tests that build images and damage checkpoints: many minutes, on an idle machine
	@$(PY) -m specdeck engine setup
	@$(PY) -m pytest -m long $(ARGS)

.PHONY: lint
lint: $(VENV)/.dev ## ruff, mypy --strict, shellcheck, yamllint, hadolint, generated files current
	@tools/lint.sh

.PHONY: check-tables
check-tables: $(VENV)/.harness ## Whether the tables of README and docs say what the result files say
	@$(PY) -m specdeck tables --check

.PHONY: ci-local
ci-local: host $(VENV)/.harness ## The regression check of .github/workflows on the CPU pair: an A/A passes, damage is caught
	@tools/ci_local.sh

.PHONY: perf
perf: $(VENV)/.harness ## Measure the load generator against `vllm bench serve`; writes docs/performance.md
	@$(PY) bench/perf/run.py $(ARGS)

.PHONY: perf-report
perf-report: $(VENV)/.harness ## Measure what reports and comparisons of up to a million requests cost
	@$(PY) bench/perf/report.py $(ARGS)

.PHONY: perf-storage
perf-storage: $(VENV)/.dev ## Measure what an archive of up to a million cells costs; writes bench/perf/storage.json
	@$(PY) bench/perf/storage.py $(ARGS)
	@$(PY) -m specdeck tables

.PHONY: lock
lock: ## Resolve the harness lock files again (needs uv)
	@tools/lock.sh

.PHONY: clean
clean: ## Remove both environments and caches (results stay)
	rm -rf .venv .venv-engine .cache .mypy_cache .ruff_cache .pytest_cache
