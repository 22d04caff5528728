# `make run`: environment, install, the digits study. `make test`: environment, install, static checks, tests, doctests.
# `make coverage`: the tests once more, with the lines and branches that they reach; that takes half as long again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test types tests tables tables-check nightly coverage test-matrix audit docs release format clean

run: $(VENV)/installed
	$(BIN)/majority study digits --methods count,soft-count,count-only,log-mean,adjusted-mean,vote,naive --recipe quick --out runs/digits

test: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --no-print-directory tables-check
	$(MAKE) --no-print-directory -j 2 types tests

types: $(VENV)/installed-dev
	$(BIN)/lint-imports
	$(BIN)/mypy

# Compiled test modules are kept, whatever the environment says: to compile all of them takes each process ten seconds.
tests: $(VENV)/installed-dev
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal

coverage: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal --cov --cov-report=term --cov-fail-under=92

# The tables of the README and of docs/ from raw files and from the program; a figure without a source is an error.
tables: $(VENV)/installed-dev
	$(BIN)/python benchmarks/pages.py
	$(BIN)/python scripts/reference.py

tables-check: $(VENV)/installed-dev
	$(BIN)/python benchmarks/pages.py --check
	$(BIN)/python scripts/reference.py --check

# Wheel and sdist of a clean clone, checked and tried in an empty environment; all but the upload.
release:
	scripts/release.sh

# Damaged files, faults at many writes, and the cases of which `make test` runs a sample.
nightly: $(VENV)/installed-dev
	$(BIN)/pip install --quiet -c constraints.txt lightning
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal -m nightly tests

# Python 3.11 to 3.13 and the lowest declared versions; `scripts/test_matrix.sh 3.12` runs one of them.
test-matrix:
	scripts/test_matrix.sh

# Known vulnerabilities of the pinned packages; needs the network. A package that cannot be looked up is an error.
audit: .audit/installed
	.audit/bin/pip-audit -r constraints.txt --no-deps --disable-pip --strict

.audit/installed:
	$(PYTHON) -m venv .audit
	.audit/bin/pip install --quiet pip-audit
	touch $@

# The site, in site/: warnings, broken links and missing anchors are errors.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(VENV)/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet -c constraints.txt -e ".[docs]"
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) runs build dist site .matrix .audit .mypy_cache .ruff_cache .coverage* src/*.egg-info
