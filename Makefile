# Everything sets itself up: Python 3.11+, make and git are enough.
PYTHON ?= python3
CORES ?= 2
# what `make report` makes, and the CPU minutes from which it wants RUN=1
SCALE ?= demo
MINUTES := 10
RUN ?=
# options of `make bench`: for training, for attacks, for steps under defenses and for those of HyperFL
BENCH ?=
# options of `make chaos`: --quick, --faults N, --seed N
CHAOS ?=
# options of `make mutants`: --quick, --mutants N, --seed N, --minutes N
MUTANTS ?=
ATTACKS ?= $(filter --quick,$(BENCH))
DEFENSES ?= $(filter --quick,$(BENCH))
ALGORITHMS ?= $(filter --quick,$(BENCH))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SNAKEMAKE := $(BIN)/snakemake --cores $(CORES)

# the installation compiles nothing: a process that may not keep what it compiles on import compiles torch each time
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-browser test-flower test-s3 test-slurm check lint report share docs bench chaos controls mutants clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY) ## make the virtual environment .venv from the hashed lock

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) .ci/before_setup.py $(VENV)
	@echo "setting up $(VENV) (some minutes, once)"
	@echo "1 of 3: an empty environment"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python .ci/install_lock.py requirements.lock
	@echo "3 of 3: leaklab itself"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m leaklab.models.lanes.library
	@touch $@

demo: $(READY) ## the whole chain on embedded data; prints where the report is
	@$(SNAKEMAKE) -- demo
	@$(BIN)/leaklab report --scale demo

test: $(READY) lint ## all checks and tests, with the demo end to end
	@$(BIN)/python -m pytest --numprocesses auto --dist loadscope

# a second environment over the first: botocore wants an older python-dateutil
test-s3: $(READY) ## a DVC remote in S3, on a local server
	@$(BIN)/python -m venv $(VENV)/s3
	@$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
		> $$($(VENV)/s3/bin/python -c 'import site; print(site.getsitepackages()[0])')/leaklab.pth
	@$(VENV)/s3/bin/python -m pip install --quiet --disable-pip-version-check -r tests/workflow/s3.txt
	@$(VENV)/s3/bin/python -m pytest tests/workflow/test_s3.py

# a second environment over the first: Flower's simulation brings some 40 packages that nothing else needs
test-flower: $(READY) ## the recorder in real Flower simulations
	@$(BIN)/python -m venv $(VENV)/flower
	@$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
		> $$($(VENV)/flower/bin/python -c 'import site; print(site.getsitepackages()[0])')/leaklab.pth
	@$(VENV)/flower/bin/python -m pip install --quiet --disable-pip-version-check 'leaklab[flower]'
	@$(VENV)/flower/bin/python -m pytest tests/flower

# a second environment over the first: Playwright and axe, which nothing else needs; the browser is the system's
test-browser: $(READY) ## the report's pages in the system's Chromium
	@$(BIN)/python -m venv $(VENV)/browser
	@$(BIN)/python -c 'import site; print(f"import site; site.addsitedir({site.getsitepackages()[0]!r})")' \
		> $$($(VENV)/browser/bin/python -c 'import site; print(site.getsitepackages()[0])')/leaklab.pth
	@$(VENV)/browser/bin/python -m pip install --quiet --disable-pip-version-check 'leaklab[browser]'
	@$(VENV)/browser/bin/python -m pytest tests/browser

test-slurm: $(READY) ## a campaign that meets all faults of a cluster, on a real Slurm
	@LEAKLAB_SLURM_FAULTS=1 $(BIN)/python -m pytest tests/workflow/test_slurm_faults.py

lint: $(READY) ## style, types, architecture, workflow
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/snakefmt --check Snakefile workflow
	@$(BIN)/snakemake --lint

report: $(READY) ## run what a scale lacks, then print its report: make report SCALE=small RUN=1
ifneq ($(RUN),1)
	@$(BIN)/leaklab plan --scale $(SCALE) --stop-above $(MINUTES) || { echo "make report SCALE=$(SCALE) RUN=1 starts it; \
	leaklab report --scale small shows the published results and runs nothing" >&2; exit 1; }
endif
	@$(SNAKEMAKE) -- $(SCALE)
	@$(BIN)/leaklab report --scale $(SCALE)

publish: $(READY) ## judge and show the results that are here, run nothing: make publish SCALE=small
	@$(SNAKEMAKE) --allowed-rules judge_claims publish_runs publish_threat_models \
		--forcerun judge_claims publish_runs publish_threat_models \
		-- results/$(SCALE)/comparison.csv results/$(SCALE)/costs.csv results/$(SCALE)/threat-models.csv
	@$(BIN)/leaklab pack --scale $(SCALE)
	@$(BIN)/leaklab findings --scale $(SCALE)
	@[ $(SCALE) != small ] || $(BIN)/dvc commit --force --quiet results/dvc.yaml:small

share: $(READY) ## record what was made in dvc.lock and push it to your DVC remote
	@mkdir -p data/prepared results/runs results/demo figures/demo results/paper figures/paper .snakemake/metadata
	@$(BIN)/dvc commit --force demo runs
	@$(BIN)/dvc commit --force results/dvc.yaml:small
	@$(BIN)/dvc commit --force results/dvc.yaml:paper # empty or not: what is in no lock ends a `dvc pull` in an error
	@raw=$$(find data -name '*.dvc' | sort); \
		{ [ -z "$$raw" ] || $(BIN)/dvc commit --force $$raw; } && \
		$(BIN)/dvc push && \
		echo "pushed; colleagues find it by the locks: git add dvc.lock results/dvc.lock .dvc/config" $$raw "&& git commit && git push"

# without it each call ends with a notice of the theme's makers
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(READY) ## the documentation as a site, in site/
	@$(BIN)/mkdocs build --quiet
	@echo "docs: $(CURDIR)/site/index.html"

bench: $(READY) ## measure training and attacks beside plain loops and peers: make bench BENCH=--quick
	@PYTHONPATH=benchmarks $(BIN)/python -m training_speed $(BENCH)
	@PYTHONPATH=benchmarks $(BIN)/python -m attack_speed $(ATTACKS)
	@PYTHONPATH=benchmarks $(BIN)/python -m defense_speed $(DEFENSES)
	@PYTHONPATH=benchmarks $(BIN)/python -m algorithm_speed $(ALGORITHMS)
	@PYTHONPATH=benchmarks $(BIN)/python -m roofline $(filter --quick,$(BENCH))
	@PYTHONPATH=benchmarks $(BIN)/python -m goals

chaos: $(READY) ## 5,000 odd inputs, then 300 kills, full disks and damages in every step: make chaos CHAOS=--quick
	@PYTHONPATH=benchmarks $(BIN)/python -m cases $(filter --quick,$(CHAOS))
	@PYTHONPATH=benchmarks $(BIN)/python -m chaos $(CHAOS)

controls: $(READY) ## defenses that hide nothing in place of the items' own; none may be said to hide
	@PYTHONPATH=benchmarks $(BIN)/python -m controls

mutants: $(READY) ## put faults into our own code by chance, see which tests find them: make mutants MUTANTS=--quick
	@PYTHONPATH=benchmarks $(BIN)/python -m mutants $(MUTANTS)

clean: ## remove what the demo made; small and paper results stay
	@rm -rf results/demo figures/demo logs
