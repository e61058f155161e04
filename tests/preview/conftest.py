import pathlib

import pytest

from tests.preview.server import running
from tests.serving.tools import tiny_pipeline
from zoo.serving import export

PRONOUNCE = pathlib.Path(__file__).parents[2] / "saved_models" / "pronounce_en"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """saved_models/tiny, of two versions that answer differently."""
    folder = tmp_path_factory.mktemp("served") / "tiny"
    for seed in (0, 1):
        export(tiny_pipeline(seed, min_length=4), folder, examples=["cab"])
    return folder


@pytest.fixture(scope="session")
def server(tiny):
    """`zoo serve` with both versions of tiny and pronounce_en."""
    with running(tiny / "1", tiny / "2", PRONOUNCE) as server:
        yield server
