"""A run survives whatever ends it, and ends where it would have ended without."""

import fcntl
import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.tools import ZOO, run_zoo
from tests.training.tools import SMALL, write_dictionary
from zoo.training.run import read_checkpoint

EPOCHS = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dictionary(tmp_path_factory.mktemp("words"))


def arguments(data, run):
    options = ["--data", data, "--epochs", EPOCHS, "--save-minutes", 0, *SMALL]
    return ["train", "pronounce", "--output", run, *options]


def metrics(run):
    file = run / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """A run that nothing disturbs."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    done = run_zoo(*arguments(data, run))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return run


def stop(data, run, signal_number, epochs):
    """Starts a run, and ends it when so many epochs are written and the next one is under way."""
    process = subprocess.Popen(
        [ZOO, *map(str, arguments(data, run))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    state, deadline = run / "checkpoints" / "state.npz", time.time() + 120
    while time.time() < deadline and process.poll() is None:
        if len(metrics(run)) >= epochs and state.exists():
            values = read_checkpoint(run, "state")[1]
            if values["epoch"] == epochs and values["batch"] >= 2:
                break
        time.sleep(0.002)
    process.send_signal(signal_number)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def assert_same(run, whole):
    for ours, theirs in zip(metrics(run), metrics(whole), strict=True):
        for name in ("epoch", "step", "wer", "per", "learning_rate"):
            assert ours[name] == pytest.approx(theirs[name], abs=1e-9), name
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    for name in ("best", "state"):
        arrays, others = read_checkpoint(run, name)[0], read_checkpoint(whole, name)[0]
        for array, other in zip(arrays, others, strict=True):
            np.testing.assert_allclose(array, other, rtol=1e-4, atol=1e-5)


def test_a_run_learns_and_says_how(whole):
    lines = metrics(whole)
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert lines[-1]["wer"] < 100
    assert lines[-1]["learning_rate"] == pytest.approx(0.0, abs=1e-9)  # the end of the cosine
    assert list((whole / "tensorboard").glob("events*"))
    about = json.loads((whole / "run.json").read_text())
    assert about["data"]["train"] == "2000 examples"
    assert about["config"]["units"] == 24
    assert about["command"].startswith("zoo train pronounce --output")
    assert not list(whole.rglob("*.part"))


def test_what_is_best_is_the_mean_of_the_last_epochs(whole):
    best, state = read_checkpoint(whole, "best")
    last = range(max(1, state["epoch"] - 1), state["epoch"] + 1)
    epochs = [read_checkpoint(whole, f"epoch-{i}")[0] for i in last]
    for i, array in enumerate(best):
        np.testing.assert_allclose(array, np.mean([e[i] for e in epochs], axis=0), atol=1e-6)
    scores = [line["wer"] for line in metrics(whole)]
    assert state["scores"]["wer"]["score"] == min(scores) == scores[state["epoch"] - 1]


def test_killed_and_started_again(data, whole, tmp_path):
    code, _, _ = stop(data, tmp_path / "run", signal.SIGKILL, epochs=1)
    assert code == -signal.SIGKILL
    assert len(metrics(tmp_path / "run")) < EPOCHS
    # The options need not be said again.
    done = run_zoo("train", "pronounce", "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "going on at epoch 2, step" in done.stdout
    assert_same(tmp_path / "run", whole)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_asked_to_stop(data, whole, tmp_path, number, code):
    stopped, _, errors = stop(data, tmp_path / "run", number, epochs=0)
    assert stopped == code
    assert errors.strip() == f"zoo: Stopped. The same command goes on with {tmp_path / 'run'}"
    done = run_zoo(*arguments(data, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "run", whole)


def test_a_finished_run_stays_as_it_is(data, whole):
    before = {path: path.stat().st_mtime_ns for path in (whole / "checkpoints").iterdir()}
    done = run_zoo(*arguments(data, whole))
    assert done.returncode == 0
    assert "best: epoch" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in (whole / "checkpoints").iterdir()} == before


def test_other_settings_are_not_mixed_in(data, whole, tmp_path):
    done = run_zoo("train", "pronounce", "--output", whole, "--units", 16)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines() == [
        f"zoo: {whole} holds a run with units=24. Received: units=16. Choose another --output, or "
        "leave the option out to go on"
    ]
    (tmp_path / "letter.txt").write_text("Dear all")
    done = run_zoo(*arguments(data, tmp_path))
    assert done.returncode == 1
    assert "is not empty and holds no run" in done.stderr
    assert (tmp_path / "letter.txt").read_text() == "Dear all"


def test_a_run_is_trained_by_one_process(data, whole):
    with open(whole / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run_zoo("train", "pronounce", "--output", whole)
    assert done.returncode == 1
    assert done.stderr == f"zoo: {whole} is being trained by another process\n"


def test_data_that_has_changed_is_not_mixed_in(data, whole, tmp_path):
    other = write_dictionary(tmp_path / "words", train=1900)
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    about = json.loads((run / "run.json").read_text())
    about["config"]["data"] = str(other)
    (run / "run.json").write_text(json.dumps(about))
    done = run_zoo("train", "pronounce", "--output", run)
    assert done.returncode == 1
    assert "was begun with other data" in done.stderr


def test_what_is_not_learnt_from_is_told(tmp_path):
    words = write_dictionary(tmp_path / "words", train=300)
    with open(words / "train.tsv", "a") as file:
        file.write(f"{'ab' * 30}\t{'AA B ' * 30}\n" * 5)
    done = run_zoo(*arguments(words, tmp_path / "run"), "--epochs", 1)
    assert done.returncode == 0, done.stderr
    assert "5 of 305 examples are longer than --max-length and left out" in done.stdout
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["data"]["train"] == "305 examples, 5 left out as too long"


def test_lines_after_the_checkpoint_are_written_again(data, whole, tmp_path):
    """A run that was killed between its log and its checkpoint."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 4, "step": 1}\n{"epoch": 4, "st')
    assert run_zoo("train", "pronounce", "--output", run).returncode == 0
    assert metrics(run) == metrics(whole)


def test_a_damaged_checkpoint_is_told(data, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    state = run / "checkpoints" / "state.npz"
    state.write_bytes(state.read_bytes()[:5000])
    done = run_zoo("train", "pronounce", "--output", run)
    assert done.returncode == 1
    assert done.stderr.startswith(f"zoo: {state} is damaged")
    assert done.stderr.count("\n") == 1


def test_it_stops_when_nothing_gets_better(data, tmp_path):
    options = ["--patience", 1, "--epochs", 9, "--learning-rate", 1e-9, "--jit"]
    done = run_zoo(*arguments(data, tmp_path / "run"), *options)
    assert done.returncode == 0, done.stderr
    assert len(metrics(tmp_path / "run")) == 2
    assert "best: epoch 1" in done.stdout
