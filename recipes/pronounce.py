"""Spelling to pronunciation: an attention model on the CMU dictionary.

    zoo train pronounce --output runs/pronounce
    zoo export runs/pronounce --output saved_models/pronounce_en
    zoo predict saved_models/pronounce_en schadenfreude --n-best 3

The encoder reads the letters, the decoder writes one phoneme after the other and looks back at the
letters: a Transformer (Vaswani et al. 2017), or LSTM layers with Luong's attention (Luong et al.
2015). What others reach on the 12,000 test words of the standard split (WER: share of words that
equal no pronunciation of the dictionary; PER: edits over phonemes):

    Phonetisaurus, a weighted transducer (Novak et al. 2012)             WER 24.4
    two LSTM layers of 512, no attention (g2p-seq2seq)                   WER 23.3
    bidirectional LSTM on aligned letters (Yao & Zweig 2015)             WER 23.55  PER 5.45
    Transformer, three layers of 256 (g2p-seq2seq)                       WER 20.6
    ensemble of five attention models (Toshniwal & Livescu 2016)         WER 20.24  PER 4.69
"""

import dataclasses
import sys
from typing import Literal

from zoo.cli import main
from zoo.data import load_examples
from zoo.models.kinds import recurrent, transformer
from zoo.serving import Pipeline
from zoo.text import CharacterTokenizer, SymbolTokenizer
from zoo.training.learn import learn
from zoo.training.settings import SearchSettings


@dataclasses.dataclass(kw_only=True)
class Config(SearchSettings):
    """Spelling to pronunciation: a word in letters, its phonemes between spaces."""

    data: str = "cmu_dict"
    """The dictionary that the zoo brings, or a folder with train.tsv and dev.tsv: a word, a tab,
    its pronunciation as symbols between spaces; more tabs and pronunciations may follow."""
    model: Literal["transformer", "recurrent"] = "transformer"
    """What the encoder and the decoder are made of."""
    units: int = 256
    """Of each layer; of an LSTM layer that reads in both directions, in each."""
    layers: int = 3
    """Layers, in the encoder as in the decoder."""
    dropout: float = 0.1
    """Of embeddings, of what each layer hands on, and of a Transformer's attention."""

    # A word is short: many of them make a batch, and few make a small dictionary seen often.
    epochs: int = 64
    batch_tokens: int = 2048
    learning_rate: float = 1e-3
    warmup_steps: int = 4000
    max_length: int = 32

    def validate(self):
        super().validate()
        self.require("units", self.units > 0 and self.units % 4 == 0, "a multiple of 4")


def train(config):
    # Words, and for each a list of pronunciations.
    words = load_examples(config.data, "train")
    dev = load_examples(config.data, "validation")
    print(f"train: {words.report}\ndev: {dev.report}")
    return learn(config, __file__, words, dev, build, metrics=("wer", "per"))


def build(config, spellings, sounds):
    """Text in, text out: the model between the tokenizers of letters and phonemes."""
    letters = CharacterTokenizer.train(spellings, lowercase=True)
    phonemes = SymbolTokenizer.train(sounds)
    sizes = {"units": config.units, "layers": config.layers, "dropout": config.dropout}
    make = {"transformer": transformer, "recurrent": recurrent}[config.model]
    model = make(letters.vocabulary_size, phonemes.vocabulary_size, **sizes)
    search = config.search | {"max_length": 2 * config.max_length}
    return Pipeline(model, letters, phonemes, search, max_source_length=2 * config.max_length)


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
