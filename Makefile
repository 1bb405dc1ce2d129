# Each target does its own set-up: a virtual environment in .venv with everything the project needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
# Tests wait for brokers and workers half of their time: six processes keep two cores busy.
PYTEST_WORKERS ?= 6
# Tests start hundreds of Python processes: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE
MINUTES ?= 10
SITE ?= build/docs
# What the docs show: twenty minutes.
BENCH_START := --scenarios kip,groups-1,groups-1000,records-10k,records-300k,record-size-50k,record-size-250k --no-storm --puts 100 --workers 20
# Done again when it fails: pip tries a connection again, but not a download that broke off half-way.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -e
EXTRAS := spark,zookeeper,dev

.PHONY: setup near check docs man jar format test test-quick test-slow demo bench bench-start compat compat-releases compat-spark peers soak mutate drill-topic-ids clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "connect-share needs Python 3.11 or later, this is %s: install one and run make PYTHON=/path/to/it" % sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[$(EXTRAS)]' || $(INSTALL) '.[$(EXTRAS)]'
	@# The extra "java" is a JRE, for a machine that has none.
	$(BIN)/python -m connect_share.jar.java_runtime 2> /dev/null || $(INSTALL) '.[$(EXTRAS),java]' || $(INSTALL) '.[$(EXTRAS),java]'
	@touch $(STAMP)

# Each test process would rewrite the assertions of all tests for itself. What fails here fails in them.
$(COMPILED): $(STAMP)
	@$(BIN)/python -m pytest --collect-only -q > /dev/null 2>&1 || :
	@touch $(COMPILED)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy docs/examples/runtime
	$(BIN)/mypy docs/examples/analysis
	rm -rf build/examples && $(BIN)/python -m tests.support.examples build/examples
	$(BIN)/mypy build/examples
	$(BIN)/lint-imports
	$(BIN)/python -m tests.lab.house --ceilings
	$(BIN)/python -m tests.lab.plugin_jar --check
	@# The theme writes the menu of all pages into each: nearly half of the work.
	$(MAKE) --no-print-directory docs SITE=build/checked-docs SITE_ARGS="-D html_theme=basic"

near: $(STAMP)
	@$(BIN)/python -m tests.lab.near $(NEAR_ARGS)

docs: $(STAMP)
	$(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet --builder html $(SITE_ARGS) docs $(SITE)

man: $(STAMP)
	mkdir -p build/man
	$(BIN)/argparse-manpage --module connect_share.cli.__main__ --function build_parser --prog connect-share --project-name connect-share \
	  --output build/man/connect-share.1
	$(BIN)/argparse-manpage --module migrator.cli.__main__ --function build_parser --prog connect-share-migrate --project-name connect-share \
	  --output build/man/connect-share-migrate.1

jar: $(STAMP)
	$(BIN)/python -m tests.lab.plugin_jar

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: TESTS = slow or not slow
test-quick: TESTS = not slow
test-slow: TESTS = slow
test test-quick test-slow: $(COMPILED)
	@$(BIN)/python -m tests.lab.embedded.artifacts > /dev/null  # once, and not inside a test, whose time is limited
	@$(BIN)/python -m tests.lab.class_archives
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadgroup -m "$(TESTS)" $(PYTEST_ARGS)

demo: $(STAMP)
	$(BIN)/python -m tests.lab.demo --output build/demo

bench-start: $(STAMP)
	$(BIN)/python -m tests.lab.benchmarks.startup --embedded $(BENCH_START) --result build/bench-start/startup/result.json \
	  --report build/bench-start/startup $(BENCH_ARGS)
	$(BIN)/python -m tests.lab.benchmarks.figures build/bench-start  # into docs/benchmarks and README.md, to be committed

bench: $(STAMP)
	$(BIN)/python -m tests.lab.benchmarks.startup --embedded --suite full --result build/bench/startup/result.json \
	  --report build/bench/startup $(BENCH_ARGS)
	$(BIN)/python -m tests.lab.benchmarks.migration --result build/bench/migration.json
	$(BIN)/python -m tests.lab.benchmarks.spark --result build/bench/spark.json
	$(BIN)/python -m tests.lab.benchmarks.sealing --result build/bench/sealing.json
	$(BIN)/python -m tests.lab.benchmarks.console --result build/bench/console.json
	$(BIN)/python -m tests.lab.benchmarks.backup --result build/bench/backup.json
	$(BIN)/python -m tests.lab.benchmarks.many_groups --result build/bench/many_groups.json
	$(BIN)/python -m tests.lab.benchmarks.steady_state --result build/bench/steady_state.json
	$(BIN)/python -m tests.lab.benchmarks.figures build/bench  # into docs/benchmarks and README.md, to be committed

soak: $(STAMP)
	CONNECT_SHARE_SOAK_MINUTES=$(MINUTES) $(BIN)/python -m pytest -s $$(grep -rl --include='test_*.py' -e long_forms -e hostile_records tests)

mutate: $(STAMP)
	$(BIN)/python -m tests.lab.mutations $(MUTATE_ARGS)

drill-topic-ids: $(STAMP)
	$(BIN)/python -m tests.lab.topic_id_drill $(DRILL_ARGS)

compat: $(STAMP)
	$(BIN)/python -m tests.lab.compatibility --result build/compat/result.json \
	  --report build/compat/compatibility.md $(COMPAT_ARGS)
	@# Arguments are for the matrix: then it is alone.
	$(if $(COMPAT_ARGS),,$(MAKE) --no-print-directory compat-releases compat-spark)

compat-releases: $(STAMP)
	$(BIN)/python -m tests.lab.compatibility.mixed_releases --result build/compat/mixed_releases.json

# Every job on each version of PySpark (the last is the newest), in an environment of its own; 3.5 needs Java 17.
SPARK_VERSIONS ?= 3.5 4.0 4.1 4
SPARK_JOBS := $(addprefix tests/spark/,test_workload.py test_profile_topics.py test_export_groups.py test_decoded.py test_connect.py test_plan_jobs.py::test_apply_and_verify)
compat-spark:
	@for version in $(SPARK_VERSIONS); do \
	  at=build/compat/spark-$$version; said="all jobs ran"; \
	  $(PYTHON) -m venv $$at && $$at/bin/python -m pip install --quiet --disable-pip-version-check '.[spark,dev]' "pyspark[connect]==$$version.*" \
	    && $$at/bin/python -m pytest -q -W default -p no:cacheprovider $(SPARK_JOBS) || { said=failed; failed=1; }; \
	  $$at/bin/python -c 'import pyspark, sys; print("PySpark", pyspark.__version__, sys.argv[1])' "$$said"; \
	done; exit $${failed:-0}

peers: $(STAMP)
	$(BIN)/python -m tests.lab.peers --result build/peers/result.json --report build/peers/kafka-tests.md $(PEERS_ARGS)

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse metastore_db
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
