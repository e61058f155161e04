"""A dictionary of made-up words, small enough to train on in seconds, and a run on it."""

import json
import random

import numpy as np
import pytest

from zoo.training.checkpoints import Checkpoints

SOUNDS = {"a": "AA", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F", "ch": "CH"}


def write_dictionary(folder, train=2000, dev=60, seed=0):
    """Writes train.tsv and dev.tsv: each letter has its sound, and "c" before "h" another."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    words = set()
    while len(words) < train + dev:
        words.add("".join(rng.choice(list(SOUNDS)) for _ in range(rng.randint(2, 5))))
    lines = [f"{word}\t{pronounce(word)}\n" for word in sorted(words, key=lambda _: rng.random())]
    (folder / "train.tsv").write_text("".join(lines[:train]))
    (folder / "dev.tsv").write_text("".join(lines[train:]))
    return folder


def pronounce(word):
    sounds = []
    while word:
        letter = "ch" if word.startswith("ch") else word[0]
        sounds.append(SOUNDS[letter])
        word = word.removeprefix(letter)
    return " ".join(sounds)


# Options with which a run on these words takes seconds.
SMALL = [
    *("--model", "recurrent"),
    *("--units", "24"),
    *("--layers", "1"),
    *("--dropout", "0.1"),
    *("--batch-tokens", "256"),
    *("--num-buckets", "2"),
    *("--learning-rate", "0.02"),
    *("--warmup-steps", "10"),
    *("--average", "2"),
]

EPOCHS = 3


def train_command(data, run):
    """Trains on them, with a checkpoint after each step."""
    options = ["--data", data, "--epochs", EPOCHS, "--save-minutes", 0, *SMALL]
    return ["train", "pronounce", "--output", run, *options]


def metrics(run):
    """What a run has logged: a dict for each epoch."""
    file = run / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def read(run, name):
    """The newest state, or what has another name."""
    checkpoints = Checkpoints(run)
    return checkpoints.read_state() if name == "state" else checkpoints.read(name)


def assert_same(run, whole):
    for ours, theirs in zip(metrics(run), metrics(whole), strict=True):
        for name in ("epoch", "step", "wer", "per", "learning_rate"):
            assert ours[name] == pytest.approx(theirs[name], abs=1e-9), name
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    assert_weights_same(run, whole)


def assert_weights_same(run, whole):
    for name in ("best", "state"):
        arrays, others = read(run, name)[0], read(whole, name)[0]
        for array, other in zip(arrays, others, strict=True):
            np.testing.assert_allclose(array, other, rtol=1e-4, atol=1e-5)
