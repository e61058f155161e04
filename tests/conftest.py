import os
import pathlib
import signal

# What a shell starts in the background ignores Ctrl-C, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

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


# How many variants of a test the other backends run, where TensorFlow runs all: CI has 25 minutes.
# With ALL_VARIANTS=1 in the environment it is all of them, for half an hour.
VARIANTS = 1


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """What a file or a folder makes once, such as a trained model, is made by one worker.

    On the other backends variants are left out, evenly; of the kinds of decoder not as many.
    """
    for item in items:
        fixtures = [made[-1] for made in item._fixtureinfo.name2fixturedefs.values()]  # private
        shared = [made.baseid for made in fixtures if made.scope in ("module", "session")]
        if ours := [place for place in shared if place.startswith("tests/")]:
            item.add_marker(pytest.mark.xdist_group(min(ours)))  # a folder before its files
    if keras.backend.backend() == "tensorflow" or os.environ.get("ALL_VARIANTS"):
        return
    groups = {}
    for item in items:
        groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = set()
    for name, group in groups.items():
        some = VARIANTS + 2 if "test_decoder_kinds" in name else VARIANTS
        kept.update(group if len(group) <= some else group[:: len(group) // some][:some])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
