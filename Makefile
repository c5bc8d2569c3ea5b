# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
# PYTHON chooses the interpreter (3.10 or newer) from which .venv is made.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test docs notebooks lint format clean

demo: $(VENV)/.plots
	$(BIN)/pnca demo

# One torch thread a worker: two workers with two threads each would wait for each other.
test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto

# A warning is an error; nothing is fetched, neither now nor by a reader's browser.
docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/site
	@echo "build/site/index.html"

# Run the examples that have a notebook, and write it with its outputs.
notebooks: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python docs/make_notebooks.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One stamp file an extra: reinstalled when the requirements change, and only then.
$(VENV)/.%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing pnca[$*] into $(VENV) (torch is large: this takes a few minutes the first time)"
	$(PIP) --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "pnca needs Python 3.10 or newer; use  make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) build/site docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
