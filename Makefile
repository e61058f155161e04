# Everything runs in .venv, which `install` makes; a second run finds nothing to do.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Layers and models under JAX and PyTorch, where no TensorFlow is installed.
BACKENDS := .venv-backends

# The release before, as servers lag behind. Its C library is all that is used of it: no dependencies.
PREVIOUS := .venv-previous
PREVIOUS_WHEELS := tensorflow-cpu==2.20.0 tensorflow-text==2.20.0

.PHONY: install demo test test-backends check check-previous lint format bench gpu-check chromium

install: $(VENV)/installed

$(VENV)/installed: setup.cfg pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

# A small model in about two minutes, all the way to the picture of what it looked at.
DEMO := --model recurrent --units 128 --layers 1 --warmup-steps 500 --batch-tokens 1024 \
	--num-buckets 4 --learning-rate 4e-3 --epochs 4 --average 1
DICTIONARY := gunzip -c zoo/data/cmudict/dev.tsv.gz

demo: install
	$(BIN)/zoo train pronounce --output runs/demo $(DEMO)
	$(BIN)/zoo export runs/demo --output runs/demo/saved_models/pronounce
	$(DICTIONARY) | cut -f1 > runs/demo/words.txt
	$(DICTIONARY) | cut -f2- > runs/demo/prons.txt
	$(BIN)/zoo evaluate runs/demo/saved_models/pronounce --source runs/demo/words.txt \
		--reference runs/demo/prons.txt
	$(BIN)/zoo predict runs/demo/saved_models/pronounce schadenfreude kombucha gremblewick --n-best 3
	$(BIN)/zoo plot runs/demo/saved_models/pronounce schadenfreude --output runs/demo/heat.png
	@echo
	@echo "Where it looked as it wrote: runs/demo/heat.png. To go on:"
	@echo "  . $(BIN)/activate"
	@echo "  zoo predict runs/demo/saved_models/pronounce YOUR WORDS     # try it"
	@echo "  zoo train pronounce --output runs/pronounce                 # the full model, hours"
	@echo "  zoo export runs/pronounce --output saved_models/pronounce   # the next version, for TF Serving"
	@echo "  docker run -p 8501:8501 -v $(CURDIR)/runs/demo/saved_models/pronounce:/models/pronounce \\"
	@echo "      -e MODEL_NAME=pronounce tensorflow/serving              # serve it"

test: install lint chromium
	$(BIN)/pytest -q -n 3 --dist loadgroup

# The browser in which the page of `zoo serve` is tested: Debian's, installed where it is missing.
CHROMIUM := /usr/bin/chromium
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

chromium: $(CHROMIUM)

$(CHROMIUM):
	$(SUDO) apt-get update -qq
	$(SUDO) apt-get install -qq -y --no-install-recommends chromium fonts-liberation

# JAX compiles much that runs once: it does so faster where it optimises less.
test-backends: $(BACKENDS)/installed
	KERAS_BACKEND=torch $(BACKENDS)/bin/python -m pytest -q -n 2 --dist worksteal tests/layers tests/models
	KERAS_BACKEND=jax JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BACKENDS)/bin/python -m pytest -q -n 2 --dist worksteal tests/layers tests/models

$(BACKENDS)/installed: constraints.txt
	$(PYTHON) -m venv $(BACKENDS)
	$(BACKENDS)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
		keras jax torch pytest pytest-xdist hypothesis
	touch $@

# Will TF Serving load and run every model that is here?
MODELS := $(patsubst %/zoo.json,%,$(wildcard saved_models/*/*/zoo.json))

check: install
	$(BIN)/zoo check $(MODELS)

check-previous: install $(PREVIOUS)/installed
	$(BIN)/zoo check $(MODELS) --python $(PREVIOUS)/bin/python

$(PREVIOUS)/installed: Makefile
	$(PYTHON) -m venv $(PREVIOUS)
	$(PREVIOUS)/bin/pip install --quiet --disable-pip-version-check --no-deps $(PREVIOUS_WHEELS)
	touch $@

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install
	$(BIN)/python bench/compare.py
	$(BIN)/python bench/growth.py
	$(BIN)/python bench/devices.py

# For who has GPUs: trains, exports and measures on all of them.
gpu-check: install
	$(BIN)/python bench/gpu_check.py
