"""What several tests share: random weights, decoders that are easy to reason about, brute force."""

import itertools
import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from zoo import (
    AttentionCell,
    BahdanauAttention,
    Decoder,
    LuongAttention,
    RecurrentDecoder,
    ResidualRNNCells,
)

# For `compile`: XLA takes seconds for a loop, which on TensorFlow only tests of XLA have to spare.
# (Without it JAX compiles each operation of each step.)
PLAIN = {"jit_compile": False} if keras.backend.backend() == "tensorflow" else {}

# TensorFlow runs all variants of a test that are not slow; other backends choose some themselves.
slow_on_tensorflow = pytest.mark.slow if keras.backend.backend() == "tensorflow" else ()

GOLDENS = pathlib.Path(__file__).parent / "goldens"


def golden(name):
    return dict(np.load(GOLDENS / f"{name}.npz"))


def weight(arrays, ending):
    """The one array of a golden file whose name ends so."""
    (name,) = [name for name in arrays if name.endswith(ending)]
    return arrays[name]


def mask_of(lengths, size):
    return np.arange(size) < np.asarray(lengths)[:, None]


def randomize(layer, seed=0, scale=0.7):
    """Gives every weight of a built layer a random value, so that nothing is zero by chance."""
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_weights:
        variable.assign(rng.normal(scale=scale, size=variable.shape))
    return layer


to_numpy = ops.convert_to_numpy


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(to_numpy(actual), to_numpy(expected), rtol=tolerance, atol=tolerance)


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def compiled(function, **options):
    """A layer or function of tensors as one that runs in the graph, where the backend has one."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, **options)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    return function


def greedy_by_hand(decoder, first, length, **encoded):
    """first (batch, 1) and the tokens that a decoder finds most probable, one after the other."""
    logits_of = compiled(lambda tokens: decoder(tokens, **encoded))
    tokens = np.tile(first, (1, length + 1))  # what is not written yet changes no logits before it
    for t in range(length):
        tokens[:, t + 1] = to_numpy(logits_of(tokens[:, :length]))[:, t].argmax(-1)
    return tokens


class TableDecoder(Decoder):
    """Next-token logits looked up in a table (sources, time, vocabulary, vocabulary).

    The logits of a step depend on the source, the position and the last token. The memory, if
    given, is the index of the source (batch, 1, 1). With `weights` (sources, time, source_length)
    it also says where it looked.
    """

    def __init__(self, table, weights=None, **kwargs):
        super().__init__(**kwargs)
        self.table = np.asarray(table, "float32")
        self.vocabulary_size = self.table.shape[-1]
        self.weights_table = None if weights is None else np.asarray(weights, "float32")

    def begin(
        self, memory=None, memory_mask=None, summary=None, *, batch_size=None, max_length=None
    ):
        if memory is None:
            memory = ops.reshape(ops.arange(batch_size), (-1, 1, 1))
        rows = ops.cast(memory[:, 0, 0], "int32")
        return ops.convert_to_tensor(0, dtype="int32"), {"rows": rows}

    def step(self, tokens, state, source):
        rows = ops.broadcast_to(source["rows"][:, None], ops.shape(tokens))
        table = ops.take(ops.convert_to_tensor(self.table), state, axis=1)  # (rows, last, next)
        vocabulary = self.table.shape[-1]
        flat = ops.reshape(table, (-1, vocabulary))
        logits = ops.take(flat, rows * vocabulary + tokens, axis=0)
        weights = None
        if self.weights_table is not None:
            now = ops.take(ops.convert_to_tensor(self.weights_table), state, axis=1)
            weights = ops.take(now, rows, axis=0)  # (batch, beam, source_length)
        return logits, state + 1, weights


def random_table(rng, sources=1, time=4, vocabulary=4, scale=2.0):
    return rng.normal(scale=scale, size=(sources, time, vocabulary, vocabulary))


def brute_force(table, *, limit, weights=None, mask=None, start_id=1, end_id=2, **options):
    """All sequences that one source's table (time, last, next) allows, best first.

    Returns a list of (tokens, log_prob, score), by enumeration of the whole space.
    """
    alpha, beta = options.get("length_penalty", 0.0), options.get("coverage_penalty", 0.0)
    min_length, ngram = options.get("min_length", 0), options.get("no_repeat_ngram", 0)
    forbidden, prefix = options.get("forbidden_ids", ()), list(options.get("prefix", ()))
    log_probs, vocabulary = log_softmax(table), table.shape[-1]
    found = []
    for length in range(1, limit + 1):
        for tokens in itertools.product(range(vocabulary), repeat=length):
            if end_id in tokens[:-1] or (length < limit and tokens[-1] != end_id):
                continue
            given = min(len(prefix), length)
            if list(tokens[:given]) != prefix[:given]:
                continue
            free = [t for i, t in enumerate(tokens) if i >= len(prefix)]
            if set(free) & set(forbidden):
                continue
            if tokens[-1] == end_id and length < min_length and length > len(prefix):
                continue
            if ngram:
                grams = [tokens[i : i + ngram] for i in range(length - ngram + 1)]
                ends_free = range(max(0, len(prefix) - ngram + 1), len(grams))
                if any(grams[i] in grams[:i] for i in ends_free):
                    continue
            last, log_prob = start_id, 0.0
            for step, token in enumerate(tokens):
                log_prob += log_probs[step, last, token]
                last = token
            score = log_prob / ((5 + length) / 6) ** alpha
            if beta:
                sums = np.clip(weights[:length].sum(0), 1e-6, 1)
                score += beta * np.log(sums[mask] if mask is not None else sums).sum()
            found.append((tokens, log_prob, score, tokens[-1] == end_id))
    found.sort(key=lambda item: (not item[3], -item[2]))
    return [item[:3] for item in found]


CELLS = {
    "simple_rnn": keras.layers.SimpleRNNCell,
    "gru": keras.layers.GRUCell,
    "lstm": keras.layers.LSTMCell,
}
ATTENTIONS = {
    "bahdanau": lambda units: BahdanauAttention(units),
    "bahdanau_normalized": lambda units: BahdanauAttention(units, normalize=True),
    "luong_general": lambda units: LuongAttention("general"),
    "luong_concat": lambda units: LuongAttention("concat", units=units),
}


def attention_decoder(
    vocabulary_size=11,
    cell="gru",
    layers=1,
    attention="luong_general",
    units=6,
    residual=False,
    initial_state="bridge",
    feed_summary=False,
    **options,
):
    """A RecurrentDecoder with attention, unbuilt, from a few words."""
    cells = [CELLS[cell](units) for _ in range(layers)]
    stack = ResidualRNNCells if residual else keras.layers.StackedRNNCells
    inner = cells[0] if layers == 1 else stack(cells)
    inner = AttentionCell(inner, ATTENTIONS[attention](5), **options)
    return RecurrentDecoder(vocabulary_size, 4, inner, initial_state, feed_summary)


# Data sets that are no part of the zoo, beside it; tests that want them skip where there are none.
BESIDE = pathlib.Path(__file__).parents[2] / "shared" / "data"
SHARED_DATA = pathlib.Path(os.environ.get("SHARED_DATA", BESIDE))

# The command as a user runs it: the script that pip installed.
ZOO = pathlib.Path(sys.executable).parent / "zoo"


def run_zoo(*arguments, **kwargs):
    """Runs the command `zoo` to its end."""
    command = [ZOO, *(x if isinstance(x, bytes) else str(x) for x in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)


def run_zoo_here(monkeypatch, capsys, place, arguments):
    """What the command does, in this process: starting one takes four seconds."""
    from zoo.cli import main  # here, because it is not there on every backend

    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "argv", ["zoo", *map(str, arguments)])
    capsys.readouterr()
    code = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())
