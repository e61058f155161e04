"""Spelling to pronunciation: an attention model on the CMU dictionary.

    zoo train pronounce --output runs/pronounce
    zoo export runs/pronounce --output saved_models/pronounce_en
    zoo predict saved_models/pronounce_en schadenfreude --n-best 3

The encoder reads the letters in both directions, the decoder writes one phoneme after the other and
looks back at the letters by Luong's attention. What others reach on the 12,000 test words of the
standard split (WER: share of words that equal no pronunciation of the dictionary; PER: edits over
phonemes):

    Phonetisaurus, a weighted transducer (Novak et al. 2012)             WER 24.4
    two LSTM layers of 512, no attention (g2p-seq2seq)                   WER 23.3
    bidirectional LSTM on aligned letters (Yao & Zweig 2015)             WER 23.55  PER 5.45
    Transformer (g2p-seq2seq)                                            WER 20.6
    ensemble of five attention models (Toshniwal & Livescu 2016)         WER 20.24  PER 4.69
"""

import dataclasses
import sys

import keras

from zoo import (
    AttentionCell,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    ResidualRNNCells,
    Seq2Seq,
)
from zoo.cli import main
from zoo.data import Batches, load_examples
from zoo.serving import Pipeline
from zoo.text import CharacterTokenizer, SymbolTokenizer
from zoo.training.fit import fit
from zoo.training.run import Run
from zoo.training.settings import Settings


@dataclasses.dataclass(kw_only=True)
class Config(Settings):
    """Spelling to pronunciation: a word in letters, its phonemes between spaces."""

    data: str = "cmu_dict"
    """The dictionary that the zoo brings, or a folder with train.tsv and dev.tsv: a word, a tab,
    its pronunciation as symbols between spaces; more tabs and pronunciations may follow."""
    embedding_dim: int = 128
    units: int = 256
    """Of each LSTM layer, and in the encoder of each direction."""
    layers: int = 2
    """LSTM layers, in the encoder as in the decoder."""
    dropout: float = 0.4
    """Of embeddings and of what each layer hands to the next."""
    recurrent_dropout: float = 0.2
    """Of what each layer hands to its own next step."""
    beam_width: int = 5
    num_results: int = 5
    """Pronunciations that the SavedModel gives for a word."""

    # A word is short: many of them make a batch, and few make a small dictionary seen often.
    epochs: int = 64
    batch_tokens: int = 2048
    learning_rate: float = 2e-3
    max_length: int = 32


def train(config):
    # 1. The data: words, and for each a list of pronunciations.
    words = load_examples(config.data, "train")
    dev = load_examples(config.data, "validation")
    print(f"train: {words.report}\ndev: {dev.report}")
    run = Run(config, __file__, {"train": words, "dev": dev})
    spellings, sounds = words.pairs()

    # 2. The model, between the tokenizers of letters and phonemes.
    pipeline = run.pipeline(lambda: build(config, spellings, sounds))
    print(f"{pipeline.model.count_params():,} parameters")

    # 3. The training, with dev scored by beam search after each epoch.
    batches = Batches(
        pipeline.source_tokenizer.tokenize(spellings).to_list(),
        pipeline.target_tokenizer.tokenize(sounds).to_list(),
        batch_tokens=config.batch_tokens,
        num_buckets=config.num_buckets,
        max_length=config.max_length,
        seed=config.seed,
    )
    return fit(run, pipeline, batches, dev, metrics=("wer", "per"))


def build(config, spellings, sounds):
    letters = CharacterTokenizer.train(spellings, lowercase=True)
    phonemes = SymbolTokenizer.train(sounds)
    encoder = RecurrentEncoder(
        letters.vocabulary_size,
        config.embedding_dim,
        config.units,
        cell="lstm",
        num_layers=config.layers,
        bidirectional=True,
        residual=True,
        dropout=config.dropout,
        recurrent_dropout=config.recurrent_dropout,
    )
    cells = [
        keras.layers.LSTMCell(config.units, recurrent_dropout=config.recurrent_dropout)
        for _ in range(config.layers)
    ]
    cell = AttentionCell(
        ResidualRNNCells(cells),
        LuongAttention("general"),
        attention_size=config.units,
        activation="tanh",
    )
    decoder = RecurrentDecoder(
        phonemes.vocabulary_size,
        config.embedding_dim,
        cell,
        initial_state="zeros",  # attention finds its place without the encoder's last state
        dropout=config.dropout,
    )
    search = {
        "beam_width": config.beam_width,
        "num_results": config.num_results,
        "max_length": 2 * config.max_length,
    }
    return Pipeline(
        Seq2Seq(encoder, decoder),
        letters,
        phonemes,
        search,
        max_source_length=2 * config.max_length,
    )


if __name__ == "__main__":
    main(recipe=sys.modules[__name__])
