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


def pytest_collection_modifyitems(config, items):
    """On JAX, which compiles for seconds: three variants of a test, but all kinds of decoder."""
    if keras.backend.backend() != "jax":
        return
    variants = {}
    for item in items:
        variants.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = set()
    for name, group in variants.items():
        step = 1 if "test_decoder_kinds" in name else max(1, len(group) // 3)
        kept.update(group[::step][:3] if step > 1 else group)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
