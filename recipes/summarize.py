"""Summaries: the subject line of an e-mail, or the summary of any text, which may copy its words.

    zoo train summarize --output runs/subjects    # on tfds:aeslc, or on a folder of JSON lines:
    zoo train summarize --data aeslc --source body --target subject --output runs/subjects
    zoo export runs/subjects --output saved_models/summarize_subjects
    zoo predict saved_models/summarize_subjects "Please find attached the revised budget for 2002."

A text is read in pieces of words, up to --max-length of them; what is beyond is cut off, and the
report and the model's card say so. What a summary is made of stands in its text mostly, names and
numbers that no vocabulary has whole: a pointer-generator (See et al. 2017) writes pieces of its
own or copies those that its attention looks at (with --no-copy it does not). A loss on attention,
--coverage-weight, keeps it from looking at the same place again.

What must be beaten is a summary that takes the first words of the text: its ROUGE is printed
before the training begins. On AESLC's test set Zhang & Tetreault 2019, who train an extractor, an
abstractor and a judge of subject lines, have ROUGE-1, 2 and L of 23.67, 10.29 and 23.44.
"""

import dataclasses
import sys
from typing import Literal

import keras

import zoo
from zoo.cli import main
from zoo.data import load_examples
from zoo.evaluation.metrics import evaluate
from zoo.serving import Pipeline
from zoo.text import SentencePieceTokenizer
from zoo.training.attention_losses import CoverageLoss
from zoo.training.learn import learn
from zoo.training.settings import SearchSettings

METRICS = ("rouge1", "rouge2", "rougeL")


@dataclasses.dataclass(kw_only=True)
class Config(SearchSettings):
    """Summaries: a text such as an e-mail, and in a few words what it is about."""

    data: str = "tfds:aeslc"
    """Folder with train.jsonl and dev.jsonl, an object on each line, or with train.tsv and dev.tsv
    (text, tab, summary); or tfds:NAME, such as tfds:cnn_dailymail or tfds:gigaword."""
    source: str | None = None
    """Key of the texts in JSON lines, or their name in the tfds: set."""
    target: str | None = None
    """Key or name of the summaries."""
    model: Literal["recurrent", "transformer"] = "recurrent"
    """What reads and what writes."""
    units: int = 256
    """Of each layer; of an LSTM layer that reads in both directions, of both together."""
    layers: int | None = None
    """In the encoder and in the decoder. By default 1, 3 of a Transformer."""
    dropout: float = 0.3
    """Of embeddings and of what layers hand on."""
    copy: bool = True
    """May copy pieces of the text."""
    coverage_weight: float = 0.0
    """How much it matters that nothing is looked at twice."""
    vocabulary_size: int = 8000
    """Pieces of words, of texts and summaries together."""
    summary_length: int = 40
    """Pieces that may be written at most."""
    length_penalty: float = 1.0
    """Above 0 favours longer summaries."""
    no_repeat_ngram: int = 2
    """So many pieces in a row are written once only; 0 allows them again."""

    # AESLC is small: its dev ROUGE is best after ten epochs or so, and falls from there on.
    max_length: int = 200
    learning_rate: float = 2e-3
    warmup_steps: int = 300
    patience: int = 4
    of_training = ("source", "target", "coverage_weight")

    @property
    def search(self):
        own = {"length_penalty": self.length_penalty, "no_repeat_ngram": self.no_repeat_ngram}
        return super().search | own

    def validate(self):
        super().validate()
        self.require("units", self.units > 0 and self.units % 8 == 0, "a multiple of 8")
        self.require("layers", self.layers is None or self.layers > 0, "at least 1")
        self.require("coverage_weight", self.coverage_weight >= 0, "0 or more")
        self.require("vocabulary_size", self.vocabulary_size >= 32, "at least 32")
        self.require("summary_length", self.summary_length >= 1, "at least 1")


def train(config):
    # Texts, and for each its summary; no text is too long, since what is beyond is not read.
    named = {"source": config.source, "target": config.target, "most_characters": 1_000_000}
    texts = load_examples(config.data, "train", **named)
    dev = load_examples(config.data, "validation", **named)
    print(f"train: {texts.report}\ndev: {dev.report}\n{first_words(dev)}")
    losses = [CoverageLoss(config.coverage_weight)] if config.coverage_weight else []
    options = {"attention_losses": losses, "cut_sources": True}
    return learn(config, __file__, texts, dev, build, METRICS, **options)


def first_words(dev, counts=range(4, 21, 4)):
    """What a summary of the first words scores, as many of them as are best."""
    said = {n: [" ".join(text.split()[:n]) for text in dev.sources] for n in counts}
    scores = {n: evaluate(lines, dev.targets, METRICS) for n, lines in said.items()}
    best = max(counts, key=lambda n: scores[n]["rouge1"]["score"])
    listed = ", ".join(f"{name} {value['score']:.2f}" for name, value in scores[best].items())
    return f"the first {best} words of each text: {listed}"


def build(config, texts, summaries):
    """Text in, text out: the model between the pieces of both, which are the same."""
    pieces = SentencePieceTokenizer.train([*texts, *summaries], config.vocabulary_size)
    make = {"recurrent": recurrent, "transformer": transformer}[config.model]
    encoder, decoder = make(pieces.vocabulary_size, config)
    if config.copy:
        encoder, decoder = zoo.CopyEncoder(encoder), zoo.CopyDecoder(decoder)
    search = config.search | {"max_length": config.summary_length}
    model = zoo.Seq2Seq(encoder, decoder, share_embeddings=True)
    return Pipeline(model, pieces, pieces, search, max_source_length=config.max_length)


def recurrent(size, config):
    units, half, layers = config.units, config.units // 2, config.layers or 1
    shared = {"num_layers": layers, "bidirectional": True, "dropout": config.dropout}
    encoder = zoo.RecurrentEncoder(size, half, half, cell="lstm", **shared)
    cells = zoo.ResidualRNNCells([keras.layers.LSTMCell(units) for _ in range(layers)])
    attention, emits = zoo.BahdanauAttention(half), {"attention_size": half, "activation": "tanh"}
    cell = zoo.AttentionCell(cells, attention, query="previous_state", **emits)
    options = {"dropout": config.dropout, "tie_embeddings": True}
    return encoder, zoo.RecurrentDecoder(size, half, cell, **options)


def transformer(size, config):
    sizes = {"dim": config.units, "num_layers": config.layers or 3, "num_heads": 4}
    sizes |= {"feedforward_dim": 2 * config.units, "dropout": config.dropout}
    decoder = zoo.TransformerDecoder(size, tie_embeddings=True, **sizes)
    return zoo.TransformerEncoder(size, **sizes), decoder


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
