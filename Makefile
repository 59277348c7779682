# Options for it: make serve ARGS="--devices 2 --hardware elmoe3d-4gb"
ARGS ?=
# Everything runs in .venv; tools/venv.sh finds the right build of vLLM and torch for this machine.
VENV := .venv
STAMP := $(VENV)/.ready
# One runs the tests of real servers, one at a time, and the other one meanwhile the rest (tests/conftest.py).
ON_TWO := --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: demo serve venv test test-all vllm-tests soak lint prometheus frontend bench model measured protos dashboards clean

demo: $(STAMP)
	$(VENV)/bin/foreserve demo $(ARGS)

serve: $(STAMP)
	$(VENV)/bin/foreserve serve $(ARGS)

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt tools/venv.sh tools/excludes-cpu.txt
	bash tools/venv.sh $(VENV)
	touch $@

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# Examples of properties are the same each time.
test: lint prometheus
	$(VENV)/bin/pytest -m "not slow" $(ON_TWO)

# ... and here others each time. What failed lies in .hypothesis, and is tried first the next time.
test-all: lint prometheus
	$(VENV)/bin/pytest $(ON_TWO) --hypothesis-profile=random
	$(VENV)/bin/python tools/vllm_tests/run.py

# vLLM's own tests of its API, out of its source distribution, against `foreserve serve`. What is left out, or fails, and
# why: tools/vllm_tests/known.toml. Some of them: make vllm-tests ARGS=tests/entrypoints/openai/completion/test_completion.py
vllm-tests: $(STAMP)
	$(VENV)/bin/python tools/vllm_tests/run.py $(ARGS)

# What is attacked, beside seeded streams whose text must stay the same: some ten minutes on two quiet cores. For the
# whole of it: make soak FUZZ="--http 10000 --grpc 5000" HITS="--hits 200" MINUTES=30
FUZZ ?= --http 2000 --grpc 3000
HITS ?= --hits 40 --seconds 150
MINUTES ?= 2
soak: $(STAMP)
	$(VENV)/bin/python -m tests.soak.fuzz $(FUZZ)
	$(VENV)/bin/python -m tests.soak.poison
	$(VENV)/bin/python -m tests.soak.overload --seconds 60
	$(VENV)/bin/python -m tests.soak.chaos $(HITS) --standby-sources 1
	$(VENV)/bin/python -m tests.soak.recovery --kills 3
	$(VENV)/bin/python -m tests.soak.soak --minutes $(MINUTES)

# For the tests of dashboards and alerts. Where there is no apt, they are skipped.
prometheus: $(STAMP)
	bash tools/prometheus.sh $(VENV)

# vllm-rs, for `serve --front-end vllm-rs`, which the package for CPUs lacks.
frontend: $(STAMP)
	bash tools/frontend.sh $(VENV)

bench: $(STAMP)
	$(VENV)/bin/foreserve bench

# Trains serving/bundled/foreserve-moe afresh, the same weights on each CPU of one type. Memory that a step frees is kept
# for the next one, from which training is a twelfth faster.
KEEP_MEMORY := MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=8589934592
model: $(STAMP)
	$(KEEP_MEMORY) $(VENV)/bin/foreserve train-bundled

# Whatever is made with its weights, again: answers, routes, the picture of their locality, accepted drafts and their rates.
BUNDLED := serving/bundled/foreserve-moe
measured: $(STAMP)
	$(VENV)/bin/foreserve record
	$(VENV)/bin/foreserve locality --prompts 48 --tokens 96 --record $(BUNDLED)/routes.npz
	$(VENV)/bin/foreserve locality --out $(BUNDLED)/locality
	$(VENV)/bin/foreserve speculate --out $(BUNDLED)/speculation --date $$(date -I)
	cp $(BUNDLED)/speculation/rates.csv device_model/specs/acceptance/foreserve-moe.csv

# Generated from protos/ and committed, so that a user needs no compiler; a test checks that they match.
protos: $(STAMP)
	$(VENV)/bin/python tools/protos.py

# Generated from tools/dashboards and committed; a test checks that they match.
dashboards: $(STAMP)
	$(VENV)/bin/python -m tools.dashboards deploy/grafana/dashboards

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
