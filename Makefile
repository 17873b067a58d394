# The course's commands. Each one first updates the installation if the requirements have changed.
PYTHON ?= python3
# One more than CI's two cores, because many tests wait for other processes.
WORKERS ?= 3
STUDENTS ?= 20
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Some containers set this variable. Without bytecode, each process that a test starts compiles the course again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test nightly quick lab progress lessons check install lock doctor bench kill-matrix docs wheel

help:
	@echo "make demo         grade an example class and train a translator (under ten minutes)"
	@echo "make lab          open the lessons in JupyterLab, with a start page that shows your progress"
	@echo "make progress     show your progress in the terminal"
	@echo "make test         run make check, then the tests (about 20 minutes)"
	@echo "make nightly      run the tests that repeat others with more cases or on whole services"
	@echo "make quick        run the fast tests only (about three minutes)"
	@echo "make check        check format, lint and types, and run course check, which runs all lessons"
	@echo "make lessons      build lessons/ from solutions/"
	@echo "make doctor       test how students' code is confined on this machine, and whether grading works"
	@echo "make bench        measure checks, lessons, training and grading (over an hour; STUDENTS=5 takes less)"
	@echo "make kill-matrix  rewrite tests/checks/kill_matrix.toml"
	@echo "make docs         build the documentation, with all lessons executed, in docs/_build/html (about ten minutes)"
	@echo "make wheel        build the wheel in dist/, and test it in an empty environment (about five minutes)"
	@echo "make lock         update the exact versions in requirements.lock from pyproject.toml"

install: .venv/installed

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "The course needs Python 3.11 or later, and $(PYTHON) is " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing the versions in requirements.lock into .venv ..."
	@# Without resolving dependencies, pip is faster. The second command adds those that the lock doesn't
	@# list, such as CUDA, and pip would compile all packages on a single core.
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps --requirement requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --requirement requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@$(BIN)/python -m compileall -qq -j 0 $(BIN)/../lib || true
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
	@# mypy uses a single core, so run it while the lessons start.
	@echo 'course check, and at the same time mypy'; mypy & types=$$!; course check; lessons=$$?; \
	wait $$types && exit $$lessons

test: check
	pytest --numprocesses=$(WORKERS) --dist=worksteal -m "not nightly"
	python -m tests.checks.totals

nightly: install
	pytest --numprocesses=$(WORKERS) --dist=worksteal -m nightly

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
