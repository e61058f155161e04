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
