"""Small pipelines of random weights: what they say is nonsense, and repeatable."""

import keras
import numpy as np

from tests.tools import randomize
from zoo import (
    AttentionCell,
    BahdanauAttention,
    ImageEncoder,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    Seq2Seq,
)
from zoo.image import ImageReader
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


def tiny_image_pipeline():
    """Images of 16 x 16 pixels, looked at in a grid of 4 x 4."""
    words = SymbolTokenizer(["a", "dog", "on", "the", "beach"])
    network = keras.Sequential([keras.layers.Conv2D(6, 4, strides=4)])
    cell = AttentionCell(keras.layers.GRUCell(6), BahdanauAttention(5), query="previous_state")
    model = Seq2Seq(ImageEncoder(network, 6), RecurrentDecoder(words.vocabulary_size, 6, cell))
    search = {"beam_width": 3, "num_results": 3, "max_length": 6, "min_length": 4}
    pipeline = Pipeline(model, ImageReader(16, patch=4), words, search)
    randomize(pipeline.model, scale=1.0)
    return pipeline
