import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Prepared data sets of the tests: not in the user's folder, and one for each worker.
CACHE = pathlib.Path(__file__).parents[1] / ".cache"
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
os.environ["TFDS_DATA_DIR"] = str(CACHE / f"tensorflow_datasets_{WORKER}")

import keras
import pytest


@pytest.fixture(autouse=True)
def _seed():
    keras.utils.set_random_seed(7)


# How many variants of a test are run, where TensorFlow runs all: JAX compiles each for seconds.
VARIANTS = {"jax": 2, "torch": 3}


def pytest_collection_modifyitems(config, items):
    """Leaves out variants, evenly, on the other backends; but no kind of decoder."""
    if keras.backend.backend() not in VARIANTS:
        return
    most, groups = VARIANTS[keras.backend.backend()], {}
    for item in items:
        groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = set()
    for name, group in groups.items():
        few = len(group) <= most or "test_decoder_kinds" in name
        kept.update(group if few else group[:: len(group) // most][:most])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
