# Start, test and measure the control plane. `make help` lists what there is.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SGLANG := sglang==0.5.23

# The first interpreter that is new enough; `make PYTHON=/path/to/python run` chooses another.
PYTHON ?= $(shell for candidate in python3 python3.11 python3.12 python3.13 python3.14; do \
	if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$candidate; break; fi; done)

# An installation is done once for what these files say.
WANTED := $(shell cat pyproject.toml requirements.txt tests/compat/requirements.txt Makefile | cksum | tr ' ' '-')
SERVER := $(VENV)/.server-$(WANTED)
EVERYTHING := $(VENV)/.everything-$(WANTED)

PYTEST := $(BIN)/python -m pytest
TESTS ?= tests
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run demo demo-chaos test screens soak bench lint format compat-pythons packages clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

run: $(if $(wildcard $(EVERYTHING)),,$(SERVER)) ## Install what the server needs (once), then start everything
	@exec $(BIN)/python manage.py up --end-with-parent

DEMO = exec $(BIN)/python -m demo --end-with-parent $(if $(PORTS),--ports $(PORTS)) $(if $(DURATION),--seconds $(DURATION))

demo: $(EVERYTHING) ## Install everything (once), then a whole fleet on this machine, to look at (PORTS=first DURATION=seconds)
	@$(DEMO) $(ARGS)

demo-chaos: $(EVERYTHING) ## The same, and things are broken and mended while the pages say so (DURATION=300 SEED=0)
	@$(DEMO) --chaos $(if $(SEED),--seed $(SEED)) $(ARGS)

test: $(EVERYTHING) packages ## Install everything (once), then run all tests but soak and bench (TESTS=path ARGS=…)
	$(PYTEST) $(TESTS) -m "not soak and not bench" -n 2 --dist loadfile $(ARGS)

screens: $(EVERYTHING) packages ## Take the screenshots in docs/screens anew
	SCREENS=1 $(PYTEST) tests/browser tests/demo $(ARGS)

soak: $(EVERYTHING) packages ## The long versions of crash, chaos and load tests, without a time limit
	$(PYTEST) $(TESTS) -m soak --timeout=0 $(ARGS)

bench: $(EVERYTHING) packages ## Measure against the real SGLang servers (QUICK=1: within 5 minutes)
	QUICK=$(QUICK) $(BIN)/python -m tests.bench

lint: $(EVERYTHING) ## ruff, mypy, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(EVERYTHING) ## Let ruff format and sort imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

compat-pythons: $(EVERYTHING) ## Install and import the server on Python 3.12 and 3.13, where those are found
	$(PYTEST) tests/architecture/test_other_pythons.py --timeout=600 -rs $(ARGS)

packages: ## Debian packages of the tests: install them where allowed, else name them
	@.ci/packages

clean: ## Remove caches, builds and the environment (data in var/ stays)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or newer is needed; install it, or run make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(SERVER): | $(BIN)/python
	@echo "Installing the server into $(VENV) (once) …"
	@$(PIP) -c requirements.txt -e '.[server]'
	@rm -f $(VENV)/.server-*
	@touch $@

$(EVERYTHING): | $(BIN)/python
	@echo "Installing everything into $(VENV) (once; torch is large) …"
	@$(PIP) -r requirements.txt -r tests/compat/requirements.txt
	@$(PIP) --no-deps $(SGLANG)
	@$(PIP) --no-deps -e .
	@rm -f $(VENV)/.everything-*
	@touch $@
