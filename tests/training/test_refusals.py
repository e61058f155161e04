"""What a run cannot be gone on with, or begun with, is told in a line, and nothing is lost."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess

import pytest

from tests.tools import run_zoo
from tests.training.tools import assert_same, metrics, train_command, write_dictionary
from zoo.training.checkpoints import Checkpoints


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_other_settings_are_not_mixed_in(data, whole, tmp_path, zoo_here):
    done = zoo_here("train", "pronounce", "--output", whole, "--units", 16)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines() == [
        f"zoo: {whole} holds a run with units=24. Received: units=16. Choose another --output, or "
        "leave the option out to go on"
    ]
    (tmp_path / "letter.txt").write_text("Dear all")
    done = zoo_here(*train_command(data, tmp_path))
    assert done.returncode == 1
    assert "is not empty and holds no run" in done.stderr
    assert (tmp_path / "letter.txt").read_text() == "Dear all"


def test_a_run_of_another_recipe_is_not_mixed_in(whole, zoo_here):
    """Nor is the data of the other recipe looked for."""
    before = content(whole)
    done = zoo_here("train", "translate", "--output", whole)
    assert done.returncode == 1
    assert done.stderr == (
        f"zoo: {whole} holds a run of the recipe pronounce. Received: translate. Choose another "
        "--output\n"
    )
    assert content(whole) == before


def test_a_run_is_trained_by_one_process(whole, zoo_here):
    with open(whole / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = zoo_here("train", "pronounce", "--output", whole)
    assert done.returncode == 1
    assert done.stderr == f"zoo: {whole} is being trained by another process\n"


def test_data_that_has_changed_is_not_mixed_in(whole, tmp_path, zoo_here):
    other = write_dictionary(tmp_path / "words", train=1900)
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    about = json.loads((run / "run.json").read_text())
    about["config"]["data"] = str(other)
    (run / "run.json").write_text(json.dumps(about))
    done = zoo_here("train", "pronounce", "--output", run)
    assert done.returncode == 1
    assert "was begun with other data" in done.stderr


def test_a_vocabulary_that_has_changed_is_not_mixed_in(whole, tmp_path, zoo_here):
    """Symbols in another order, which are other ids; and one more, which no weight is there for."""
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    pipeline = json.loads((run / "pipeline.json").read_text())
    symbols = pipeline["target_tokenizer"]["symbols"]
    for changed, message in {
        (*symbols[::-1],): "was begun with other data or another vocabulary",
        (*symbols, "ZH"): "the checkpoints are of another vocabulary or model than pipeline.json",
    }.items():
        pipeline["target_tokenizer"]["symbols"] = changed
        size = pipeline["model"]["config"]["decoder"]["config"]["vocabulary_size"]
        more = len(changed) - len(symbols)
        pipeline["model"]["config"]["decoder"]["config"]["vocabulary_size"] = size + more
        (run / "pipeline.json").write_text(json.dumps(pipeline))
        before = content(run / "checkpoints")
        done = zoo_here("train", "pronounce", "--output", run)
        assert done.returncode == 1
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
        assert content(run / "checkpoints") == before


def test_an_update_sees_the_effective_batch_whatever_a_device_holds(
    data, whole, tmp_path, zoo_here
):
    """Half of a batch at a time makes as many updates of an epoch, not twice as many."""
    options = [*train_command(data, tmp_path / "run"), "--batch-tokens", 128, "--epochs", 1]
    done = zoo_here(*options, "--effective-batch-tokens", 256)
    assert done.returncode == 0, done.stderr
    assert metrics(tmp_path / "run")[0]["step"] == metrics(whole)[0]["step"]


def test_a_loss_that_is_no_number_ends_it(data, tmp_path, zoo_here):
    options = [*train_command(data, tmp_path / "run"), "--learning-rate", 3e38, "--warmup-steps", 0]
    done = zoo_here(*options)
    assert done.returncode == 1
    assert done.stderr.startswith("zoo: The loss or a gradient was no number in 5 steps one after")
    assert done.stderr.count("\n") == 1
    assert Checkpoints(tmp_path / "run").states() == []  # the first step's weights are infinite


@contextlib.contextmanager
def mounted(folder, options):
    """A file system in memory, which only root can mount."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_folder_that_cannot_be_written_is_told(data, whole, tmp_path, zoo_here):
    """A run that is to begin there, and one that is to go on."""
    place = tmp_path / "place"
    with mounted(place, "size=20m"):
        shutil.copytree(whole, place / "run")
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        before = content(place)
        for run, file in {place / "new": place / "new", place / "run": place / "run/lock"}.items():
            done = zoo_here(*train_command(data, run))
            assert done.returncode == 1
            assert done.stderr == f"zoo: {file}: Read-only file system\n"
        assert content(place) == before


@pytest.mark.slow
def test_a_full_disk_is_told_and_what_was_saved_stays(data, whole, tmp_path):
    small = tmp_path / "small"
    size = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    with mounted(small, f"size={size // 2}"):
        done = run_zoo(*train_command(data, small / "run"))
        assert done.returncode == 1
        assert done.stderr.startswith(f"zoo: {small / 'run'}")
        assert done.stderr.endswith("No space left on device\n")
        assert done.stderr.count("\n") == 1
        subprocess.run(["mount", "-o", "remount,size=100m", str(small)], check=True)
        done = run_zoo(*train_command(data, small / "run"))
        assert done.returncode == 0, done.stderr
        assert "going on at epoch" in done.stdout
        assert_same(small / "run", whole)
