# The list of tasks. Each one works alone on a fresh checkout: it makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLUSTER := .venv-distributed
OLDEST := .venv-oldest
CHROMIUM ?= chromium
NEW ?= .
ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

BENCHMARKS := bayesian complete defaults dynamics factor-analysis first-calls forecasts intervals memory missing mixtures \
	robust selection small standard-errors streams
BENCH_TARGETS := $(BENCHMARKS:%=bench-%)

.PHONY: help demo test test-oldest test-distributed test-browser announce-browser screenshots test-adversarial lint \
	types format docs pictures console $(BENCH_TARGETS) bench-engines bench-quick bench-compare clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

demo: $(VENV)/demo  ## fit, look, fill gaps and find outliers in a real table, and show what is printed
	@$(BIN)/probpca demo

test: $(VENV)/test  ## run the test suite
	$(BIN)/python -m pytest -n auto

test-oldest: $(OLDEST)/ready  ## run the test suite with the oldest packages that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest -n auto

test-distributed: $(CLUSTER)/ready  ## tests that need several processes or Java: Dask and Spark
	$(CLUSTER)/bin/python -m pytest tests/distributed

test-browser: announce-browser $(VENV)/browser  ## report and explorer in a real browser; installs chromium if there is none
	@command -v $(CHROMIUM) > /dev/null || { $(ROOT) apt-get update -qq && $(ROOT) apt-get install -y -qq chromium; } \
		|| { echo "test-browser needs a browser: apt-get install chromium, or CHROMIUM=/path/to/it"; exit 1; }
	CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest tests/browser

announce-browser:
	@test -e $(VENV)/browser || echo "Will install into $(VENV): the packages of the tests, and playwright."
	@command -v $(CHROMIUM) > /dev/null || { \
		echo "Will install on this system: chromium, by '$(strip $(ROOT) apt-get install chromium)'."; \
		echo "To use another browser instead, stop now (Ctrl-C) and run: make test-browser CHROMIUM=/path/to/it"; }

screenshots: $(VENV)/browser  ## pictures of report and explorer, light and dark, in a temporary folder
	CHROMIUM=$(CHROMIUM) $(BIN)/python tests/browser/screenshots.py

# Without a budget the cases are always the same; with one (BUDGET=600, in seconds) the seed is new, and printed.
test-adversarial: $(VENV)/test  ## awkward tables, hostile files, kills; BUDGET=600 for new ones, CASE=ppca:0:17 for one
	PYTHONPATH=tests $(BIN)/python -m adversarial $(if $(BUDGET),--budget $(BUDGET)) $(if $(SEED),--seed $(SEED)) \
		$(if $(CASE),--case $(CASE)) $(if $(WRITE_DOCS),--write-docs)

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

console: $(VENV)/test  ## run the commands shown in README and docs, and write what they print into the pages
	$(BIN)/python tests/console_examples.py README.md $$(grep -rl '^```console' docs --include='*.md')

pictures: $(VENV)/docs  ## draw the pictures of README and docs anew, into docs/images; the report needs chromium
	$(BIN)/python docs/pictures.py

# Every benchmark is benchmarks/NAME.py and runs as "make bench-NAME"; with QUICK=1 in about a minute, printed only.
$(BENCH_TARGETS): bench-%: $(VENV)/bench
	$(BIN)/python benchmarks/$(subst -,_,$*).py $(if $(QUICK),--quick)

bench-bayesian:  ## Bayesian PCA: intervals, errors, time; half an hour
bench-complete:  ## complete tables against scikit-learn; table and plot go to docs/benchmarks
bench-defaults:  ## the defaults: number of components, intervals, outliers; half an hour
bench-dynamics:  ## time series against statsmodels and dynamax; forecasts of real series
bench-factor-analysis:  ## factor analysis against scikit-learn, statsmodels, factor_analyzer and R; an hour
bench-first-calls:  ## what people call first: default calls and fits of text files, beside one fit; half an hour
bench-forecasts:  ## forecasts of real series beside exponential smoothing and autoregression; minutes
bench-intervals:  ## how often intervals of imputed cells contain the truth; minutes
bench-memory:  ## peak memory of fits and commands on files; minutes
bench-mixtures:  ## mixtures against ppca-rs and scikit-learn: time, density, intervals, number of clusters; an hour
bench-missing:  ## tables with missing cells against other libraries; hours
bench-robust:  ## fits that outliers cannot bend, beside scikit-learn and rrcov; ten minutes
bench-selection:  ## rules for the number of components against other libraries; minutes
bench-small:  ## overhead of a call on small tables against scikit-learn
bench-standard-errors:  ## how often intervals of loadings and variances contain the truth; ten minutes
bench-streams:  ## files larger than memory; minutes, and 5 GB of disk

bench-engines: $(CLUSTER)/ready  ## Dask workers against local threads
	$(CLUSTER)/bin/python benchmarks/engines.py $(if $(QUICK),--quick)

bench-quick: $(VENV)/bench  ## the quick cases of all benchmarks, one after the other
	$(BIN)/python benchmarks/quick.py

bench-compare: $(VENV)/bench  ## speed of two checkouts in turn: make bench-compare OLD=/path/to/one NEW=/path/to/another
	$(BIN)/python benchmarks/compare.py $(if $(QUICK),--quick) $(OLD) $(NEW)

clean:  ## forget the environment and everything that was built
	rm -rf $(VENV) $(CLUSTER) $(OLDEST) docs/_build docs/_figures docs/examples docs/reference/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade "pip>=25.1"
	@touch $@

$(CLUSTER)/ready: pyproject.toml  # pyspark wants an older pandas than the rest
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --editable . --group distributed
	@touch $@

# uv can choose the oldest versions, and pip cannot; but uv does not read where pip finds packages. A newer pyparsing warns
# of the names that matplotlib 3.9 uses, and warnings are errors.
$(OLDEST)/ready: pyproject.toml
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check uv
	configured() { $(OLDEST)/bin/python -m pip config list \
		| sed -nE "s/\\\\n/ /g; s/^(:env:|global)\.$$1='(.*)'$$/\2/p" | head -1; }; \
	UV_DEFAULT_INDEX=$$(configured index-url) UV_INDEX=$$(configured extra-index-url) \
	UV_FIND_LINKS=$$(configured find-links | tr -s ' ' ,) \
	$(OLDEST)/bin/uv pip install --quiet --python $(OLDEST) --resolution lowest-direct --index-strategy unsafe-best-match \
		--editable ".[cli]" --group test "pyparsing==3.2.*"
	@touch $@

$(VENV)/core: $(VENV)/pip pyproject.toml
	$(PIP) --editable .
	@touch $@

$(VENV)/%: $(VENV)/core
	$(PIP) --group $*
	@touch $@
