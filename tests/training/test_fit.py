"""A run survives whatever ends it, and ends where it would have ended without."""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from tests.tools import ZOO, run_zoo
from tests.training.tools import SMALL, write_dictionary
from zoo.training.checkpoints import Checkpoints

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


def read(run, name):
    """The newest state, or what has another name."""
    checkpoints = Checkpoints(run)
    return checkpoints.read_state() if name == "state" else checkpoints.read(name)


def stop(data, run, signal_number, epochs):
    """Starts a run, and ends it when so many epochs are written and the next one is under way."""
    process = subprocess.Popen(
        [ZOO, *map(str, arguments(data, run))],
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
    process.send_signal(signal_number)
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def assert_same(run, whole):
    for ours, theirs in zip(metrics(run), metrics(whole), strict=True):
        for name in ("epoch", "step", "wer", "per", "learning_rate"):
            assert ours[name] == pytest.approx(theirs[name], abs=1e-9), name
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    for name in ("best", "state"):
        arrays, others = read(run, name)[0], read(whole, name)[0]
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


@pytest.mark.slow
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


def test_an_update_sees_the_effective_batch_whatever_a_device_holds(data, whole, tmp_path):
    """Half of a batch at a time makes as many updates of an epoch, not twice as many."""
    options = [*arguments(data, tmp_path / "run"), "--batch-tokens", 128, "--epochs", 1]
    done = run_zoo(*options, "--effective-batch-tokens", 256)
    assert done.returncode == 0, done.stderr
    assert metrics(tmp_path / "run")[0]["step"] == metrics(whole)[0]["step"]


def test_a_damaged_checkpoint_is_passed_over(data, whole, tmp_path):
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
    done = run_zoo("train", "pronounce", "--output", run)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"zoo: {older} is damaged")
    assert done.stderr.count("\n") == 2


def test_a_loss_that_is_no_number_ends_it(data, tmp_path):
    options = [*arguments(data, tmp_path / "run"), "--learning-rate", 3e38, "--warmup-steps", 0]
    done = run_zoo(*options)
    assert done.returncode == 1
    assert done.stderr.startswith("zoo: The loss or a gradient was no number in 5 steps one after")
    assert done.stderr.count("\n") == 1
    assert Checkpoints(tmp_path / "run").states() == []  # the first step's weights are infinite


@pytest.mark.slow
def test_more_epochs_than_it_began_with(data, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    done = run_zoo("train", "pronounce", "--output", run, "--epochs", EPOCHS + 1)
    assert done.returncode == 0, done.stderr
    assert [line["epoch"] for line in metrics(run)] == [1, 2, 3, 4]
    assert json.loads((run / "run.json").read_text())["config"]["epochs"] == EPOCHS + 1


@pytest.mark.slow
def test_deterministic_is_the_same_to_the_last_bit(data, tmp_path):
    runs = [tmp_path / "one", tmp_path / "other"]
    for run in runs:
        assert run_zoo(*arguments(data, run), "--deterministic").returncode == 0
    one, other = (read(run, "state")[0] for run in runs)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_killed_twenty_times(data, tmp_path):
    """At any moment, also while a checkpoint is written: the end is the same to the last bit."""
    rng = random.Random()
    whole, run = tmp_path / "whole", tmp_path / "run"
    options = [*arguments(data, whole), "--deterministic"]
    began = time.monotonic()
    assert run_zoo(*options).returncode == 0
    lasts = time.monotonic() - began
    command = [ZOO, *map(str, [*arguments(data, run), "--deterministic"])]
    kills = 0
    while kills < 20:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=lasts * rng.uniform(0.3, 0.8))
            shutil.rmtree(run)  # it came to its end: once more
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills += 1
    assert run_zoo(*command[1:]).returncode == 0
    for name in ("best", "state"):
        for a, b in zip(read(run, name)[0], read(whole, name)[0], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_a_full_disk_is_told_and_what_was_saved_stays(data, whole, tmp_path):
    """A small file system in memory, which only root can mount."""
    small = tmp_path / "small"
    small.mkdir()
    size = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size // 2}", "none", str(small)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        done = run_zoo(*arguments(data, small / "run"))
        assert done.returncode == 1
        assert done.stderr.startswith(f"zoo: {small / 'run'}")
        assert done.stderr.endswith("No space left on device\n")
        assert done.stderr.count("\n") == 1
        subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        done = run_zoo(*arguments(data, small / "run"))
        assert done.returncode == 0, done.stderr
        assert "going on at epoch" in done.stdout
        assert_same(small / "run", whole)
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.slow
def test_it_stops_when_nothing_gets_better(data, tmp_path):
    options = ["--patience", 1, "--epochs", 9, "--learning-rate", 1e-9, "--jit"]
    done = run_zoo(*arguments(data, tmp_path / "run"), *options)
    assert done.returncode == 0, done.stderr
    assert len(metrics(tmp_path / "run")) == 2
    assert "best: epoch 1" in done.stdout
