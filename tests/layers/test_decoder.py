"""The contract, kept by decoders that a user would write."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.test_recurrent_decoder import stepped
from tests.tools import PLAIN, close, randomize, to_numpy
from zoo import (
    BeamSearchDecoder,
    Decoder,
    GreedyDecoder,
    SamplingDecoder,
    Seq2Seq,
    TokenCrossentropy,
)


class ConvolutionalDecoder(Decoder):
    """Sees the last three tokens (its state, integers) and the mean of the memory."""

    def __init__(self, vocabulary_size, dim=8, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding = keras.layers.Embedding(vocabulary_size, dim)
        self.hidden = keras.layers.Dense(dim, activation="tanh")
        self.output_dense = keras.layers.Dense(vocabulary_size)

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        if batch_size is None:
            batch_size = ops.shape(memory)[0]
        window = ops.zeros((batch_size, 1, 3), dtype="int32")
        position = ops.convert_to_tensor(0, dtype="int32")
        return {"window": window, "position": position}, {"mean": ops.mean(memory, axis=1)}

    def step(self, tokens, state, source):
        tokens = ops.cast(tokens, "int32")
        window = ops.concatenate([state["window"][:, :, 1:], tokens[:, :, None]], axis=-1)
        embedded = self.embedding(window)  # (batch, beam, 3, dim)
        embedded = ops.reshape(embedded, (*ops.shape(tokens), 3 * embedded.shape[-1]))
        mean = ops.broadcast_to(
            source["mean"][:, None], (*ops.shape(tokens), source["mean"].shape[-1])
        )
        hidden = self.hidden(ops.concatenate([embedded, mean], axis=-1))
        position = state["position"] + 1
        logits = self.output_dense(hidden) + ops.sin(ops.cast(position, "float32"))
        weights = ops.ones((*ops.shape(tokens), 4)) / 4
        return logits, {"window": window, "position": position}, weights


MEMORY = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
TOKENS = np.random.default_rng(1).integers(0, 9, size=(3, 6))


def test_call_steps_over_time_by_default():
    decoder = ConvolutionalDecoder(9)
    decoder(TOKENS, MEMORY)
    randomize(decoder)
    logits, weights = decoder(TOKENS, MEMORY, return_attention_scores=True)
    expected_logits, expected_weights = stepped(decoder, TOKENS, MEMORY)
    close(logits, expected_logits)
    close(weights, expected_weights)


@pytest.mark.parametrize("make", [GreedyDecoder, BeamSearchDecoder, SamplingDecoder])
def test_every_search_takes_it(make):
    decoder = ConvolutionalDecoder(9)
    search = make(decoder, max_length=6)
    search(MEMORY)
    randomize(decoder)
    result = search(MEMORY)
    given = np.concatenate([np.ones((3, 1), "int32"), to_numpy(result.tokens)[:, 0, :-1]], axis=1)
    logits = to_numpy(decoder(given, MEMORY)).astype("float64")
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_probs, to_numpy(result.tokens)[:, 0, :, None], -1)[..., 0]
    written = np.arange(6) < to_numpy(result.lengths)[:, :1]
    close(result.log_probs[:, 0], (picked * written).sum(1), 1e-4)
    assert result.alignments.shape[-1] == 4


def test_a_source_without_mask_passes_none_by_position():
    # An encoder of images has no mask: decoder(tokens, memory, None, None) must work.
    decoder = ConvolutionalDecoder(9)
    close(decoder(TOKENS, MEMORY, None, None), decoder(TOKENS, MEMORY))
    search = GreedyDecoder(decoder, max_length=3)
    assert search(MEMORY, None, None).tokens.shape == (3, 1, 3)


class Copying(Decoder):
    """Writes what the memory, which holds ids, has at the position."""

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        return 0, {"ids": memory["ids"]}

    def step(self, tokens, state, source):
        now = ops.take(source["ids"], ops.minimum(state, 3), axis=1)  # (batch,)
        logits = ops.one_hot(now, 9)[:, None, :] * ops.ones((*ops.shape(tokens), 1)) * 20.0
        return logits, state + 1, None


def test_a_memory_may_be_a_nest_of_integers():
    ids = np.array([[3, 4, 5, 2], [6, 2, 2, 2]])
    result = GreedyDecoder(Copying(), max_length=5)({"ids": ids, "nothing": None})
    assert to_numpy(result.tokens)[:, 0].tolist() == [[3, 4, 5, 2, 2], [6, 2, 2, 2, 2]]


class Careful(Decoder):
    """Float32 state and logits, whatever the policy; a cell with dropout inside `step`."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.embedding = keras.layers.Embedding(9, 4)
        self.cell = keras.layers.GRUCell(6, dropout=0.5, recurrent_dropout=0.5)
        self.output_dense = keras.layers.Dense(9, dtype="float32")

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        h = ops.zeros((batch_size, 1, 6), dtype=self.cell.compute_dtype)
        return {"h": h, "total": ops.ones((batch_size, 1, 1), dtype="float32")}, {}

    def step(self, tokens, state, source):
        batch, beam = ops.shape(tokens)
        rows = ops.reshape(self.embedding(tokens), (-1, 4))
        output, (h,) = self.cell(rows, [ops.reshape(state["h"], (-1, 6))])
        total = state["total"] * 1.0001  # one number in float16
        logits = ops.reshape(self.output_dense(output), (batch, beam, 9)) + total
        return logits, {"h": ops.reshape(h, (batch, beam, 6)), "total": total}, None


def test_call_keeps_the_dtypes_of_a_step():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        decoder = Careful()
        logits = decoder(TOKENS)
        expected, _ = stepped(decoder, TOKENS)
    finally:
        keras.config.set_dtype_policy("float32")
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    close(logits, expected)


def test_dropout_masks_of_cells_inside_a_step_are_drawn_anew():
    decoder = Careful()
    run = decoder
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        run = tf.function(decoder)
    first, second = run(TOKENS, training=True), run(TOKENS, training=True)
    assert np.abs(to_numpy(first) - to_numpy(second)).max() > 1e-3
    run(TOKENS[:2], training=True)  # another batch size
    close(decoder(TOKENS), run(TOKENS))


class Mean(keras.layers.Layer):
    def call(self, source):
        return source, None, None


def test_it_trains_in_seq2seq():
    model = Seq2Seq(Mean(), ConvolutionalDecoder(9))
    model.compile(keras.optimizers.Adam(0.02), TokenCrossentropy(), **PLAIN)
    inputs = {"source": np.repeat(MEMORY, 20, 0), "target": np.repeat(TOKENS, 20, 0)[:, :-1]}
    labels = np.repeat(TOKENS, 20, 0)[:, 1:]
    losses = model.fit(inputs, labels, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < losses[0] * 0.8
