"""The Apache Beam pipeline beside `zoo predict`."""

import gzip
import sys

import pytest

from recipes import batch_predict
from tests.serving.offline import write_words
from tests.serving.tools import tiny_pipeline
from tests.tools import run_zoo_here
from zoo.cli import load_recipes
from zoo.serving import export


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with tiny, a SavedModel, and words in a.txt and b.txt.gz."""
    place = tmp_path_factory.mktemp("place")
    export(tiny_pipeline(min_length=3), place / "tiny")
    write_words(place / "words.txt", 420)
    lines = (place / "words.txt").read_bytes().splitlines(keepends=True)
    (place / "a.txt").write_bytes(b"".join(lines[:300]) + b"\xff no text\n\n")
    (place / "b.txt.gz").write_bytes(gzip.compress(b"".join(lines[300:])))
    return place


def test_beam_says_what_predict_says(place, tmp_path, monkeypatch, capsys):
    pytest.importorskip("apache_beam", reason="apache-beam is not installed: the extra [beam]")
    monkeypatch.setattr(batch_predict, "SHARD_LINES", 128)  # several files for a.txt
    output, options = tmp_path / "new" / "out", ["--n-best", "2"]
    # The one of Beam's local runners that never downloads another.
    arguments = ["--input", f"{place}/[ab].txt*", "--output", str(output), *options]
    arguments += ["--runner", "apache_beam.runners.portability.fn_api_runner.FnApiRunner"]
    batch_predict.main([str(place / "tiny"), *arguments])
    written = sorted(output.parent.iterdir())
    assert [path.name for path in written] == [
        *(f"out-00000-0000{shard}.txt" for shard in range(3)),
        "out-00001-00000.txt",
    ]
    for files, name in ((written[:3], "a.txt"), (written[3:], "b.txt.gz")):
        arguments = ["predict", "tiny", "--input", name, *options]
        expected = run_zoo_here(monkeypatch, capsys, place, arguments).stdout
        assert "".join(path.read_text() for path in files) == expected
    # What is there is not overwritten.
    with pytest.raises(SystemExit) as stop:
        batch_predict.main([str(place / "tiny"), "--input", "x", "--output", str(output)])
    assert stop.value.code == 2


def test_without_beam_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)  # as if it were not installed
    with pytest.raises(SystemExit) as stop:
        batch_predict.main(["saved_models/x", "--input", "x", "--output", "y"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith("pip install 'keras-zoo[beam]'\n")


def test_it_is_no_training():
    recipes = load_recipes()
    assert "pronounce" in recipes
    assert "batch_predict" not in recipes
