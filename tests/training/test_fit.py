"""A run survives whatever ends it, and ends where it would have ended without."""

import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.tools import ZOO, run_zoo
from tests.training.tools import EPOCHS, assert_same, metrics, read, train_command, write_dictionary
from zoo.training.checkpoints import Checkpoints


def stop(data, run, signal_number, epochs):
    """Starts a run, and ends it when so many epochs are written and the next one is under way."""
    process = subprocess.Popen(
        [ZOO, *map(str, train_command(data, run))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.time() + 300
    while time.time() < deadline and process.poll() is None:
        if len(metrics(run)) >= epochs and Checkpoints(run).states():
            values = read(run, "state")[1]
            if values["epoch"] == epochs and values["batch"] >= 2:
                break
        time.sleep(0.002)
    assert time.time() < deadline
    process.send_signal(signal_number)
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


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
    best, state = read(whole, "best")
    last = range(max(1, state["epoch"] - 1), state["epoch"] + 1)
    epochs = [read(whole, f"epoch-{i}")[0] for i in last]
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


@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)],
)
def test_asked_to_stop(data, whole, tmp_path, number, code):
    stopped, _, errors = stop(data, tmp_path / "run", number, epochs=0)
    assert stopped == code
    assert errors.strip() == f"zoo: Stopped. The same command goes on with {tmp_path / 'run'}"
    done = run_zoo(*train_command(data, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "run", whole)


def test_a_finished_run_stays_as_it_is(data, whole, zoo_here):
    before = {path: path.stat().st_mtime_ns for path in (whole / "checkpoints").iterdir()}
    done = zoo_here(*train_command(data, whole))
    assert done.returncode == 0
    assert "best: epoch" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in (whole / "checkpoints").iterdir()} == before


@pytest.mark.slow
def test_what_is_not_learnt_from_is_told(tmp_path):
    words = write_dictionary(tmp_path / "words", train=300)
    with open(words / "train.tsv", "a") as file:
        file.write(f"{'ab' * 30}\t{'AA B ' * 30}\n" * 5)
    done = run_zoo(*train_command(words, tmp_path / "run"), "--epochs", 1)
    assert done.returncode == 0, done.stderr
    assert "5 of 305 examples are longer than --max-length and left out" in done.stdout
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["data"]["train"] == "305 examples, 5 left out as too long"


def test_what_was_written_after_the_checkpoint_is_written_again(whole, tmp_path, zoo_here):
    """A run that was killed between its log and its checkpoint; and one while it was scored."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 4, "step": 1}\n{"epoch": 4, "st')
    assert zoo_here("train", "pronounce", "--output", run).returncode == 0
    assert metrics(run) == metrics(whole)

    (scored,) = (run / "checkpoints").glob(f"{Checkpoints(run).states()[0]}.json")
    scored.unlink()
    done = zoo_here("train", "pronounce", "--output", run)
    assert done.returncode == 0, done.stderr
    assert "going on at epoch 3, step" in done.stdout
    assert_same(run, whole)


def test_a_damaged_checkpoint_is_passed_over(whole, tmp_path, zoo_here):
    """Cut off, or with one byte changed; where all are damaged, that is told."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    older, newest = sorted((run / "checkpoints").glob("state-*.npz"))
    newest.write_bytes(newest.read_bytes()[:5000])
    done = run_zoo("train", "pronounce", "--output", run)
    assert done.returncode == 0
    assert done.stderr.startswith(f"zoo: {newest} is damaged")
    assert done.stderr.count("\n") == 1
    assert_same(run, whole)

    for path in (older, newest):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    done = zoo_here("train", "pronounce", "--output", run)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"zoo: {older} is damaged")
    assert done.stderr.count("\n") == 2


@pytest.mark.slow
def test_more_epochs_than_it_began_with(data, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    done = run_zoo("train", "pronounce", "--output", run, "--epochs", EPOCHS + 1)
    assert done.returncode == 0, done.stderr
    assert [line["epoch"] for line in metrics(run)] == [1, 2, 3, 4]
    assert json.loads((run / "run.json").read_text())["config"]["epochs"] == EPOCHS + 1


@pytest.mark.slow
def test_it_stops_when_nothing_gets_better(data, tmp_path):
    options = ["--patience", 1, "--epochs", 9, "--learning-rate", 1e-9, "--jit"]
    done = run_zoo(*train_command(data, tmp_path / "run"), *options)
    assert done.returncode == 0, done.stderr
    assert len(metrics(tmp_path / "run")) == 2
    assert "best: epoch 1" in done.stdout
