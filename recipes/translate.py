"""Translation: four models from the history of attention, on captions of Multi30k or other pairs.

    zoo train translate --data multi30k --source en --target de --output runs/en_de
    zoo export runs/en_de --output saved_models/translate_en_de
    zoo predict saved_models/translate_en_de "A man is riding a bicycle."

All four read and write pieces of words, which SentencePiece learns from the training's text:

    seq2seq      an LSTM hands its last state to another: the bottleneck (Cho et al. 2014)
    bahdanau     a GRU looks back at every piece, then takes its step (Bahdanau et al. 2015)
    luong        an LSTM takes its step, then looks back (Luong et al. 2015)
    transformer  attention and nothing else (Vaswani et al. 2017)

What others reach on Multi30k from English to German, test set of 2016 (BLEU of lower-cased words,
which `zoo evaluate --comparable` computes):

    GRU with attention (Caglayan et al. 2017)          38.1
    Transformer, four layers of 128 (Wu et al. 2021)   41.02
"""

import dataclasses
import sys
from typing import Literal

import keras

import zoo
from zoo.cli import main
from zoo.data import load_examples
from zoo.serving import Pipeline
from zoo.text import SentencePieceTokenizer
from zoo.training.learn import learn
from zoo.training.settings import GuidedSettings, SearchSettings

METRICS = ("bleu", "chrf")


@dataclasses.dataclass(kw_only=True)
class Config(GuidedSettings, SearchSettings):
    """Translation: a sentence in one language, the same in another."""

    data: str = "multi30k"
    """multi30k, which is downloaded; multi30k:FOLDER, where its files are; tfds:NAME; or a folder
    with train.SOURCE, train.TARGET, val.SOURCE and val.TARGET."""
    source: str | None = None
    """Language to translate from: the ending of its files, or its name in the tfds: set."""
    target: str | None = None
    """Language to translate into."""
    model: Literal["seq2seq", "bahdanau", "luong", "transformer"] = "transformer"
    """What reads and what writes."""
    units: int | None = None
    """Of each layer. By default 128 for a Transformer, 512 for the others."""
    layers: int | None = None
    """In the encoder and in the decoder. By default 4 for a Transformer, 1 for the others."""
    dropout: float = 0.3
    """Of embeddings and of what layers hand on."""
    inner_dropout: float = 0.0
    """Of a Transformer's attention weights, and inside its feed-forward parts."""
    recurrent_dropout: float = 0.2
    """Of recurrent states, the same units all along a sentence (Gal & Ghahramani 2016)."""
    vocabulary_size: int = 8000
    """Pieces of words: of both languages together if joint, else of each."""
    subword_sampling: float = 0.0
    """Other pieces for each epoch, drawn by their probability to this power (Kudo 2018); 0: not."""
    joint: bool = True
    """Both languages have the same pieces and the same embeddings."""
    tokenizers_from: str | None = None
    """SavedModel whose pieces are taken, not new ones; models that share them form ensembles."""
    length_penalty: float = 1.0
    """Above 0 favours longer translations."""

    epochs: int = 60
    learning_rate: float = 2e-3
    warmup_steps: int = 1000
    average: int = 10
    of_training = ("source", "target", "subword_sampling", "tokenizers_from")

    @property
    def search(self):
        return super().search | {"length_penalty": self.length_penalty}

    def validate(self):
        super().validate()
        right = self.units is None or (self.units > 0 and self.units % 4 == 0)
        self.require("units", right, "a multiple of 4")
        self.require("layers", self.layers is None or self.layers > 0, "at least 1")
        self.require("subword_sampling", self.subword_sampling >= 0, "0 or more")
        self.require("vocabulary_size", self.vocabulary_size >= 32, "at least 32")
        is_one = not (self.init_from and self.tokenizers_from)
        self.require("tokenizers_from", is_one, "left out beside --init-from, which has its own")


def train(config):
    texts = load_examples(config.data, "train", config.source, config.target)
    dev = load_examples(config.data, "validation", config.source, config.target)
    print(f"train: {texts.report}\ndev: {dev.report}")
    return learn(config, __file__, texts, dev, build, METRICS, config.subword_sampling)


def build(config, sources, targets):
    """Text in, text out: the model between the tokenizers of both languages."""
    if config.tokenizers_from:
        given = zoo.load(config.tokenizers_from)
        reads, writes = given.source_tokenizer, given.target_tokenizer
    elif config.joint:
        reads = writes = SentencePieceTokenizer.train([*sources, *targets], config.vocabulary_size)
    else:
        sides = (sources, targets)
        reads, writes = (SentencePieceTokenizer.train(s, config.vocabulary_size) for s in sides)
    make = transformer if config.model == "transformer" else recurrent
    parts = make(reads.vocabulary_size, writes.vocabulary_size, config)
    search = config.search | {"max_length": 2 * config.max_length}
    model = zoo.Seq2Seq(*parts, share_embeddings=reads.serialize() == writes.serialize())
    return Pipeline(model, reads, writes, search, 2 * config.max_length, length_ratio=2.0)


def transformer(reads, writes, config):
    units, layers = config.units or 128, config.layers or 4
    sizes = {"dim": units, "num_layers": layers, "feedforward_dim": 2 * units}
    sizes |= {"num_heads": 4, "dropout": config.dropout, "inner_dropout": config.inner_dropout}
    decoder = zoo.TransformerDecoder(writes, tie_embeddings=True, **sizes)
    return zoo.TransformerEncoder(reads, **sizes), decoder


def recurrent(reads, writes, config):
    units, layers = config.units or 512, config.layers or 1
    half, dropped = units // 2, {"recurrent_dropout": config.recurrent_dropout}
    kind = "gru" if config.model == "bahdanau" else "lstm"
    make = keras.layers.GRUCell if kind == "gru" else keras.layers.LSTMCell
    cells = [make(units, **dropped) for _ in range(layers)]
    cell = keras.layers.StackedRNNCells(cells) if layers > 1 else cells[0]
    # What the cell gives is as wide as an embedding, whose weights the output layer has.
    emits = {"attention_size": half, "activation": "tanh"}
    if config.model == "bahdanau":
        attention = zoo.BahdanauAttention(half)
        cell = zoo.AttentionCell(cell, attention, query="previous_state", **emits)
    elif config.model == "luong":
        cell = zoo.AttentionCell(cell, zoo.LuongAttention("general"), query="output", **emits)
    dim = units if config.model == "seq2seq" else half
    reading = {"cell": kind, "num_layers": layers, "bidirectional": True, **dropped}
    encoder = zoo.RecurrentEncoder(reads, dim, half, dropout=config.dropout, **reading)
    # The summary is all that a model without attention ever sees of the source.
    writing = {"feed_summary": config.model == "seq2seq", "tie_embeddings": True}
    decoder = zoo.RecurrentDecoder(writes, dim, cell, dropout=config.dropout, **writing)
    return encoder, decoder


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
