# Needs Python 3.11 or newer (with venv and pip) and make; everything else goes into .venv.
#   make demo     the whole road, from a crash to a guarded fix, on an example
#   make test     the quick tests; ARGS="-k name" for some of them
#   make check    everything that must hold before a change goes in
#   make test-adapters    the libraries that adapters hook into; TARGETS="openai mcp" for some of them

PYTHON ?= python3
ARGS ?=
TARGETS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: demo test slow test-adapters coverage bench lint format types changelog check clean
.DELETE_ON_ERROR:

demo: .venv/.package
	@$(BIN)/stepfork demo

test: .venv/.test
	@$(BIN)/python -m pytest -n 2 -m "not slow" --hypothesis-profile=quick $(ARGS)

slow: .venv/.test .venv/.lint
	@$(BIN)/python -m pytest -n 2 -m slow $(ARGS)

# Each library in an environment of its own; they are set up the first time, which takes some minutes.
test-adapters:
	@$(PYTHON) tests/adapters/everywhere.py $(TARGETS) -- $(ARGS)

# All tests, so that the figure means something; pytest's closing line is shown again below the table.
coverage: .venv/.test .venv/.lint
	@rm -f .coverage .coverage.*
	@log=$$(mktemp); trap 'rm -f "$$log" "$$log.code"' EXIT; \
	  { $(BIN)/python -m coverage run -m pytest -n 2 $(ARGS) 2>&1; echo $$? >"$$log.code"; } | tee "$$log"; \
	  $(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report || exit 1; \
	  tail -n 1 "$$log"; exit "$$(cat "$$log.code")"

# What recording costs, as ratios of figures taken side by side; a few minutes.
bench: .venv-bench/.ready
	@.venv-bench/bin/python -m benchmarks

lint: .venv/.lint
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

format: .venv/.lint
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

types: .venv/.test .venv/.lint
	@$(BIN)/python -m mypy
	@$(BIN)/python -m pyright

# That every fragment in changelog.d can become a part of the next release's notes.
changelog: .venv/.lint
	@$(BIN)/python -m towncrier build --draft --version next >/dev/null

check: test lint types changelog coverage

clean:
	@rm -rf .venv .venv-bench .venv-adapters .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps: each is newer than pyproject.toml once its part is installed.
.venv/.package: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stepfork needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	@echo "setting up .venv"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv
	@$(PIP) install --upgrade pip
	@$(PIP) install --editable '.[pytest]'
	@touch $@

.venv/.test: .venv/.package
	@echo "installing what the tests need"
	@$(PIP) install --group test
	@touch $@

.venv-bench/.ready: pyproject.toml
	@$(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip --quiet --disable-pip-version-check install --upgrade pip
	@.venv-bench/bin/python -m pip --quiet --disable-pip-version-check install --editable . --group bench
	@touch $@

.venv-adapters/%/.ready: pyproject.toml
	@echo "setting up .venv-adapters/$*"
	@$(PYTHON) -m venv .venv-adapters/$*
	@.venv-adapters/$*/bin/python -m pip --quiet --disable-pip-version-check install --upgrade pip
	@.venv-adapters/$*/bin/python -m pip --quiet --disable-pip-version-check install --editable '.[pytest]' --group adapters-$*
	@touch $@

.venv/.lint: .venv/.package
	@echo "installing the linters"
	@$(PIP) install --group lint
	@touch $@
