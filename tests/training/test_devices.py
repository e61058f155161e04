"""One device or several, one process or two: the same weights, and no worker that hangs."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.tools import ZOO
from tests.training.tools import SMALL, write_dictionary
from zoo.training.checkpoints import Checkpoints

ROOT = pathlib.Path(__file__).parents[2]

# Twenty steps of the translate recipe, without what is drawn, and the weights before and after.
# One device goes on to take the same steps in two turns.
STEPS = """
import dataclasses
import itertools
import sys

import numpy as np
import tensorflow as tf

kind, data, folder, model = sys.argv[1:]
if kind == "mirrored":
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from zoo.training import devices

taken = devices.start({"mirrored": "mirrored", "workers": "multiworker"}.get(kind, "cpu"))
assert taken.replicas == (2 if kind in ("mirrored", "workers") else 1)
import keras
from recipes import translate
from zoo.data import Batches, load_examples
from zoo.training.run import Run
from zoo.training.trainer import Trainer


def run(name):
    output = f"{folder}/{name}.npz"
    config = translate.Config(
        output=output, data=data, source="en", target="de", model=model, units=16, layers=1,
        dropout=0.0, recurrent_dropout=0.0, vocabulary_size=48, learning_rate=0.6, warmup_steps=0,
        decay="constant", batch_tokens=128 if name == "turns" else 256, effective_batch_tokens=256,
    )
    texts = load_examples(data, "train", "en", "de")
    pipeline = Run(config, "translate", {"train": texts}).pipeline(
        lambda: translate.build(config, *texts.pairs())
    )
    sides = (pipeline.source_tokenizer, pipeline.target_tokenizer)
    batches = Batches(
        *[tokenizer.tokenize(side).to_list() for tokenizer, side in zip(sides, texts.pairs())],
        batch_tokens=config.update_tokens, num_buckets=3, seed=1,
    )
    with taken.strategy.scope():
        optimizer = keras.optimizers.SGD(config.learning_rate)
    trainer = Trainer(pipeline.model, config, 100, optimizer)
    with_adam = Trainer(pipeline.model, dataclasses.replace(config, learning_rate=2e-3), 100)
    assert trainer.turns == (2 if name == "turns" else 1)
    first20 = list(itertools.islice(itertools.chain(*map(batches.epoch, range(9))), 20))
    before = [weight.numpy() for weight in pipeline.model.weights]
    losses = [float(trainer.step(batch)[0]) for batch in first20]
    after = [weight.numpy() for weight in pipeline.model.weights]
    losses += [float(with_adam.step(batch)[0]) for batch in first20]
    if taken.is_chief:
        moved = [abs(a - b).max() for a, b in zip(after, before)]
        np.savez(output, *after, losses=losses, moved=moved)


for name in ["one", "turns"] if kind == "one" else [kind]:
    run(name)
"""


def write_sentences(folder):
    """Sixty sentences, and the same backwards in capitals."""
    rng = np.random.default_rng(0)
    words = ["a", "man", "dog", "rides", "sees", "red", "big", "ball", "two", "and"]
    folder.mkdir()
    for split, count in {"train": 60, "val": 8}.items():
        lines = [" ".join(rng.choice(words, rng.integers(2, 9))) for _ in range(count)]
        (folder / f"{split}.en").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{split}.de").write_text("".join(f"{line[::-1].upper()}\n" for line in lines))
    return folder


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def environments(count=2):
    """The environment of each worker."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(count)]}
    return [
        {
            **os.environ,
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}}),
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("model", ["transformer", pytest.param("luong", marks=pytest.mark.slow)])
def test_the_weights_do_not_depend_on_what_computes_them(model, tmp_path):
    data = write_sentences(tmp_path / "data")
    for kind in ("one", "mirrored", "workers"):
        command = [sys.executable, "-c", STEPS, kind, data, tmp_path, model]
        surroundings = environments() if kind == "workers" else [None]
        processes = [subprocess.Popen(command, cwd=ROOT, env=env) for env in surroundings]
        assert [process.wait(timeout=300) for process in processes] == [0] * len(processes)
    kinds = ("one", "turns", "mirrored", "workers")
    one, *others = (np.load(tmp_path / f"{kind}.npz") for kind in kinds)
    # A bias of keys changes no softmax.
    assert ((one["moved"] > 5e-4) | (one["moved"] < 1e-7)).all(), one["moved"]
    assert (one["moved"] > 1e-2).mean() > 0.9
    for kind, other in zip(kinds[1:], others, strict=True):
        for name in set(one.files) - {"losses", "moved"}:
            np.testing.assert_allclose(other[name], one[name], rtol=0, atol=1e-5, err_msg=kind)
        np.testing.assert_allclose(other["losses"], one["losses"], rtol=1e-4, err_msg=kind)


OPTIONS = ["--epochs", 2, "--save-minutes", 0, "--strategy", "multiworker", *SMALL]


def start_workers(data, run, folders=(ROOT, ROOT)):
    """Both, on the same data or each on its own, in their working folders."""
    command = [ZOO, "train", "pronounce", "--output", str(run), *map(str, OPTIONS), "--data"]
    own = data if isinstance(data, list) else [data, data]
    return [
        subprocess.Popen(
            [*command, str(one)],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for one, env, folder in zip(own, environments(), folders, strict=True)
    ]


def outcome(processes):
    """Exit codes, and what each wrote to stdout and, but for TensorFlow's own log, to stderr."""
    written = [process.communicate(timeout=240) for process in processes]
    printed, errors = zip(*written, strict=True)
    errors = [re.sub(r"^[IWEF]\d{4} .*\n", "", text, flags=re.MULTILINE) for text in errors]
    return [process.returncode for process in processes], printed, errors


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    codes, printed, errors = outcome(start_workers(data, run))
    assert codes == [0, 0], errors
    assert "best: epoch" in printed[0]
    assert printed[1].count("epoch") == 0  # one of them talks
    return run


def wait_for_step(run, step, processes):
    deadline = time.time() + 200
    while time.time() < deadline and not any(p.poll() is not None for p in processes):
        if any(int(name.removeprefix("state-")) >= step for name in Checkpoints(run).states()):
            return
        time.sleep(0.02)
    raise AssertionError([process.communicate() for process in processes])


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "number"), [(1, signal.SIGKILL), (0, signal.SIGKILL)])
def test_a_worker_that_is_killed_ends_the_others_and_all_go_on(
    victim, number, data, undisturbed, tmp_path
):
    run = tmp_path / "run"
    processes = start_workers(data, run)
    wait_for_step(run, 5, processes)
    processes[victim].send_signal(number)
    began = time.time()
    codes, _, errors = outcome(processes)
    assert time.time() - began < 90
    assert codes[victim] == -number
    assert codes[1 - victim] == 1
    assert "has lost the others" in errors[1 - victim].strip().splitlines()[-1]
    assert "Graph execution" not in errors[1 - victim]
    assert "the same command" not in errors[1 - victim]

    codes, printed, errors = outcome(start_workers(data, run))
    assert codes == [0, 0], errors
    assert "going on at epoch" in printed[0]
    for name in ("best", Checkpoints(undisturbed).states()[0]):
        arrays, others = (Checkpoints(one).read(name)[0] for one in (run, undisturbed))
        for array, other in zip(arrays, others, strict=True):
            np.testing.assert_allclose(array, other, rtol=1e-4, atol=1e-5)


def test_all_workers_stop_where_one_is_asked_to(data, tmp_path):
    processes = start_workers(data, tmp_path / "run")
    wait_for_step(tmp_path / "run", 5, processes)
    processes[1].send_signal(signal.SIGTERM)
    codes, _, errors = outcome(processes)
    assert codes == [143, 143], errors
    for text in errors:
        assert text == f"zoo: Stopped. The same command goes on with {tmp_path / 'run'}\n"


def test_workers_that_train_on_other_things_are_told(data, tmp_path):
    other = write_dictionary(tmp_path / "other", seed=1)
    codes, _, errors = outcome(start_workers([data, other], tmp_path / "run"))
    assert codes == [1, 1]
    for text in errors:
        assert text.startswith("zoo: All 2 workers must have the same data")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_workers_that_share_no_folder_are_told(data, tmp_path):
    """Two machines, as a relative path has it; a minute passes, in case that it is a slow disk."""
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    codes, _, errors = outcome(start_workers(data, "run", folders))
    assert codes == [1, 1]
    for text in errors:
        assert text.startswith("zoo: All workers must see the folder"), text
        assert "run is another folder, or none, on 1 of them." in text


def test_ctrl_c_ends_the_waiting_for_others(data, tmp_path):
    """Who waits is said; no traceback, no run."""
    other, alone = start_workers(data, tmp_path / "run")
    other.kill()
    other.communicate()
    assert alone.stdout.readline().startswith("worker 1 waits for localhost:")
    time.sleep(0.5)
    alone.send_signal(signal.SIGINT)
    _, errors = alone.communicate(timeout=60)
    assert (alone.returncode, errors) == (-signal.SIGINT, "")
    assert not (tmp_path / "run").exists()


def test_several_machines_have_to_be_named(tmp_path, zoo_here):
    run = tmp_path / "run"
    done = zoo_here("train", "pronounce", "--output", run, "--strategy", "multiworker")
    assert done.returncode == 1
    assert done.stderr.startswith("zoo: `--strategy multiworker` needs to know the machines")
    assert done.stderr.count("\n") == 1
