# Two commands for newcomers: `make demo` and `make test`. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-slow test-peers test-sb3 test-ray test-browser lint format bench docs clean

help:
	@echo "make demo    set up, then go the whole way on a small bundled log, in about five minutes"
	@echo "make test    set up, then run the tests"
	@echo "make lint    ruff and pyright"
	@echo "make bench   the benchmarks, as JSON"
	@echo "make docs    build the documentation site"

.venv/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch .venv/core $@

demo: .venv/core
	$(BIN)/actionless demo --overwrite

test: .venv/dev
	$(BIN)/python -m pytest -n 2

test-slow: .venv/dev
	$(BIN)/python -m pytest -n 2 -m slow

# rliable's dependencies break with pandas 3. Of this package the module under test needs NumPy and jaxtyping alone.
.venv-peers/ready: Makefile
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check rliable==1.2.0 'pandas<3' 'jaxtyping>=0.3' 'pytest>=8.3'
	touch $@

test-peers: .venv-peers/ready
	PYTHONPATH=src .venv-peers/bin/python -m pytest --noconftest -m peer tests/analysis/test_statistics.py

# Needs a Chromium on the path or in CHROMIUM. Playwright drives it; no other test needs its 160 MB.
.venv/browser: .venv/dev
	$(BIN)/pip install --quiet --disable-pip-version-check 'playwright>=1.50'
	touch $@

test-browser: .venv/browser
	$(BIN)/python -m pytest -m browser tests/reporting

# PyTorch stays out of .venv: nothing but the adapter needs it. Its version is pinned so that one build is tested; threads
# that wait for each other make small networks slow.
.venv-sb3/ready: Makefile pyproject.toml
	test -x .venv-sb3/bin/python || $(PYTHON) -m venv .venv-sb3
	.venv-sb3/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 -e '.[sb3]' \
	  'beartype>=0.20' 'hypothesis>=6.100' 'pytest>=8.3'
	touch $@

test-sb3: .venv-sb3/ready
	OMP_NUM_THREADS=1 .venv-sb3/bin/python -m pytest tests/guidance/test_sb3.py tests/guidance/test_sb3_relabel.py
	OMP_NUM_THREADS=1 .venv-sb3/bin/python -m pytest tests/test_documentation.py -k guide-your-agent

# Ray stays out of .venv too. Its nodes are processes of this machine; the tests ask for one thread for each job.
.venv-ray/ready: Makefile pyproject.toml
	test -x .venv-ray/bin/python || $(PYTHON) -m venv .venv-ray
	.venv-ray/bin/pip install --quiet --disable-pip-version-check -e '.[ray]' \
	  'beartype>=0.20' 'hypothesis>=6.100' 'pytest>=8.3'
	touch $@

test-ray: .venv-ray/ready
	NPROC=1 OMP_NUM_THREADS=1 .venv-ray/bin/python -m pytest tests/execution/test_ray.py

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/dev
	$(BIN)/python -m benchmarks

docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv .venv-peers .venv-sb3 .venv-ray site .pytest_cache .ruff_cache .hypothesis
