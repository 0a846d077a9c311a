# SPDX-License-Identifier: Apache-2.0
# make demo              set up the environment, start robots in MuJoCo, show them in the browser
# make demo HEADLESS=1   the same without display: check and print the results, then exit
# make test              set up the environment, run all checks
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8080
WORKERS ?= auto

.PHONY: test-long test-noble test-aarch64 test-lerobot dying-listeners sweep fuzz chaos soak demo test setup setup-test lint types kernels unit pytest bench docs pictures format clean

demo: setup
	@$(BIN)/motion demo --port $(PORT) $(if $(filter-out 0,$(HEADLESS)),--headless)

test: setup-test
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint types kernels
	@$(MAKE) --no-print-directory pytest
	@echo "make test: all green"

setup:
	@$(PYTHON) tools/setup_environment.py

setup-test:
	@$(PYTHON) tools/setup_environment.py --test

lint: setup-test
	@echo "== ruff" && $(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup-test
	@echo "== mypy" && $(BIN)/mypy

# Compiled once, before parallel workers need the kernels.
kernels: setup-test
	@echo "== kernels" && $(BIN)/motion warm-up franka

unit: setup-test kernels
	@$(MAKE) --no-print-directory pytest

# Workers share the tests (test/shares.py); WORKERS=1 runs them sequentially. Tests marked "real_time"
# follow one at a time, as their loops and limits need an idle machine. Exit code 5: no tests.
pytest:
	@echo "== pytest" && failed=0; \
	$(BIN)/python -m pytest -n $(WORKERS) -m "not real_time and not long" $(PYTEST_ARGS) || [ $$? = 5 ] || failed=1; \
	echo "== pytest: real time"; \
	$(BIN)/python -m pytest -m "real_time and not long" $(PYTEST_ARGS) || [ $$? = 5 ] || failed=1; \
	exit $$failed

# Tests marked "long": more robots, scenes and seeds of other tests, long scenarios, whole pages of the docs.
test-long: setup-test kernels
	@$(BIN)/python -m pytest -n $(WORKERS) -m "long and not real_time" $(PYTEST_ARGS)
	@$(BIN)/python -m pytest -m "long and real_time" $(PYTEST_ARGS)

# The versions of Ubuntu 24.04 (requirements/noble.txt): every import, the core, the command, a node. With its Python,
# if there is one: make test-noble PYTHON=python3.12
NOBLE := build/noble/bin/python
NOBLE_TESTS ?= test/packaging/test_every_import.py test/model test/ik test/trajectory test/bases test/cli \
	test/ros/test_rotations.py test/ros/test_motion_node.py test/nodes/test_robot_state.py
test-noble:
	@test -x $(NOBLE) || $(PYTHON) -m venv build/noble
	@$(NOBLE) -m pip install -q --disable-pip-version-check -r requirements/noble.txt -r requirements/ros.txt \
		-r requirements/run.txt -r requirements/sim.txt -r requirements/viewer.txt \
		-r requirements/learn.txt -r requirements/policy.txt -r requirements/mcp.txt
	@$(NOBLE) -m pip install -q --disable-pip-version-check --no-deps \
		$$(grep -E '^(pin|libpinocchio|coal|libcoal|eigenpy|cmeel[a-z0-9-]*)==' requirements/constraints.txt)
	@$(NOBLE) -m motion_nodes.interface_build --install
	@$(NOBLE) -m pytest -q -W ignore::DeprecationWarning -m "not long and not real_time" $(NOBLE_TESTS)

# The library's tests, without ROS, on an emulated aarch64 (tools/test_aarch64.py). Hours; needs root.
# Some tests only: make test-aarch64 PYTEST_ARGS=test/ik
test-aarch64: setup-test
	@$(BIN)/python tools/test_aarch64.py $(PYTEST_ARGS)

# Invalid and extreme messages to all endpoints of a running suite (test/fuzz); limits, processes and
# responses are monitored. A failure prints how to reproduce it: make fuzz SEED=7 MESSAGES=20000
MESSAGES ?= 20000
fuzz: setup-test
	@PYTHONPATH=test $(BIN)/python -m fuzz --messages $(MESSAGES) $(if $(SEED),--seed $(SEED)) $(FUZZ_ARGS)

# Checks that a supervised suite stays reachable while DDS participants start and are killed.
LISTENERS ?= 1000
dying-listeners: setup-test
	@PYTHONPATH=test $(BIN)/python -m chaos.dying_listeners --listeners $(LISTENERS) $(LISTENER_ARGS)

# Faults of processes, disks, clocks and, with CHAOS_ARGS=--network, of the network in a running suite
# (test/chaos). To repeat one fault: make chaos SEED=7 FAULT=12
FAULTS ?= 100
chaos: setup-test
	@PYTHONPATH=test $(BIN)/python -m chaos --faults $(FAULTS) $(if $(SEED),--seed $(SEED)) \
		$(if $(FAULT),--fault $(FAULT)) $(CHAOS_ARGS)

# Random valid work; monitors the drift of memory, handles, threads and latencies (test/soak).
MINUTES ?= 120
soak: setup-test
	@PYTHONPATH=test $(BIN)/python -m soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(SOAK_ARGS)

# Tests of the LeRobot plugin with LeRobot, which needs Torch (gigabytes).
test-lerobot: setup-test
	@$(BIN)/python -m pip install -q --disable-pip-version-check --upgrade --target build/lerobot 'lerobot>=0.4'
	@PYTHONPATH=build/lerobot $(BIN)/python -m pytest -q test/integrations/test_with_lerobot.py

# Robots of other packages (benchmarks/sweep_packages.txt): imported and tested in simulation.
sweep: setup-test
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --upgrade \
		--target build/sweep -r benchmarks/sweep_packages.txt
	@$(BIN)/python benchmarks/bench_robot_sweep.py build/sweep $(SWEEP_ARGS)

# Short benchmarks without input files; a single one: make bench BENCH=suite
BENCH ?= kinematics ik rmpflow retiming stop control_loop start suite viewer
bench: setup-test
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c requirements/constraints.txt \
		-r requirements/bench.txt
	@for name in $(BENCH); do $(BIN)/python benchmarks/bench_$$name.py || exit 1; echo; done

# Documentation site, build/site/index.html; checks links and anchors.
docs: setup
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c requirements/constraints.txt \
		-r requirements/docs.txt
	@$(BIN)/python tools/build_site.py

# Updates the pictures of the docs: the page by its tests, running programs by a tool.
pictures: setup-test
	@MOTION_NODES_PICTURES=1 $(BIN)/python -m pytest -q test/browser
	@$(BIN)/python tools/take_pictures.py

format: setup-test
	@$(BIN)/ruff check --fix-only . && $(BIN)/ruff format .

clean:
	rm -rf .venv build dist install log *.egg-info
