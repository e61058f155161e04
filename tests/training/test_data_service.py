"""Batches from a dispatcher and workers in other processes are those that are made here."""

import signal
import socket
import subprocess
import time

import numpy as np
import pytest

from tests.tools import ZOO, run_zoo_here
from tests.training.test_trainer import trainer
from tests.training.tools import SMALL, write_dictionary
from zoo.data import Batches
from zoo.errors import Failure
from zoo.training.checkpoints import Checkpoints
from zoo.training.data_service import DataService

RNG = np.random.default_rng(0)
IDS = [RNG.integers(4, 10, size=n).tolist() for n in RNG.integers(1, 30, size=2400)]
BATCHES = Batches(IDS, IDS[::-1], batch_tokens=128, num_buckets=3, seed=3)


def start(*arguments):
    """A part of the service in a process of its own, and its address."""
    command = [ZOO, "data-service", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()[-1]


@pytest.fixture(scope="module")
def dispatcher():
    process, address = start("dispatcher", "--port", "0")
    yield "localhost:" + address.split(":")[1]
    process.kill()
    process.wait()


class Workers(list):
    """Processes of the dispatcher's workers."""

    def __init__(self, dispatcher):
        self.dispatcher = dispatcher

    def start(self):
        self.append(start("worker", "--dispatcher", self.dispatcher, "--host", "localhost")[0])
        return self[-1]

    def kill(self):
        for process in self:
            process.kill()
            process.wait()
        self.clear()


@pytest.fixture(scope="module")
def workers(dispatcher):
    workers = Workers(dispatcher)
    yield workers
    workers.kill()


def assert_same(batches, others):
    batches, others = list(batches), list(others)
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        for name in ("source", "target"):
            np.testing.assert_array_equal(batch[name], other[name])


def test_its_batches_are_those_without_it_whoever_is_killed(dispatcher, workers, tmp_path, capfd):
    """An epoch, one that goes on in the middle, with other pieces; then a worker is killed."""

    def twice(epoch):
        return [ids + [4 + epoch] * len(ids) for ids in IDS], IDS

    one = workers.start()
    service = DataService(dispatcher, BATCHES, tmp_path, patience=120, give_up=120)
    assert len(BATCHES) > 300
    assert_same(service.epoch(0), BATCHES.epoch(0))
    assert_same(service.epoch(2, first=250), BATCHES.epoch(2, first=250))
    resampled = Batches(IDS, IDS, batch_tokens=128, num_buckets=3, resample=twice)
    other = DataService(dispatcher, resampled, tmp_path, patience=120, give_up=120)
    assert_same(other.epoch(1, first=200), resampled.epoch(1, first=200))
    assert capfd.readouterr().err == ""  # nothing was made here

    workers.start()
    service = DataService(dispatcher, BATCHES, tmp_path, patience=0.5, give_up=120)
    came = service.epoch(1)
    begun = [next(came) for _ in range(20)]
    workers.remove(one)
    one.kill()
    one.wait()
    assert_same([*begun, *came], BATCHES.epoch(1))
    assert list((tmp_path / "batches").iterdir()) == []


def test_its_losses_are_those_without_it(dispatcher, workers, tmp_path):
    if not workers:  # of the test before
        workers.start()
    service = DataService(dispatcher, BATCHES, tmp_path, patience=120, give_up=120)
    losses = []
    for source in (BATCHES, service):
        one = trainer()
        losses.append([float(one.step(b)[0]) for b in source.epoch(0, first=len(BATCHES) - 10)])
    assert losses[0] == losses[1]
    assert losses[0][0] > 0


def test_what_gives_nothing_is_told_in_bounded_time(dispatcher, workers, tmp_path):
    """A dispatcher without workers; then none."""
    workers.kill()
    service = DataService(dispatcher, BATCHES, tmp_path, patience=0.5, give_up=2)
    began = time.monotonic()
    with pytest.raises(Failure, match="has given nothing for 2 seconds"):
        list(service.epoch(0))
    assert time.monotonic() - began < 60
    with pytest.raises(Failure, match="localhost:1: no dispatcher answers there"):
        DataService("localhost:1", BATCHES, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["data-service", "worker"], "A worker needs --dispatcher HOST:PORT"),
        (["data-service", "worker", "--dispatcher", "me"], "Received: --dispatcher me"),
        (["data-service", "dispatcher", "--host", "me"], "are a worker's"),
        (["data-service", "dispatcher", "--port", "99999"], "`--port` must be 0 to 65535"),
        (["train", "pronounce", "--output", "runs/x", "--data-service", "me"], "HOST:PORT"),
    ],
)
def test_a_mistake_is_told_in_a_line(arguments, message, tmp_path, monkeypatch, capsys):
    done = run_zoo_here(monkeypatch, capsys, tmp_path, arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_worker_that_waits_says_so_and_ctrl_c_ends_it():
    with socket.socket() as free:  # bound, but nobody listens
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
        command = [ZOO, "data-service", "worker", "--dispatcher", place]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        line = process.stdout.readline()
        assert line == f"worker waits for a dispatcher at {place}: Connection refused\n"
        time.sleep(3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (-signal.SIGINT, "")


@pytest.mark.slow
def test_a_run_with_it_and_without_it(dispatcher, workers, tmp_path):
    """The same weights to the last bit; and a worker that is asked to end does."""
    one = workers.start()
    words = write_dictionary(tmp_path / "words")
    options = ["--data", words, "--epochs", 2, "--deterministic", *SMALL]
    states = []
    for name, more in {"without": [], "with": ["--data-service", dispatcher]}.items():
        command = [ZOO, "train", "pronounce", "--output", tmp_path / name, *options, *more]
        subprocess.run([str(word) for word in command], check=True)
        states.append(Checkpoints(tmp_path / name).read_state()[0])
    for a, b in zip(*states, strict=True):
        np.testing.assert_array_equal(a, b)
    one.send_signal(signal.SIGTERM)
    assert one.wait(timeout=60) == 143
