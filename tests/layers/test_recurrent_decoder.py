import keras
import numpy as np
import pytest

from tests.tools import CELLS, attention_decoder, close, mask_of, randomize, to_numpy
from zoo import (
    AttentionCell,
    GreedyDecoder,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    ResidualRNNCells,
)

MASK = mask_of([7, 4, 0], 7)
MASK[1] = [False, True, True, False, False, True, False]  # padding anywhere


def inputs(summary_dim=5, batch=3, time=6):
    rng = np.random.default_rng(0)
    return {
        "tokens": rng.integers(0, 11, size=(batch, time)),
        "memory": rng.normal(size=(batch, 7, 5)).astype("float32"),
        "memory_mask": MASK[:batch],
        "summary": rng.normal(size=(batch, summary_dim)).astype("float32"),
    }


def stepped(decoder, tokens, memory=None, memory_mask=None, summary=None):
    """Logits and weights by stepping."""
    state, source = decoder.begin(
        memory, memory_mask, summary, batch_size=len(tokens), max_length=tokens.shape[1]
    )
    logits, weights = [], []
    for t in range(tokens.shape[1]):
        one, state, weight = decoder.step(tokens[:, t : t + 1], state, source)
        logits.append(to_numpy(one)[:, 0])
        weights.append(None if weight is None else to_numpy(weight)[:, 0])
    return np.stack(logits, 1), None if weights[0] is None else np.stack(weights, 1)


def check_call_equals_step(decoder, **given):
    decoder(**given)
    randomize(decoder)
    logits, weights = decoder(**given, return_attention_scores=True)
    expected_logits, expected_weights = stepped(decoder, **given)
    close(logits, expected_logits)
    if expected_weights is None:
        assert weights is None
    else:
        close(weights, expected_weights)
        assert (to_numpy(weights)[~np.broadcast_to(MASK[:, None], weights.shape)] == 0).all()
    close(decoder(**given), expected_logits)


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("query", ["output", "previous_state"])
@pytest.mark.parametrize(
    "attention", ["bahdanau", "bahdanau_normalized", "luong_general", "luong_concat"]
)
@pytest.mark.parametrize("cell", CELLS)
def test_call_equals_step(cell, attention, query, input_feeding):
    decoder = attention_decoder(
        cell=cell, attention=attention, query=query, input_feeding=input_feeding
    )
    check_call_equals_step(decoder, **inputs())


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("query", ["output", "previous_state"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_call_equals_step_in_stacks(cell, residual, query, input_feeding):
    decoder = attention_decoder(
        cell=cell,
        layers=3,
        residual=residual,
        query=query,
        input_feeding=input_feeding,
        attention_size=8,
        activation="tanh",
        feed_summary=True,
    )
    check_call_equals_step(decoder, **inputs())


@pytest.mark.parametrize("initial_state", ["bridge", "summary", "zeros"])
@pytest.mark.parametrize("feed_summary", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_call_equals_step_without_attention(cell, feed_summary, initial_state):
    decoder = RecurrentDecoder(11, 4, CELLS[cell](5), initial_state, feed_summary)
    check_call_equals_step(decoder, **inputs())


@pytest.mark.parametrize("cell", CELLS)
def test_call_equals_step_without_attention_in_stacks(cell):
    stack = ResidualRNNCells([CELLS[cell](5), CELLS[cell](5)])
    check_call_equals_step(RecurrentDecoder(11, 4, stack), **inputs())


def test_hypotheses_share_one_source():
    decoder, given = attention_decoder(), inputs()
    decoder(**given)
    state, source = decoder.begin(given["memory"], given["memory_mask"], given["summary"])
    for leaf in keras.tree.flatten(source):
        assert leaf.shape[0] == 3
    tokens = np.random.default_rng(1).integers(0, 11, size=(3, 4))
    wide = keras.tree.map_structure(lambda leaf: keras.ops.repeat(leaf, 4, axis=1), state)
    logits, wide, weights = decoder.step(tokens, wide, source)
    assert logits.shape == (3, 4, 11)
    assert weights.shape == (3, 4, 7)
    for k in range(4):
        one, _, _ = decoder.step(tokens[:, k : k + 1], state, source)
        close(one[:, 0], logits[:, k])


# The initial state.


def initial_state(cell, summary, kind="summary"):
    decoder = RecurrentDecoder(11, 4, cell, kind)
    state, _ = decoder.begin(summary=np.asarray(summary, "float32"))
    return decoder, [to_numpy(leaf)[:, 0] for leaf in state["cell"]]


def test_summary_is_the_first_state_itself():
    _, states = initial_state(keras.layers.GRUCell(2), [[1, 2]])
    close(states[0], [[1, 2]])


def test_a_summary_of_all_states_is_split_among_them():
    stack = keras.layers.StackedRNNCells([keras.layers.LSTMCell(2), keras.layers.LSTMCell(1)])
    _, states = initial_state(stack, [[1, 2, 3, 4, 5, 6]])
    for state, expected in zip(states, [[1, 2], [3, 4], [5], [6]], strict=True):
        close(state, [expected])


def test_a_summary_of_one_hidden_state_starts_every_layer():
    stack = keras.layers.StackedRNNCells([keras.layers.LSTMCell(2), keras.layers.LSTMCell(2)])
    _, states = initial_state(stack, [[1, 2]])
    for state, expected in zip(states, [[1, 2], [0, 0]] * 2, strict=True):
        close(state, [expected])


def test_the_bridge_is_a_tanh_layer():
    summary = np.array([[1.0, 2.0, 3.0]])
    decoder, states = initial_state(keras.layers.LSTMCell(2), summary, "bridge")
    assert decoder.bridge.kernel.shape == (3, 4)
    expected = np.tanh(summary @ to_numpy(decoder.bridge.kernel))
    close(np.concatenate(states, 1), expected)


# Dropout.


@pytest.mark.parametrize("input_feeding", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_dropout_inside_cells_is_one_mask_per_sequence(residual, input_feeding):
    # Keras' cells keep their dropout masks between steps; a new sequence draws new ones.
    lstm = keras.layers.LSTMCell(8, dropout=0.5, recurrent_dropout=0.2)
    top = keras.layers.LSTMCell(8, dropout=0.5)
    stack = (ResidualRNNCells if residual else keras.layers.StackedRNNCells)([lstm, top])
    cell = AttentionCell(stack, LuongAttention(), 8, input_feeding=input_feeding)
    decoder, given = RecurrentDecoder(11, 4, cell), inputs()
    run = decoder
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        run = tf.function(decoder)
    first, second = run(**given, training=True), run(**given, training=True)
    assert np.abs(to_numpy(first) - to_numpy(second)).max() > 1e-3
    close(run(**given, training=False), decoder(**given))
    assert lstm._dropout_mask is None  # nothing is left behind


def test_dropout_of_the_decoder_reaches_embeddings_and_outputs():
    # With nearly everything dropped, the cell reads zeros and the logits are the bias.
    decoder, given = RecurrentDecoder(11, 4, keras.layers.GRUCell(5), dropout=1 - 1e-7), inputs()
    decoder(**given)
    randomize(decoder)
    bias = np.broadcast_to(to_numpy(decoder.output_dense.bias), (3, 6, 11))
    close(decoder(**given, training=True), bias)
    # What the cell has seen leaves no trace in its state.
    other = {**given, "tokens": (given["tokens"] + 1) % 11}
    for training in (True, False):
        states = [
            to_numpy(decoder(**x, training=training, return_state=True)[1]["cell"][0])
            for x in (given, other)
        ]
        assert (np.abs(states[0] - states[1]).max() < 1e-6) == training


def test_dropout_of_the_decoder_applies_in_training_only():
    cell = AttentionCell(keras.layers.GRUCell(6), LuongAttention(), 8)
    decoder, given = RecurrentDecoder(11, 4, cell, dropout=0.5), inputs()
    close(decoder(**given), decoder(**given))
    first, second = decoder(**given, training=True), decoder(**given, training=True)
    assert np.abs(to_numpy(first) - to_numpy(second)).max() > 1e-3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: RecurrentDecoder(11, 4, "gru"), "cell='gru'"),
        (lambda: RecurrentDecoder(11, 4, keras.layers.GRUCell(4), "random"), "'random'"),
        (lambda: attention_decoder()(np.ones((2, 3))), "memory=None"),
        (
            lambda: attention_decoder()(np.ones((2, 3)), np.ones((2, 7, 5))),
            "summary=None",
        ),
        (
            lambda: attention_decoder()(
                np.ones((2, 3)), RecurrentEncoder(9, 4, 5)(np.ones((2, 7)))
            ),
            "with a star",
        ),
        (
            lambda: GreedyDecoder(attention_decoder(initial_state="zeros"))(
                RecurrentEncoder(9, 4, 5)(np.ones((2, 7)))
            ),
            "with a star",
        ),
        (
            lambda: RecurrentDecoder(11, 4, keras.layers.LSTMCell(5))(
                np.ones((2, 3)), summary=[np.ones((2, 5)), np.ones((2, 5))]
            ),
            "side by side in one",
        ),
        (
            lambda: RecurrentDecoder(11, 4, keras.layers.LSTMCell(5))(
                np.ones((2, 3, 1)), summary=np.ones((2, 5))
            ),
            r"tokens.shape=\(2, 3, 1\)",
        ),
        (
            lambda: RecurrentDecoder(11, 4, keras.layers.LSTMCell(5))(
                np.ones((2, 3)), summary=np.ones((4, 5))
            ),
            r"\(batch=4, time\). Received: tokens.shape=\(2, 3\)",
        ),
        (lambda: RecurrentDecoder(11, 4, keras.layers.GRUCell(4), np.ones((2, 4))), "ndarray"),
        (lambda: RecurrentDecoder(11, 4, [keras.layers.GRUCell(4)]), "StackedRNNCells"),
        (
            lambda: initial_state(keras.layers.LSTMCell(4), [[1, 2, 3]]),
            r"summary.shape=\(1, 3\) for states of \[4, 4\]",
        ),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()
