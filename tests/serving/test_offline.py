"""Jobs of many lines: order, results, kills."""

import gzip
import json
import pathlib

import numpy as np
import pytest

from tests.serving import offline
from tests.serving.tools import tiny_pipeline
from tests.serving.unruly_server import UnrulyServer
from tests.tools import run_zoo_here
from zoo.serving import SavedModel, connect, export, predict_lines
from zoo.serving.offline import answer_lines, predict_windows
from zoo.serving.resumable_file import ResumableFile


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with tiny, a SavedModel, and words.txt."""
    place = tmp_path_factory.mktemp("place")
    export(tiny_pipeline(min_length=3), place / "tiny")
    offline.write_words(place / "words.txt", 3000)
    return place


@pytest.fixture(scope="module")
def model(place):
    return SavedModel(place / "tiny")


def test_answers_are_those_to_each_line_alone(place, model):
    words = (place / "words.txt").read_text().split()[:150] + ["", "é", ""]
    rows = list(predict_lines(model, iter(words), batch_size=7))
    assert [line for line, _, _ in rows] == words
    for line, texts, scores in rows:
        alone = model("serving_default", text=[line])
        kept = int(sum(alone["scores"][0] > -1e9))
        assert texts == [text.decode() for text in alone["texts"][0][:kept]], line
        np.testing.assert_allclose(scores, alone["scores"][0][:kept], atol=1e-4)


def test_windows_begin_small_and_go_on_as_they_were(model):
    lines = [f"a{'b' * (i % 9)}" for i in range(500)]
    windows = list(predict_windows(model, lines, largest=200))
    assert [len(window) for window in windows] == [64, 64, 128, 200, 44]
    again = list(predict_windows(model, lines[128:], largest=200, done=128))
    assert again == windows[2:]


def test_no_more_is_read_than_a_window(model):
    read = []
    lines = (read.append(i) or "ab" for i in range(10**9))
    next(predict_lines(model, lines))
    assert len(read) == 64


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_a_server_answers_in_order_whatever_it_does(place, model, kind):
    words = (place / "words.txt").read_text().split()[:900]
    server = UnrulyServer(place / "tiny")
    server.faults = ["full", None, "unavailable", None, "drop", None, "full", "full", "unavailable"]
    port = server.grpc_port if kind == "grpc" else server.rest_port
    with connect(f"{kind}://127.0.0.1:{port}", "tiny", timeout=300) as client:
        rows = list(predict_lines(client, words, batch_size=16, in_flight=4))
    server.grpc.stop(None)
    assert not server.faults
    assert rows == list(predict_lines(model, words, batch_size=16))


def lines_of(count):
    return [f"line {i}" for i in range(count)]


def write_parts(path, lines, size, resume, about=None):
    """Writes what lines come to, two lines for each; yields after each part."""
    with ResumableFile(path, about or {"model": "m/1"}, resume) as file:
        todo = list(file.skip_done(iter(lines)))
        for i in range(0, len(todo), size):
            part = todo[i : i + size]
            file.write(part, "".join(f"{line.upper()}\n\n" for line in part))
            yield


def test_a_file_goes_on_after_a_kill_at_any_byte(tmp_path):
    lines, whole = lines_of(8), tmp_path / "whole"
    states = []
    for _ in write_parts(whole, lines, 3, resume=False):
        states.append((whole.read_bytes(), pathlib.Path(f"{whole}.state").read_bytes()))
    expected = whole.read_bytes()
    assert expected == "".join(f"{line.upper()}\n\n" for line in lines).encode()
    begun = states[0][1].split(b"\n")[0] + b"\n"
    killed = [(b"", begun)]  # what is on disk after a kill: the file runs ahead of its state
    for (output, state), (_, before) in zip(states, [(b"", begun), *states[:-1]], strict=True):
        killed += [(expected[:size], before) for size in range(len(output) + 1)]
        killed += [(output, state[:size]) for size in range(len(before), len(state) + 1)]
    path = tmp_path / "parts"
    for output, state in killed:
        path.write_bytes(output)
        pathlib.Path(f"{path}.state").write_bytes(state)
        list(write_parts(path, lines, 3, resume=True))
        assert path.read_bytes() == expected, (output, state)


def test_a_file_does_not_go_on_with_anything_else(tmp_path):
    path = tmp_path / "out"
    next(write_parts(path, lines_of(8), 3, resume=False))
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="is there already. --resume goes on with it"):
        list(write_parts(path, lines_of(8), 3, resume=False))
    with pytest.raises(ValueError, match="begun with model 'm/1'. Received: 'm/2'"):
        list(write_parts(path, lines_of(8), 3, resume=True, about={"model": "m/2"}))
    for other in (["other", *lines_of(8)], lines_of(2)):
        with pytest.raises(ValueError, match="begun with another input: its first 3 lines"):
            list(write_parts(path, other, 3, resume=True))
    with (
        ResumableFile(path, {"model": "m/1"}, resume=True),
        pytest.raises(BlockingIOError, match="being written by another process"),
    ):
        ResumableFile(path, {"model": "m/1"}, resume=True)
    assert path.read_bytes() == before
    pathlib.Path(f"{path}.state").unlink()
    with pytest.raises(FileNotFoundError, match="cannot be resumed without .*out.state"):
        list(write_parts(path, lines_of(8), 3, resume=True))


def zoo(place, monkeypatch, capsys, *arguments):
    done = run_zoo_here(monkeypatch, capsys, place, arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "options", [["--n-best", "2"], pytest.param(["--json"], marks=pytest.mark.slow)], ids=str
)
def test_a_killed_job_goes_on_to_the_same_bytes(place, tmp_path, monkeypatch, capsys, options):
    printed = zoo(place, monkeypatch, capsys, "predict", "tiny", "--input", "words.txt", *options)
    output = tmp_path / "out"
    process = offline.start(place / "tiny", place / "words.txt", output, *options)
    offline.watch(process, output, until=500)
    assert process.returncode == -9
    assert 500 <= offline.lines_done(output) < 3000
    with open(output, "ab") as file:
        file.write(b"half a li")  # as if it had been killed while it wrote
    arguments = ["predict", "tiny", "--input", "words.txt", "--output", output, "--resume"]
    assert zoo(place, monkeypatch, capsys, *arguments, *options) == ""
    assert output.read_text() == printed
    assert offline.lines_done(output) == 3000
    # Once more does nothing.
    zoo(place, monkeypatch, capsys, *arguments, *options)
    assert output.read_text() == printed


def test_an_answer_is_a_line():
    assert answer_lines("a\nb", ["a\r\nbc", "a\nd"], [-1.0, -2.0]) == "a bc\n"
    two = answer_lines("a\r", ["b\nc", "d"], [-1.0, -2.0], n_best=2)
    assert two.splitlines() == ["a \t-1.0000\tb c", "a \t-2.0000\td"]
    whole = json.loads(answer_lines("a\nb", ["a\nbc"], [-1.0], as_json=True))
    assert (whole["input"], whole["text"]) == ("a\nb", "a\nbc")


def test_input_may_be_gzip(place, monkeypatch, capsys):
    lines = (place / "words.txt").read_bytes().splitlines(keepends=True)[:70]
    (place / "some.txt").write_bytes(b"".join(lines))
    (place / "some.gz").write_bytes(gzip.compress(b"".join(lines)))
    (place / "cut.gz").write_bytes(gzip.compress(b"".join(lines))[:-12])
    said = [
        zoo(place, monkeypatch, capsys, "predict", "tiny", "--input", name)
        for name in ("some.txt", "some.gz")
    ]
    assert said[0] == said[1]
    assert len(said[0].splitlines()) == 70
    done = run_zoo_here(monkeypatch, capsys, place, ["predict", "tiny", "--input", "cut.gz"])
    assert done.returncode == 1
    assert "cut.gz is damaged" in done.stderr


MISTAKES = {
    "texts and input": (["ab", "--input", "words.txt"], 2, "Give texts or `--input`, not both"),
    "resume": (["ab", "--resume"], 2, "`--resume` goes on with a file"),
    "batch": (["ab", "--batch-size", "0"], 2, "`--batch-size` must be 1 or more. Received: 0"),
    "output": (["ab", "--output", "words.txt"], 1, "words.txt is there already"),
    "no state": (
        ["ab", "--output", "words.txt", "--resume"],
        1,
        "words.txt cannot be resumed without words.txt.state",
    ),
    "input": (["--input", "none.txt"], 1, "none.txt: No such file"),
    "server": (["ab", "--server", "localhost:1"], 2, "Received: localhost:1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_a_line(place, mistake, monkeypatch, capsys):
    arguments, code, message = MISTAKES[mistake]
    done = run_zoo_here(monkeypatch, capsys, place, ["predict", "tiny", *arguments])
    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.startswith("zoo: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_server_that_is_away_is_told_at_once_and_at_the_end(place, monkeypatch, capsys):
    arguments = ["predict", "tiny", "ab", "--server", "http://127.0.0.1:9", "--retry-for", "0.5"]
    done = run_zoo_here(monkeypatch, capsys, place, arguments)
    assert done.returncode == 1
    begin, end = done.stderr.splitlines()
    assert begin == "zoo: http://127.0.0.1:9: Connection refused. Trying for 0.5 s"
    assert end == "zoo: http://127.0.0.1:9 was away or full for 0.5 s: Connection refused"


def test_the_state_of_a_job_is_plain(tmp_path):
    """What the docs say of it."""
    path = tmp_path / "out"
    list(write_parts(path, lines_of(4), 3, resume=False))
    about, *entries = pathlib.Path(f"{path}.state").read_text().splitlines()
    assert json.loads(about) == {"model": "m/1"}
    assert [entry.split()[:2] for entry in entries] == [["3", "24"], ["4", "32"]]
