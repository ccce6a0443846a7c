# Every target is one line that also works without make.
.PHONY: up test test-tools lint types golden docs bench crash live gpu-check check lock

up:            ## Measure this host and show it: pages at 8501, /metrics at 9871
	@tools/prepare runtime && exec .venv/bin/stallscope up

test:          ## All tests; ARGS="-k name" picks some
	@tools/prepare dev && tools/prepare duckdb15 && .venv/bin/python -m pytest -n 2 $(ARGS)

test-tools:    ## Chromium, Prometheus and friends from Debian's packages (root)
	@tools/test-tools

lint:          ## Style, format, spelling, import direction
	@tools/prepare dev && PATH="$$PWD/.venv/bin:$$PATH" tools/lint

types:         ## mypy --strict, tests included
	@tools/prepare dev && .venv/bin/mypy

golden:        ## Record the goldens anew; read the diff before you keep it
	@tools/prepare dev && .venv/bin/python -m pytest --update-golden $(ARGS)

docs:          ## Write the reference pages that are made from code
	@tools/prepare dev && .venv/bin/python -m tools.docs

bench:         ## Cost, size and speed beside node_exporter and Prometheus
	@tools/prepare dev && .venv/bin/python -m lab.bench $(ARGS)

crash:         ## kill -9, full disk, flipped bits, stepped clock
	@tools/prepare dev && tools/prepare duckdb15 && .venv/bin/python -m lab.crash $(ARGS)

live:          ## A real vLLM on this CPU, taps in it: every token counted; ARGS="--scenario proof"
	@tools/prepare dev && .venv/bin/python -m lab.live $(ARGS)

gpu-check:     ## What only a GPU can settle, into docs/hardware; ARGS="--python PATH" has PyTorch
	@tools/prepare dev && .venv/bin/python -m lab.hardware $(ARGS)

check:         ## What CI runs
	@.ci/run

lock:          ## Resolve the requirements anew (a week of cool-down)
	@tools/prepare dev && PATH="$$PWD/.venv/bin:$$PATH" tools/lock
