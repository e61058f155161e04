"""A dictionary of made-up words, small enough to train on in seconds."""

import random

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
