# Everything runs in .venv, which each target makes for itself from the locked requirements.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tabellion needs Python 3.11 or newer: make PYTHON=python3.11 …"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # on all cores, which pip does not use; some packages ship files for other versions
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(READY) ## Make the virtual environment

# Where nobody sits before it, as in CI, it ends by itself and takes any free port.
run: $(READY) ## The document service with sample documents: its address, a key, what became of each; Ctrl-C ends it
	@$(BIN)/tabellion up --demo $$(test -t 0 || echo --until-done --port 0)

registries: $(READY) browser ## Registries and OCR at work on the practice portal: documents, companies, rights; Ctrl-C ends it
	@$(BIN)/tabellion up --demo --with registries --with ocr $$(test -t 0 || echo --until-done --port 0)

website: $(READY) ## Analyse a website and write report.html: make website URL=example.com TYPE=trust
	@test -n "$(URL)" || { echo "which website? make website URL=example.com TYPE=profile"; exit 2; }
	@$(BIN)/tabellion website "$(URL)" --type $(or $(TYPE),profile) --report report.html

first-run: $(READY) ## See the engine at work: a SQLite file, a table with rows, workers, a summary
	@$(BIN)/python examples/first_run.py

PARALLEL ?= 4
CHECKED := tests/test_layout.py tests/test_docs.py
test: $(READY) browser ## Check and test everything, on real databases and in a real browser; EVERY_VARIANT=1 on both databases, in every language, colour and size
	@$(MAKE) --no-print-directory check
	@$(if $(EVERY_VARIANT),TABELLION_EVERY_VARIANT=1) $(BIN)/python -m pytest -n $(PARALLEL) --dist loadfile $(CHECKED:%=--ignore=%)

QUICK := tests/test_layout.py tests/test_pipeline.py tests/test_config.py tests/net/test_[!c]*.py tests/storage tests/delivery tests/accounts tests/monitor \
	tests/engine/sqlite tests/engine/test_store.py tests/engine/test_moves.py tests/engine/test_queue.py tests/engine/tables/test_declaration.py \
	tests/reading/types tests/reading/fields tests/reading/einvoice tests/pipelines/documents/test_judging.py
quick: $(READY) ## Lint, types and the quick tests on SQLite: under a minute
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python -m pytest -n $(PARALLEL) -k "not postgresql and not pooled and not s3" $(QUICK)

check: $(READY) ## Format, lint, types (Python and JavaScript), import layers, docs
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/ruff check --quiet .
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check-types check-texts

check-types: $(READY)
	@$(BIN)/mypy --no-error-summary

check-texts: $(READY)
	@$(BIN)/python -m tests.javascript
	@$(BIN)/python -m pytest -q --no-header $(CHECKED)

dashboards: $(READY) ## Check dashboards and alerts with a real Prometheus, Debian's, which is unpacked into .cache if there is none
	@$(BIN)/python -m tests.deploy.prometheus_server
	@$(BIN)/python -m pytest tests/deploy

browser: $(READY) ## Find or install the Chromium that the browser tests need, or say why they will be skipped
	@$(BIN)/python -m tests.browser.chromium

docs: .venv-docs/.ready ## Build the documentation site into build/docs; a broken link or a page missing from the navigation fails
	@.venv-docs/bin/python -m tests.docs_navigation
	@.venv-docs/bin/zensical build --strict --clean

DOCS_PORT ?= 8000
docs-serve: .venv-docs/.ready ## Show the documentation site while you write: make docs-serve DOCS_PORT=8000
	@.venv-docs/bin/zensical serve --dev-addr 127.0.0.1:$(DOCS_PORT)

format: $(READY) ## Format the code
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

JOBS ?= 100000
KILLS ?= 100
chaos: $(READY) ## Kill, freeze and crash everything: make chaos JOBS=100000 KILLS=100
	@$(BIN)/python -m tests.faults.chaos --jobs $(JOBS) --kills $(KILLS)

FLEET_JOBS ?= 20000
BROKER ?= both
chaos-celery: $(READY) ## Empty and kill the broker and half of a Celery fleet: make chaos-celery FLEET_JOBS=20000 BROKER=valkey
	@$(BIN)/python -m tests.faults.chaos_celery --jobs $(FLEET_JOBS) --broker $(BROKER)

DOCUMENTS ?= 200
DEATHS ?= 12
SEED ?= 1
chaos-documents: $(READY) ## Kill the document service again and again: make chaos-documents DOCUMENTS=200 DEATHS=12 SEED=1
	@TABELLION_CHAOS_DOCUMENTS=$(DOCUMENTS) TABELLION_CHAOS_KILLS=$(DEATHS) TABELLION_CHAOS_SEED=$(SEED) \
		$(BIN)/python -m pytest -q -k killed_again tests/flows/test_service.py

REFS ?= 2500
chaos-batches: $(READY) ## Kill the workers and the API of a batch again and again: make chaos-batches REFS=2500 KILLS=40 SEED=1
	@TABELLION_CHAOS_REFS=$(REFS) TABELLION_CHAOS_KILLS=$(KILLS) TABELLION_CHAOS_SEED=$(SEED) \
		$(BIN)/python -m pytest -q -s -k killed_again tests/flows/test_batches.py

REVIEWERS ?= 50
ITEMS ?= 2000
chaos-review: $(READY) ## Let many reviewers loose on one queue, kill some, and check what they leave: make chaos-review REVIEWERS=50 ITEMS=2000
	@$(BIN)/python -m tests.pipelines.documents.review.fifty --reviewers $(REVIEWERS) --items $(ITEMS)

bench: $(READY) .venv-bench/.ready ## Measure us and the peers side by side
	@.venv-bench/bin/python -m bench.compare

bench-engine: $(READY) .venv-bench/.ready ## Measure the engine by turns with PgQueuer, in a few minutes: before every commit that touches its SQL
	@.venv-bench/bin/python -m bench.engine $(if $(AGAINST),--against $(AGAINST))

bench-retention: $(READY) .venv-bench/.ready ## Measure claims and settlements beside 10,000,000 settled attempts, and what removing them costs (8 min, 4 GB)
	@.venv-bench/bin/python -m bench.retention

bench-gates: $(READY) ## Measure gates: a fleet before a quota that moves, quotas by windows, an outage, a thousand calls at once (25 min)
	@$(BIN)/python -m bench.gates fleet
	@$(BIN)/python -m bench.gates windows
	@$(BIN)/python -m bench.gates fleet --profile classic
	@$(BIN)/python -m bench.gates outage
	@$(BIN)/python -m bench.gates calls

bench-nodes: $(READY) ## Measure 1, 2 and 4 worker nodes on one PostgreSQL, in network namespaces as root: rates, and what a job costs (20 min)
	@$(BIN)/python -m bench.nodes

bench-service: $(READY) ## Measure the document service: uploads, a model of three seconds, outputs, on PostgreSQL
	@$(BIN)/python -m bench.service

bench-ocr: $(READY) ## Measure OCR: 4 documents on 1 and 2 workers, 64 documents on 1 and 16 slots, with a model of a fixed time
	@$(BIN)/python -m bench.ocr

bench-websites: $(READY) ## Measure websites: 1,000 sites on loopback with a fetch of one second and a model of three (6 min)
	@$(BIN)/python -m bench.websites

bench-batches: $(READY) ## Measure batches: the sizing example with 250 and 20 requests a second, and a batch of 100,000 refs (5 min)
	@$(BIN)/python -m bench.batches --rate 250 --known
	@$(BIN)/python -m bench.batches --rate 20
	@$(BIN)/python -m bench.batches --submit 100000

bench-reading: $(READY) ## Measure reading: cold start, documents and scanned pages a second, memory of a long PDF
	@$(BIN)/python -m bench.reading

bench-pages: $(READY) browser ## Measure the pages in a real browser: time to the first paint, key press to the next field
	@$(BIN)/python -m bench.pages

screenshots: $(READY) browser ## Take the pictures of every page in docs/images anew
	@$(BIN)/python -m tests.screenshots

eval: $(READY) ## Measure how well documents are read: make eval DATA=folder-of-labelled-sets
	@test -n "$(DATA)" || { echo "which documents? make eval DATA=folder-of-labelled-sets (docs/explanation/accuracy.md says what is in it)"; exit 2; }
	@$(BIN)/python -m bench.accuracy $(DATA) $(if $(WRITE),--write docs/explanation/accuracy.md)

eval-websites: $(READY) ## Measure how well pages of websites are read: make eval-websites DATA=folder-of-saved-pages
	@test -n "$(DATA)" || { echo "which pages? make eval-websites DATA=folder-of-saved-pages (docs/reference/website-info.md says what is in it)"; exit 2; }
	@$(BIN)/python -m bench.website_text $(DATA)

extras: $(READY) ## Install each set of extras from a built wheel and run every command: make extras IN=folder
	@$(BIN)/python -m tests.extras $(or $(IN),/tmp/tabellion-extras)

calibrate: $(READY) ## Fit the confidence of fields to labelled documents: make calibrate DATA=folder
	@test -n "$(DATA)" || { echo "which documents? make calibrate DATA=folder-of-labelled-sets"; exit 2; }
	@$(BIN)/python -m bench.calibrate $(DATA)

.venv-bench/.ready: bench/requirements.lock requirements.lock
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r bench/requirements.lock
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-docs/.ready: docs/requirements.lock
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r docs/requirements.lock
	@touch $@

# The versions in the committed files are kept where pyproject.toml allows them; those of the benches and the docs are
# the ones of requirements.lock where they share a package.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header $(if $(UPGRADE),--upgrade)
lock: $(READY) ## Lock what pyproject.toml adds or removes; make lock UPGRADE=1 upgrades every package
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(COMPILE) --all-extras --group dev pyproject.toml -o requirements.lock
	@$(COMPILE) --group bench -c requirements.lock -o bench/requirements.lock
	@$(COMPILE) --group docs -c requirements.lock -o docs/requirements.lock

clean: ## Remove what was made
	@rm -rf $(VENV) .venv-bench .venv-docs tests/javascript/node_modules .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis tabellion-data

.PHONY: help setup run registries website first-run test quick check check-types check-texts browser dashboards docs docs-serve format chaos chaos-batches chaos-celery chaos-documents chaos-review bench bench-batches bench-engine bench-gates bench-nodes bench-ocr bench-pages bench-reading bench-retention bench-service bench-websites eval eval-websites extras calibrate lock screenshots clean
