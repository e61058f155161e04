"""A small pipeline of random weights: what it says is nonsense, and repeatable."""

import keras
import numpy as np

from tests.tools import randomize
from zoo import AttentionCell, LuongAttention, RecurrentDecoder, RecurrentEncoder, Seq2Seq
from zoo.serving import Pipeline
from zoo.text import CharacterTokenizer, SymbolTokenizer


def tiny_pipeline(seed=0, dropout=0.5, sampling_probability=0.0, **search):
    letters = CharacterTokenizer("abcdefghijklmnopqrstuvwxyzé", lowercase=True)
    sounds = SymbolTokenizer(["AA", "B", "D", "EH", "K", "ʃ"])
    encoder = RecurrentEncoder(
        letters.vocabulary_size, 8, units=6, cell="lstm", bidirectional=True,
        dropout=dropout, recurrent_dropout=dropout,
    )  # fmt: skip
    cell = keras.layers.LSTMCell(6, recurrent_dropout=dropout)
    cell = AttentionCell(cell, LuongAttention(), attention_size=7, activation="tanh")
    decoder = RecurrentDecoder(
        sounds.vocabulary_size, 8, cell, dropout=dropout, sampling_probability=sampling_probability
    )
    search = {"beam_width": 4, "num_results": 3, "max_length": 12, **search}
    pipeline = Pipeline(Seq2Seq(encoder, decoder), letters, sounds, search, max_source_length=20)
    randomize(pipeline.model, seed)
    bias = pipeline.model.decoder.output_dense.bias
    bias.assign(bias.numpy() + 4.0 * (np.arange(bias.shape[0]) == 2))  # some answers shall end
    return pipeline
