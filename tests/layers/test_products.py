"""Gradients that wait until a loop over time is over are those that do not wait."""

import keras
import numpy as np
import pytest

from tests.tools import TableDecoder, close, randomize
from zoo import (
    AttentionCell,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    ResidualRNNCells,
    Seq2Seq,
    TransformerDecoder,
)

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="only TensorFlow's loops defer gradients"
)
GRU, LSTM = keras.layers.GRUCell, keras.layers.LSTMCell
CELLS = {
    "gru": lambda: GRU(8),
    "gru_reset_before": lambda: GRU(8, reset_after=False),
    "gru_without_bias": lambda: GRU(8, use_bias=False),
    "lstm": lambda: LSTM(8),
    "lstm_with_relu": lambda: LSTM(8, activation="relu", use_bias=False),
    "stack": lambda: keras.layers.StackedRNNCells([LSTM(8), GRU(8)]),
    "residual": lambda: ResidualRNNCells([LSTM(8), LSTM(8)]),
    "simple": lambda: keras.layers.SimpleRNNCell(8),
}
ATTENTIONS = {
    "bahdanau": lambda: BahdanauAttention(7),
    "normalized": lambda: BahdanauAttention(7, normalize=True),
    "general": lambda: LuongAttention("general"),
    "monotonic": lambda: BahdanauMonotonicAttention(7),
}


def gradients(model, batch, training):
    import tensorflow as tf

    ids = tf.TensorSpec((None, None), tf.int32)  # sizes that the graph does not know

    @tf.function(input_signature=[{"source": ids, "target": ids}], autograph=False)
    def run(batch):
        with tf.GradientTape() as tape:
            logits = model(batch, training=training)
            loss = tf.reduce_sum(tf.sin(logits))
        variables = [variable.value for variable in model.trainable_variables]
        zeros = tf.UnconnectedGradients.ZERO
        found = tape.gradient(loss, variables, unconnected_gradients=zeros)
        return loss, [tf.convert_to_tensor(x) for x in found]

    return run(batch)


def require_same_gradients(model):
    random = np.random.default_rng(0)
    batch = {
        "source": random.integers(3, 20, (4, 6)).astype("int32"),
        "target": random.integers(3, 20, (4, 5)).astype("int32"),
    }
    batch["source"][1, 4:] = batch["source"][2, :2] = 0
    model(batch)
    randomize(model)
    # Without dropout a training differs from anything else only in that it defers.
    loss, deferred = gradients(model, batch, training=True)
    same_loss, plain = gradients(model, batch, training=None)
    close(loss, same_loss, 1e-4)
    for variable, one, other in zip(model.trainable_variables, deferred, plain, strict=True):
        scale = 1e-6 + np.abs(other).max()
        np.testing.assert_allclose(one / scale, other / scale, atol=2e-4, err_msg=variable.path)
    assert sum(np.abs(x).max() > 1e-3 for x in plain) > 10  # there was something to compare


@pytest.mark.parametrize(
    ("cell", "attention", "query", "size"),
    [
        ("gru", "bahdanau", "previous_state", None),
        pytest.param("gru_reset_before", "general", "output", None, marks=pytest.mark.slow),
        pytest.param("gru_without_bias", "monotonic", "previous_state", 8, marks=pytest.mark.slow),
        ("lstm", "general", "output", 8),
        pytest.param(
            "lstm_with_relu", "normalized", "previous_state", None, marks=pytest.mark.slow
        ),
        ("stack", "normalized", "output", 8),
        ("residual", "monotonic", "output", None),
        pytest.param("simple", "bahdanau", "output", 8, marks=pytest.mark.slow),
    ],
)
def test_the_gradients_of_a_decoder_with_attention(cell, attention, query, size):
    cell = AttentionCell(CELLS[cell](), ATTENTIONS[attention](), size, query=query)
    encoder = RecurrentEncoder(20, 5, 4, bidirectional=True)
    require_same_gradients(Seq2Seq(encoder, RecurrentDecoder(20, 6, cell)))


@pytest.mark.parametrize(("kind", "layers"), [("gru", 2), ("lstm", 1), ("simple_rnn", 1)])
def test_the_gradients_of_encoders_and_of_decoders_without_attention(kind, layers):
    encoder = RecurrentEncoder(20, 5, 4, cell=kind, num_layers=layers)
    require_same_gradients(Seq2Seq(encoder, RecurrentDecoder(20, 6, CELLS["gru"]())))


def test_mixed_precision_stays_near():
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        cell = AttentionCell(LSTM(8), LuongAttention(), 8, activation="tanh")
        encoder = RecurrentEncoder(20, 5, 4, cell="lstm", bidirectional=True)
        model = Seq2Seq(encoder, RecurrentDecoder(20, 6, cell))
    finally:
        keras.config.set_dtype_policy(policy)
    exact = Seq2Seq.from_config(float32(model.get_config()))
    batch = {"source": np.array([[4, 5, 6], [7, 8, 0]]), "target": np.array([[1, 9], [1, 3]])}
    batch = {name: ids.astype("int32") for name, ids in batch.items()}
    model(batch), exact(batch)
    exact.set_weights(randomize(model, scale=0.3).get_weights())
    _, rough = gradients(model, batch, training=True)
    _, right = gradients(exact, batch, training=True)
    for one, other in zip(rough, right, strict=True):
        assert np.abs(one - other).max() <= 0.05 * (0.1 + np.abs(other).max())


def float32(config):
    """The config of a layer, where every dtype policy is float32."""
    if isinstance(config, dict):
        if config.get("class_name") == "DTypePolicy":
            return {**config, "config": {"name": "float32"}}
        return {key: float32(value) for key, value in config.items()}
    return [float32(value) for value in config] if isinstance(config, list) else config


@pytest.mark.parametrize("make", ["recurrent", "transformer", "own"])
def test_logits_at_some_rows_are_those_of_the_call(make):
    encoder = RecurrentEncoder(20, 8, 8)
    decoder = {
        "recurrent": lambda: RecurrentDecoder(20, 6, AttentionCell(GRU(8), LuongAttention())),
        "transformer": lambda: TransformerDecoder(20, 8, num_layers=1, num_heads=2),
        "own": lambda: TableDecoder(np.random.default_rng(0).normal(size=(4, 5, 20, 20))),
    }[make]()
    source = np.array([[4, 5, 6], [7, 8, 0]])
    target = np.array([[1, 9, 10, 11], [1, 12, 0, 0]], "int32")
    encoded = encoder(source) if make != "own" else (None, None, None)
    logits = np.array(decoder(target, *encoded))
    rows = np.array([0, 1, 2, 3, 4, 5], "int32")
    close(decoder.logits_at(rows, target, *encoded), logits.reshape(8, 20)[:6])


def test_a_cell_may_have_a_dtype_of_its_own():
    encoder = RecurrentEncoder(20, 8, 8)
    decoder = RecurrentDecoder(20, 6, LSTM(8, dtype="mixed_bfloat16"), "zeros")
    source, target = np.array([[4, 5, 6], [7, 8, 0]]), np.array([[1, 9, 10], [1, 12, 0]])
    rough = decoder(target, *encoder(source))
    np.testing.assert_allclose(decoder(target, *encoder(source), training=True), rough, atol=0.02)


class LooksTwice(LuongAttention):
    """With each query as it is and turned round; the context is the sum of both."""

    def attend(self, query, source, attention_mask=None):
        both = keras.ops.concatenate([query, -query], axis=1)
        context, weights = super().attend(both, source, attention_mask)
        context, weights = (keras.ops.split(x, 2, axis=1) for x in (context, weights))
        return context[0] + context[1], weights[0]


def test_an_attention_may_look_several_times_in_a_step():
    cell = AttentionCell(GRU(8), LooksTwice(), 8)
    encoder = RecurrentEncoder(20, 5, 4, bidirectional=True)
    require_same_gradients(Seq2Seq(encoder, RecurrentDecoder(20, 6, cell)))


class Louder(RecurrentDecoder):
    """Its logits are twice those of its parent."""

    def call(self, tokens, memory=None, memory_mask=None, summary=None, **options):
        logits, weights = super().call(tokens, memory, memory_mask, summary, True)
        return 2 * logits


def test_a_subclass_with_its_own_call_is_asked():
    encoder, decoder = RecurrentEncoder(20, 8, 8), Louder(20, 6, GRU(8))
    model = Seq2Seq(encoder, decoder)
    batch = {"source": np.array([[4, 5, 6]]), "target": np.array([[1, 9, 10]])}
    rows = np.array([0, 2], "int32")
    close(model.logits_at(rows, batch), np.array(model(batch))[0, [0, 2]])
