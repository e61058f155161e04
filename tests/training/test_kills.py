"""Bit for bit the same, however often a run is killed."""

import multiprocessing
import os
import random
import shutil
import sys
import time

import numpy as np
import pytest

from tests.training.tools import metrics, read, train_command
from zoo.cli import main
from zoo.training.checkpoints import Checkpoints

KILLS = 20

# Processes that have imported all of it: most of what a start takes.
STARTER = multiprocessing.get_context("forkserver")
STARTER.set_forkserver_preload(["tests.training.test_kills", "zoo.training.learn"])


def train(arguments):
    """The command, in the process that was started for it."""
    sys.argv = ["zoo", *arguments, "--deterministic"]
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    main()


def start(data, run):
    process = STARTER.Process(target=train, args=([str(x) for x in train_command(data, run)],))
    process.start()
    return process


def wait_for(condition, process):
    """Until it holds, or the process has ended."""
    while not condition() and process.is_alive():
        time.sleep(0.0005)


def newest(run):
    return Checkpoints(run).states()[:1]


def assert_equal(run, other):
    for name in ("best", "state"):
        for a, b in zip(read(run, name)[0], read(other, name)[0], strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_killed_twenty_times(data, tmp_path):
    """At random moments of its start and of its steps, and while a checkpoint is written."""
    rng = random.Random()
    whole, run = tmp_path / "whole", tmp_path / "run"
    began = time.monotonic()
    process = start(data, whole)
    wait_for(lambda: newest(whole), process)
    starts = time.monotonic() - began
    process.join()
    assert process.exitcode == 0
    steps = time.monotonic() - began - starts

    kills = torn = 0
    while kills < KILLS:
        last = newest(run)
        process = start(data, run)
        if kills % 5 == 0:
            process.join(starts * rng.random())
        else:
            wait_for(lambda last=last: newest(run) != last, process)
            if kills % 5 == 1:
                wait_for(lambda: list(run.rglob("*.part")), process)
            else:
                process.join(steps * rng.uniform(0, 2 / KILLS))
        if process.is_alive():
            process.kill()
            kills += 1
        process.join()
        torn += bool(list(run.rglob("*.part")))
        if process.exitcode == 0:  # it came to its end before: once more
            shutil.rmtree(run)
    assert torn
    process = start(data, run)
    process.join()
    assert process.exitcode == 0
    assert_equal(run, whole)
    assert not list(run.rglob("*.part"))
    for line, other in zip(metrics(run), metrics(whole), strict=True):
        for name in ("epoch", "step", "loss", "wer", "per"):
            assert line[name] == other[name]
