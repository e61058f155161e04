"""Language models: an LSTM, the same LSTM looking back at its own past, and a Transformer.

    zoo train language_model --data wikitext2 --model attention --output runs/lm_attention
    zoo export runs/lm_attention --output saved_models/language_model
    zoo predict saved_models/language_model "The lobster is" --temperature 0.8 --top-p 0.9
    zoo evaluate saved_models/language_model --source wikitext2/valid.txt.gz

A decoder without memory says which word comes next. What an LSTM knows of the words before is in
its state, the bottleneck once more; here it may also look back at its last states, one by one, and
at what came after those that were like the present one (Grave et al. 2017, Daniluk et al. 2017). A
Transformer has nothing but such looks.

    lstm          one LSTM layer
    attention     the same, and attention to the 100 states before (Luong's general score)
    transformer   attention and nothing else (Vaswani et al. 2017)

All of them have about as many weights, and the same embeddings in and out. They read pieces of
words, but perplexity is told per word, as the literature counts them: minus the log-probability of
the whole text, which is read from its first line to its last, over the number of its words and ends
of lines. WikiText's <unk> is a word as any other. What others reach on WikiText-2's validation text
(217,646 words; their models know 33,278 of them and no others):

    LSTM                                  (Grave et al. 2017)    99.3 on test
    the same, looking back at 100 words   (Grave et al. 2017)    81.6 on test
    two LSTM layers, tied embeddings      (Inan et al. 2017)     91.5
    AWD-LSTM, three layers, 750 epochs    (Merity et al. 2018)   68.6
"""

import dataclasses
import sys
from typing import Annotated, Literal

import keras
import tyro

from zoo import LanguageModel, LuongAttention, RecurrentLanguageModel, TransformerDecoder
from zoo.cli import main
from zoo.data import load_text
from zoo.serving import LanguageModelPipeline
from zoo.text import SentencePieceTokenizer
from zoo.training.learn import learn_text
from zoo.training.settings import SearchSettings

UNITS = {"lstm": 416, "attention": 384, "transformer": 256}  # about as many weights


@dataclasses.dataclass(kw_only=True)
class Config(SearchSettings):
    """Language model: the beginning of a line, the rest of it."""

    data: str = "wikitext2"
    """A folder with train.txt and valid.txt, also with .gz behind; or tfds:NAME."""
    feature: str | None = None
    """Name of the text in a tfds: set that has several."""
    model: Literal["lstm", "attention", "transformer"] = "attention"
    """What writes."""
    units: int | None = None
    """Of embeddings and layers; by default so many that all three have about as many weights."""
    layers: int | None = None
    """By default 1 LSTM layer, or 4 of a Transformer."""
    window: int = 100
    """States that the LSTM with attention looks back at."""
    dropout: float = 0.3
    """Of embeddings, of what layers hand on, and of a Transformer's attention."""
    recurrent_dropout: float = 0.2
    """Of recurrent states, the same units all along a window (Gal & Ghahramani 2016)."""
    vocabulary_size: int = 8000
    """Pieces of words."""
    max_written: int = 64
    """Pieces that the SavedModel writes behind a text."""
    beam_width: int = 4

    # A window follows the other through the text; all are equally long.
    max_length: int = 256
    """Pieces of a window that is read at once; of a text and its continuation together."""
    num_buckets: Annotated[int, tyro.conf.Suppress] = 1
    batch_tokens: int = 4096
    label_smoothing: float = 0.0
    epochs: int = 10
    learning_rate: float = 3e-3
    warmup_steps: int = 200
    average: int = 3
    of_training = ("feature",)

    def validate(self):
        super().validate()
        right = self.units is None or (self.units > 0 and self.units % 4 == 0)
        self.require("units", right, "a multiple of 4")
        self.require("layers", self.layers is None or self.layers > 0, "at least 1")
        self.require("window", self.window >= 1, "at least 1")
        self.require("max_written", 1 <= self.max_written < self.max_length, "below --max-length")


def train(config):
    text = load_text(config.data, "train", config.feature)
    dev = load_text(config.data, "validation", config.feature)
    print(f"train: {len(text.sources)} lines\ndev: {len(dev.sources)} lines")
    return learn_text(config, __file__, text, dev, build)


def build(config, lines):
    """A text in, the text and what comes after it out."""
    # Characters stay as they are, so that all of the text is told, and rare words are one piece.
    pieces = {"normalize": False, "symbols": ["<unk>"]}
    tokenizer = SentencePieceTokenizer.train(filter(None, lines), config.vocabulary_size, **pieces)
    make = transformer if config.model == "transformer" else recurrent
    model = LanguageModel(make(tokenizer.vocabulary_size, config))
    search = config.search | {"max_length": config.max_length}
    search["no_repeat_ngram"] = 3  # what is probable goes round in circles
    window = config.max_length if config.model == "transformer" else None
    return LanguageModelPipeline(model, tokenizer, search, config.max_written, window)


def recurrent(size, config):
    units, layers = config.units or UNITS[config.model], config.layers or 1
    dropped = {"recurrent_dropout": config.recurrent_dropout}
    cells = [keras.layers.LSTMCell(units, **dropped) for _ in range(layers)]
    cell = keras.layers.StackedRNNCells(cells) if layers > 1 else cells[0]
    looks = {}
    if config.model == "attention":
        looks = {"attention": LuongAttention("general"), "window": config.window}
    options = {"dropout": config.dropout, "tie_embeddings": True}
    return RecurrentLanguageModel(size, units, cell, **looks, **options)


def transformer(size, config):
    units, layers = config.units or UNITS["transformer"], config.layers or 4
    sizes = {"dim": units, "num_layers": layers, "num_heads": 4, "feedforward_dim": 3 * units}
    sizes["dropout"] = config.dropout
    return TransformerDecoder(size, tie_embeddings=True, cross_attention=False, **sizes)


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
