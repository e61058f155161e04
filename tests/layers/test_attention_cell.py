import keras
import numpy as np
import pytest

from tests.tools import CELLS, PLAIN, close, golden, mask_of, to_numpy, weight
from zoo import (
    AttentionCell,
    BahdanauAttention,
    BeamSearchDecoder,
    GreedyDecoder,
    LuongAttention,
    RecurrentDecoder,
    ResidualRNNCells,
)

WRAPPERS = [
    f"wrapper_{cell}_{attention}" for cell in ("lstm", "gru") for attention in ("luong", "bahdanau")
]


def golden_decoder(name):
    """The wrapped cell of TensorFlow Addons as a decoder of ours, with its weights."""
    arrays = golden(name)
    is_lstm, is_luong = "lstm" in name, "luong" in name
    cell = AttentionCell(
        keras.layers.LSTMCell(6) if is_lstm else keras.layers.GRUCell(6),
        LuongAttention() if is_luong else BahdanauAttention(6),
        attention_size=4,
    )
    decoder = RecurrentDecoder(11, 3, cell, initial_state="zeros")
    decoder.build((3, 5), memory_shape=arrays["memory"].shape)
    decoder.embedding.embeddings.assign(arrays["embedding"])
    kind = "lstm_cell" if is_lstm else "gru_cell"
    for part in ("kernel", "recurrent_kernel", "bias"):
        (key,) = [key for key in arrays if kind in key and key.endswith(f".{part}")]
        getattr(cell.cell, part).assign(arrays[key])
    cell.output_kernel.assign(weight(arrays, "attention_layer.kernel"))
    memory_kernel = weight(arrays, "memory_layer.kernel")
    if is_luong:
        cell.attention.kernel.assign(memory_kernel)
    else:
        cell.attention.key_kernel.assign(memory_kernel)
        cell.attention.query_kernel.assign(weight(arrays, "BahdanauAttention.kernel"))
        cell.attention.v.assign(weight(arrays, "attention_v"))
    decoder.output_dense.kernel.assign(arrays["w_out_kernel"])
    decoder.output_dense.bias.assign(arrays["w_out_bias"])
    return decoder, arrays, mask_of(arrays["lengths"], 7)


@pytest.mark.parametrize("name", WRAPPERS)
def test_teacher_forcing_is_that_of_tensorflow_addons(name):
    decoder, arrays, mask = golden_decoder(name)
    logits, weights = decoder(arrays["ids"], arrays["memory"], mask, return_attention_scores=True)
    close(logits, arrays["logits"])
    close(weights, arrays["alignments"])


@pytest.mark.parametrize("name", WRAPPERS)
def test_steps_and_final_states_are_those_of_tensorflow_addons(name):
    decoder, arrays, mask = golden_decoder(name)
    state, source = decoder.begin(arrays["memory"], mask)
    for t in range(5):
        logits, state, weights = decoder.step(arrays["ids"][:, t : t + 1], state, source)
        close(logits[:, 0], arrays["logits"][:, t])
        close(weights[:, 0], arrays["alignments"][:, t])
    close(state["cell"][0][:, 0], arrays["final_state_0"])
    close(state["fed"][:, 0], arrays["outputs"][:, -1])
    if "lstm" in name:
        close(state["cell"][1][:, 0], arrays["final_state_1"])


@pytest.mark.parametrize("width", [1, 3, 5])
@pytest.mark.parametrize("name", WRAPPERS)
def test_the_beam_finds_at_least_what_tensorflow_addons_found(name, width):
    decoder, arrays, mask = golden_decoder(name)
    search = BeamSearchDecoder(decoder, width, max_length=8)
    result = search(arrays["memory"], mask)
    # Theirs ranks by score alone; ours puts what did not end within the limit behind what did, so
    # that the best score need not stand first.
    golden_best = arrays[f"beam{width}_alpha0.0_logprobs"].max(axis=1)
    assert (to_numpy(result.scores).max(axis=1) >= golden_best - 1e-4).all()
    for row in range(3):
        best = to_numpy(result.scores)[row].argmax()
        tokens, length = to_numpy(result.tokens)[row, best], to_numpy(result.lengths)[row, best]
        given = np.concatenate([[1], tokens[: length - 1]])[None]
        logits = to_numpy(
            decoder(given, arrays["memory"][row : row + 1], mask[row : row + 1])
        ).astype("float64")
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        expected = sum(log_probs[0, t, token] for t, token in enumerate(tokens[:length]))
        close(result.scores[row, best], expected, 1e-4)


def test_the_lecture_form_of_bahdanau():
    # a(t,t') = softmax(score(s(t-1), h(t'))), c = sum a h,
    # s(t) = tanh(Wx [c; y(t-1)] + Ws s(t-1)), P = softmax(Wy s(t))
    rng = np.random.default_rng(0)
    memory, s = rng.normal(size=(2, 7, 5)), rng.normal(size=(2, 6))
    cell = AttentionCell(
        keras.layers.SimpleRNNCell(6, use_bias=False),
        BahdanauAttention(4),
        query="previous_state",
    )
    decoder = RecurrentDecoder(9, 3, cell, initial_state="summary")
    tokens = rng.integers(0, 9, size=(2, 5))
    logits, weights = decoder(
        tokens, memory.astype("float32"), None, s.astype("float32"), return_attention_scores=True
    )
    attention = cell.attention
    wq, wk, v, wx, ws, wy = (
        to_numpy(kernel).astype("float64")
        for kernel in (
            attention.query_kernel,
            attention.key_kernel,
            attention.v,
            cell.cell.kernel,
            cell.cell.recurrent_kernel,
            decoder.output_dense.kernel,
        )
    )
    embedding = to_numpy(decoder.embedding.embeddings)
    for t in range(5):
        scores = np.tanh((s @ wq)[:, None] + memory @ wk) @ v
        a = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        c = (a[..., None] * memory).sum(1)
        s = np.tanh(np.concatenate([c, embedding[tokens[:, t]]], axis=1) @ wx + s @ ws)
        close(weights[:, t], a)
        close(logits[:, t], s @ wy)


def test_luongs_order_by_hand():
    # h(t) = cell([x(t); o(t-1)], h(t-1)), o(t) = tanh([h(t); c(t)] W)
    rng = np.random.default_rng(1)
    memory = rng.normal(size=(2, 7, 6)).astype("float32")
    cell = AttentionCell(
        keras.layers.SimpleRNNCell(6), LuongAttention("dot"), attention_size=4, activation="tanh"
    )
    source = cell.precompute(memory)
    h, o = np.zeros((2, 6)), np.zeros((2, 4))
    state = cell.initial_state([keras.ops.zeros((2, 1, 6))], source)
    for _ in range(3):
        x = rng.normal(size=(2, 3)).astype("float32")
        output, state, weights = cell(x[:, None], state, source)
        kernel, recurrent = to_numpy(cell.cell.kernel), to_numpy(cell.cell.recurrent_kernel)
        h = np.tanh(np.concatenate([x, o], axis=1) @ kernel + h @ recurrent)
        scores = np.einsum("bd,bsd->bs", h, memory)
        a = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        c = np.einsum("bs,bsd->bd", a, memory)
        o = np.tanh(np.concatenate([h, c], axis=1) @ to_numpy(cell.output_kernel))
        close(weights[:, 0], a)
        close(output[:, 0], o)


def test_what_is_emitted():
    def output_size(**options):
        cell = AttentionCell(keras.layers.GRUCell(6), BahdanauAttention(4), **options)
        source = cell.precompute(np.zeros((2, 7, 5), "float32"))
        state = cell.initial_state([keras.ops.zeros((2, 1, 6))], source)
        output, _, _ = cell(np.zeros((2, 1, 3), "float32"), state, source)
        assert output.shape[-1] == cell.output_size
        return output.shape[-1]

    assert output_size() == 6 + 5
    assert output_size(attention_size=8) == 8
    assert output_size(query="previous_state") == 6
    assert output_size(query="previous_state", attention_size=8) == 8
    assert output_size(query="previous_state", input_feeding=False) == 6 + 5


@pytest.mark.parametrize("query", ["output", "previous_state"])
def test_a_cell_that_was_never_called_runs_a_sequence(query):
    cell = AttentionCell(keras.layers.GRUCell(6), BahdanauAttention(4), 8, query, False)
    source = cell.precompute(np.ones((2, 7, 5), "float32"))
    inputs = np.ones((2, 3, 3), "float32")
    state = cell.initial_state([keras.ops.zeros((2, 1, 6))], source)
    outputs, _, weights = cell.sequence(inputs, state, source)
    assert weights.shape == (2, 3, 7)
    for i in range(3):
        output, state, _ = cell(inputs[:, i : i + 1], state, source)
        close(outputs[:, i : i + 1], output)


@pytest.mark.parametrize("query", ["output", "previous_state"])
def test_a_search_where_the_parts_compute_in_other_types(query):
    cell = AttentionCell(
        keras.layers.GRUCell(6), BahdanauAttention(4), 8, query, dtype="mixed_bfloat16"
    )
    decoder = RecurrentDecoder(9, 5, cell, dtype="mixed_bfloat16")
    memory = np.ones((2, 7, 5), "float32"), np.ones((2, 7), bool), np.ones((2, 5), "float32")
    tokens = GreedyDecoder(decoder, max_length=4)(*memory).tokens
    assert tokens.shape == (2, 1, 4)


def test_residual_layers_add_their_input():
    below, above = keras.layers.LSTMCell(4), keras.layers.LSTMCell(4)
    x, zeros = np.ones((2, 3), "float32"), [np.zeros((2, 4), "float32")] * 2
    output, states = ResidualRNNCells([below, above])(x, [zeros, zeros])
    first, first_states = below(x, zeros)
    second, second_states = above(first, zeros)
    close(output, to_numpy(first) + to_numpy(second))
    for state, expected in zip(
        keras.tree.flatten(states), [*first_states, *second_states], strict=True
    ):
        close(state, expected)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_residual_stacks_with_dropout_train_in_keras_own_rnn(cell):
    cells = [CELLS[cell](8, dropout=0.3) for _ in range(3)]
    model = keras.Sequential([keras.layers.RNN(ResidualRNNCells(cells)), keras.layers.Dense(1)])
    model.compile("adam", "mse", **PLAIN)
    rng = np.random.default_rng(0)
    for count in (40, 20):  # another batch size draws other masks
        model.fit(rng.normal(size=(count, 5, 8)), np.zeros((count, 1)), verbose=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AttentionCell(6, BahdanauAttention(4)), "cell=6"),
        (lambda: AttentionCell(keras.layers.GRUCell(6), keras.layers.Attention()), "attention="),
        (
            lambda: AttentionCell(keras.layers.GRUCell(6), BahdanauAttention(4), query="state"),
            "query='state'",
        ),
        (
            lambda: AttentionCell(keras.layers.GRUCell(6), BahdanauAttention(4), activation="tanh"),
            "attention_size=None",
        ),
        (
            lambda: ResidualRNNCells([keras.layers.GRUCell(6), keras.layers.GRUCell(5)]),
            r"outputs of \[6, 5\]",
        ),
        (lambda: AttentionCell(keras.layers.GRU(6), BahdanauAttention(4)), "not the layer GRU"),
        (
            lambda: AttentionCell(keras.layers.GRUCell(6), BahdanauAttention(4), 0),
            "attention_size=0",
        ),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()
