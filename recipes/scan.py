"""SCAN: whether a network that knows the words understands a new sentence of them.

    git clone https://github.com/brendenlake/SCAN
    zoo train scan --data SCAN --output runs/scan                # all, and the table
    zoo train scan --data SCAN --output runs/scan --split length --model attention --repeats 1

"jump around left twice" is eight actions. Lake & Baroni (2018) trained recurrent networks on such
commands and asked for others, which a person finds no harder: any at random (simple), those of more
than 22 actions (length), those with a verb that had only been seen alone (add-jump), or with a turn
that had been (turn-left). Per cent of test commands whose actions are all right, in their paper:

                                                       simple   length   add-jump   turn-left
    two LSTM layers of 200, best over all                99.7     13.8        0.1        90.0
    best of all networks for the split                   99.8     20.8        1.2        90.3

This is their LSTM of 200 units with dropout 0.5, in one layer, without attention and with
Bahdanau's (2015), with three seeds. They took 100,000 steps of an example each; these are batches.
500 commands of a training set are held out to choose the epoch; the test set is only looked at in
the end.
"""

import dataclasses
import itertools
import random
import statistics
import sys
from typing import Literal

import keras

from zoo import AttentionCell, BahdanauAttention, RecurrentDecoder, RecurrentEncoder, Seq2Seq
from zoo.cli import main
from zoo.data import Examples, Report, load_commands
from zoo.evaluation.metrics import evaluate
from zoo.serving import Pipeline
from zoo.text import SymbolTokenizer
from zoo.training.export_run import best_pipeline
from zoo.training.learn import learn
from zoo.training.settings import Settings

SPLITS = ("simple", "length", "add-jump", "turn-left")
MODELS = {"lstm": "without attention", "attention": "with attention"}
HELD_OUT = 500  # commands
LONGEST = 64  # actions; those of SCAN are 48 at the most


@dataclasses.dataclass(kw_only=True)
class Config(Settings):
    """SCAN: a command, its actions; are new commands understood?"""

    data: str = "tfds:scan"
    """tfds:scan, which is downloaded, or a folder with SCAN's files."""
    split: Literal["all", "simple", "length", "add-jump", "turn-left"] = "all"
    """How the commands of the test differ."""
    model: Literal["both", "lstm", "attention"] = "both"
    """An LSTM without attention or with it."""
    repeats: int = 3
    """Trainings of each model on each split, with the seeds from --seed on."""
    units: int = 200
    """Of embeddings, of the encoder and of the decoder."""
    dropout: float = 0.5
    """Of embeddings and of what layers hand on."""

    epochs: int = 10
    batch_tokens: int = 1024
    learning_rate: float = 2e-3
    warmup_steps: int = 200
    max_length: int = 50
    label_smoothing: float = 0.0
    average: int = 1
    clip_norm: float = 5.0

    def validate(self):
        super().validate()
        self.require("repeats", self.repeats >= 1, "at least 1")
        self.require("units", self.units >= 1, "at least 1")


def train(config):
    config.validate()
    splits = SPLITS if config.split == "all" else (config.split,)
    models = MODELS if config.model == "both" else (config.model,)
    scores = {}
    for split, model in itertools.product(splits, models):
        scores[model, split] = []
        for seed in range(config.seed, config.seed + config.repeats):
            output = f"{config.output}/{split}/{model}/{seed}"  # which goes on, or is done
            print(f"{split}, {MODELS[model]}, seed {seed}")
            own = {"split": split, "model": model, "seed": seed, "repeats": 1, "output": output}
            scores[model, split].append(train_one(dataclasses.replace(config, **own)))
            print(f"accuracy on test: {scores[model, split][-1]:.2f}")
    print(table(scores, splits, models))
    return scores


def train_one(config):
    """The accuracy on the test set of a model that is trained on a split."""
    train, test = (load_commands(config.data, part, config.split) for part in ("train", "test"))
    learn(config, __file__, *hold_out(train), build, ("accuracy",))
    answers = best_pipeline(config.output)(test.sources, batch_size=256)["text"].numpy()
    answers = [text.decode() for text in answers]
    return evaluate(answers, test.targets, ["accuracy"])["accuracy"]["score"]


def hold_out(examples):
    """The examples but for some, and those; the same whatever the seed of the training."""
    pairs = list(zip(examples.sources, examples.targets, strict=True))
    random.Random(0).shuffle(pairs)
    count = min(HELD_OUT, len(pairs) // 4)
    parts = (pairs[count:], pairs[:count])
    return [
        Examples(*map(list, zip(*part, strict=True)), Report(examples=len(part)), examples.licence)
        for part in parts
    ]


def build(config, commands, actions):
    """Text in, text out: the model between the words of commands and actions."""
    reads, writes = SymbolTokenizer.train(commands), SymbolTokenizer.train(actions)
    units, dropout = config.units, config.dropout
    encoder = RecurrentEncoder(reads.vocabulary_size, units, units, cell="lstm", dropout=dropout)
    cell = keras.layers.LSTMCell(units)
    if config.model == "attention":
        cell = AttentionCell(cell, BahdanauAttention(units), query="previous_state")
    # The decoder starts where the encoder ended: without attention that is all it knows.
    decoder = RecurrentDecoder(writes.vocabulary_size, units, cell, "summary", dropout=dropout)
    search = {"beam_width": 1, "max_length": LONGEST}
    return Pipeline(Seq2Seq(encoder, decoder), reads, writes, search, max_source_length=LONGEST)


def table(scores, splits, models):
    """Per cent that are right on test, as the mean of the seeds and their standard deviation."""
    lines = ["".join([" " * 20, *(f"{split:>16}" for split in splits)])]
    for model in models:
        cells = [f"{MODELS[model]:<20}"]
        for split in splits:
            several = scores[model, split]
            spread = f" ± {statistics.stdev(several):.1f}" if len(several) > 1 else ""
            cells.append(f"{f'{statistics.mean(several):.1f}{spread}':>16}")
        lines.append("".join(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
