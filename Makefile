# The course's commands. Each one installs first, where something has changed.
PYTHON ?= python3
WORKERS ?= 2
STUDENTS ?= 20
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo test quick lab progress lessons check install lock doctor bench kill-matrix docs wheel

help:
	@echo "make demo         grade a class and train a translator, to see all of it work (under ten minutes)"
	@echo "make lab          JupyterLab on the lessons, with how far you have come"
	@echo "make progress     how far you have come, in the terminal"
	@echo "make test         all that CI runs: check, then the tests"
	@echo "make quick        the fast tests only (under three minutes)"
	@echo "make check        format, lint, types, and that lessons/ is what solutions/ gives"
	@echo "make lessons      build lessons/ from solutions/"
	@echo "make doctor       what confines students' code here when it is graded, and whether grading works"
	@echo "make bench        how long checks, lessons and grading take here (over an hour; STUDENTS=5 is less)"
	@echo "make kill-matrix  rewrite tests/checks/kill_matrix.toml"
	@echo "make docs         the documentation site, with all lessons executed, in docs/_build/html (about ten minutes)"
	@echo "make wheel        the wheel, in dist, tried in an empty environment (about five minutes)"
	@echo "make lock         choose exact versions anew, from pyproject.toml"

install: .venv/installed

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "The course needs Python 3.11 or later, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the versions in requirements.lock into .venv ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

demo: install
	course demo

lab: install
	course lab

progress: install
	course progress

lessons: install
	course build

check: install
	ruff check .
	ruff format --check .
	mypy
	course check

test: check
	pytest --numprocesses=$(WORKERS) --dist=worksteal
	python -m tests.checks.totals

quick: install
	pytest --numprocesses=$(WORKERS) --dist=worksteal -q -m "not (slow or browser or slurm or postgres or sandbox)"

doctor: install
	course doctor

bench: install
	python -m tests.benchmarks.checks
	python -m tests.benchmarks.battery
	python -m tests.benchmarks.lessons
	python -m tests.benchmarks.training
	python -m tests.benchmarks.decoding
	python -m tests.benchmarks.grading --students $(STUDENTS)

docs: install
	python docs/lessons.py
	sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

wheel: install
	.ci/wheel.sh

kill-matrix: install
	python -m tests.checks.kill_matrix

lock: install
	.ci/lock.sh
