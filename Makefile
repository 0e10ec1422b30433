# The list of tasks. Each one works alone on a fresh checkout: it makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLUSTER := .venv-distributed
CHROMIUM ?= chromium
NEW ?= .
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-distributed test-browser screenshots test-killed lint types format docs bench benchmissing benchstreams coverage choosing bench-defaults benchbayes standard-errors compare clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

demo: $(VENV)/demo  ## run every command on a real table and show what it prints
	@$(BIN)/probpca demo

test: $(VENV)/test  ## run the test suite
	$(BIN)/python -m pytest -n auto

test-distributed: $(CLUSTER)/ready  ## tests that need several processes or Java: Dask and Spark
	$(CLUSTER)/bin/python -m pytest tests/distributed

test-browser: $(VENV)/browser  ## report and explorer in a real browser; installs chromium if there is none
	@command -v $(CHROMIUM) > /dev/null || { $(ROOT) apt-get update -qq && $(ROOT) apt-get install -y -qq chromium; } \
		|| { echo "test-browser needs a browser: apt-get install chromium, or CHROMIUM=/path/to/it"; exit 1; }
	CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest tests/browser

screenshots: $(VENV)/browser  ## pictures of report and explorer, light and dark, in a temporary folder
	CHROMIUM=$(CHROMIUM) $(BIN)/python tests/browser/screenshots.py

test-killed: $(VENV)/test  ## kill a fit fifty times and see it end in the same place
	$(BIN)/python tests/kill_resume.py 50

lint: $(VENV)/lint  ## formatter, linter, spelling, repository conventions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/typos
	$(BIN)/sp-repo-review .

types: $(VENV)/types  ## static types of src
	$(BIN)/mypy

format: $(VENV)/lint  ## rewrite the code as the formatter wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/docs  ## build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/bench  ## measure against scikit-learn; table and plot go to docs/benchmarks
	$(BIN)/python benchmarks/complete.py

benchmissing: $(VENV)/bench  ## measure tables with missing cells beside other libraries; takes hours
	$(BIN)/python benchmarks/missing.py

benchstreams: $(VENV)/bench  ## measure files larger than memory; takes minutes, and 5 GB of disk
	$(BIN)/python benchmarks/streams.py

coverage: $(VENV)/bench  ## count how often intervals hold the truth; takes minutes
	$(BIN)/python benchmarks/intervals.py

choosing: $(VENV)/bench  ## criteria for the number of components beside other libraries; takes minutes
	$(BIN)/python benchmarks/selection.py

bench-defaults: $(VENV)/bench  ## judge the defaults: number of components, intervals, outliers; takes half an hour
	$(BIN)/python benchmarks/defaults.py

benchbayes: $(VENV)/bench  ## measure Bayesian PCA: intervals, errors, time; takes half an hour
	$(BIN)/python benchmarks/bayesian.py

standard-errors: $(VENV)/bench  ## count how often intervals of the model itself hold the truth; takes ten minutes
	$(BIN)/python benchmarks/standard_errors.py

compare: $(VENV)/bench  ## speed of two checkouts in turn: make compare OLD=/path/to/one NEW=/path/to/another
	$(BIN)/python benchmarks/compare.py $(OLD) $(NEW)

clean:  ## forget the environment and everything that was built
	rm -rf $(VENV) $(CLUSTER) docs/_build docs/_figures docs/examples docs/reference/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"
	@touch $@

$(CLUSTER)/ready: pyproject.toml  # pyspark wants an older pandas than the rest
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --editable . --group distributed
	@touch $@

$(VENV)/core: $(VENV)/pip pyproject.toml
	$(PIP) --editable .
	@touch $@

$(VENV)/%: $(VENV)/core
	$(PIP) --group $*
	@touch $@
