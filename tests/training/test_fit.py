"""A run survives whatever ends it, and ends where it would have ended without."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from recipes import pronounce
from tests.tools import ZOO, run_zoo
from tests.training.tools import EPOCHS, assert_same, metrics, read, train_command, write_dictionary
from zoo.data import Batches, load_examples
from zoo.training.checkpoints import Checkpoints
from zoo.training.fit import Interrupted, fit
from zoo.training.learn import learn
from zoo.training.run import Run


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
            # Later, where this process was kept from looking.
            if (values["epoch"], values["batch"]) >= (epochs, 2):
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
    state = read(tmp_path / "run", "state")[1]
    # The options need not be said again.
    done = run_zoo("train", "pronounce", "--output", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert f"going on at epoch {state['epoch'] + 1}, step {state['batch']} of" in done.stdout
    assert_same(tmp_path / "run", whole)


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_asked_to_stop(data, whole, tmp_path, number, code):
    stopped, _, errors = stop(data, tmp_path / "run", number, epochs=0)
    assert stopped == code
    assert errors.strip() == f"zoo: Stopped. The same command goes on with {tmp_path / 'run'}"
    done = run_zoo(*train_command(data, tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "run", whole)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_it_ends_within_seconds(data, tmp_path, zoo_here, number, code):
    """In this process."""
    run, sent = tmp_path / "run", []

    def interrupt():
        while not Checkpoints(run).states():
            time.sleep(0.01)
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    done = zoo_here(*train_command(data, run), "--epochs", 99)
    assert time.monotonic() - sent[0] < 10
    assert done.returncode == code
    assert done.stderr == f"zoo: Stopped. The same command goes on with {run}\n"
    assert read(run, "state")[1]["epoch"] < 99


@pytest.fixture
def small(tmp_path):
    """A config, and 300 words with their dev part, for trainings in this process."""
    words = write_dictionary(tmp_path / "words", train=300, dev=20)
    with open(words / "train.tsv", "a") as file:
        file.write("q\tK\n")
    sizes = {"model": "recurrent", "units": 8, "layers": 1, "batch_tokens": 256, "epochs": 2}
    sizes |= {"learning_rate": 0.01, "warmup_steps": 1}
    config = pronounce.Config(output=str(tmp_path / "run"), data=str(words), **sizes)
    return config, *(load_examples(words, split) for split in ("train", "validation"))


def test_a_step_that_comes_to_nothing_is_told_and_the_others_count(small, tmp_path, capsys):
    """One letter's weights are no numbers, and one word has it."""

    def build(config, *texts):
        pipeline = pronounce.build(config, *texts)
        ((letter,),) = pipeline.source_tokenizer.tokenize(["q"]).to_list()
        table = pipeline.model.encoder.embedding.embeddings
        table.assign(tf.tensor_scatter_nd_update(table.value, [[letter, 0]], [np.nan]))
        return pipeline

    config, *examples = small
    learn(config, pronounce.__file__, *examples, build, ("wer",))
    first, second = metrics(tmp_path / "run")
    assert (first["bad_steps"], second["bad_steps"]) == (1, 1)
    assert second["loss"] < first["loss"]
    assert second["step"] == 2 * first["step"] > 2
    assert capsys.readouterr().out.count("  steps that were no numbers: 1\n") == 2


def test_who_is_alone_stops_after_the_current_step(small, tmp_path):
    """A step may take a minute, and who asks it to end may not wait for three."""

    class Interrupting(Batches):
        def epoch(self, epoch, first=0):
            for number, batch in enumerate(super().epoch(epoch, first), 1):
                if number == 3:
                    os.kill(os.getpid(), signal.SIGTERM)
                yield batch

    config, words, dev = small
    run = Run(config, pronounce.__file__, {"train": words, "dev": dev})
    pipeline = run.pipeline(lambda: pronounce.build(config, *words.pairs()))
    sides = zip((pipeline.source_tokenizer, pipeline.target_tokenizer), words.pairs(), strict=True)
    batches = Interrupting(*(t.tokenize(texts).to_list() for t, texts in sides), batch_tokens=64)
    assert len(batches) > 6
    with pytest.raises(Interrupted) as error:
        fit(run, pipeline, batches, dev, ("wer",))
    assert error.value.exit_code == 143
    assert read(tmp_path / "run", "state")[1]["batch"] == 3


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
