"""The bottleneck, shown: reversing a sequence with attention and without it.

`python -m tests.system.test_reverse 20` trains both models with 20 seeds and prints the shares.
"""

import sys
import time

import keras
import numpy as np
import pytest

from zoo import (
    AttentionCell,
    BahdanauAttention,
    GreedyDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    Seq2Seq,
    TokenCrossentropy,
)

SYMBOLS, LONGEST, START, END, FIRST = 50, 12, 1, 2, 3
VOCABULARY = FIRST + SYMBOLS


def reverse(x):
    return x[::-1]


def sequences(rng, count, length=None, task=reverse):
    """Random sources (count, longest), padded with 0; what becomes of them between start and end.

    All are of one length, or of any up to the longest.
    """
    longest = length or LONGEST
    lengths = rng.integers(1, LONGEST + 1, size=count) if length is None else [length] * count
    source = np.zeros((count, longest), "int32")
    target = np.zeros((count, longest + 2), "int32")
    target[:, 0] = START
    for row, n in enumerate(lengths):
        source[row, :n] = rng.integers(FIRST, VOCABULARY, size=n)
        target[row, 1 : n + 1] = task(source[row, :n])
        target[row, n + 1] = END
    return source, target


def build(attention, units=64):
    encoder = RecurrentEncoder(VOCABULARY, 32, units, bidirectional=attention)
    cell = keras.layers.GRUCell(units)
    if not attention:
        return Seq2Seq(encoder, RecurrentDecoder(VOCABULARY, 32, cell, "summary", True))
    cell = AttentionCell(cell, BahdanauAttention(units), query="previous_state")
    return Seq2Seq(encoder, RecurrentDecoder(VOCABULARY, 32, cell))


def train(model, rng, steps, schedule, batch=64, task=reverse):
    model.compile(keras.optimizers.Adam(schedule, clipnorm=1.0), TokenCrossentropy())
    source, target = sequences(rng, steps * batch, task=task)
    inputs = {"source": source, "target": target[:, :-1]}
    model.fit(inputs, target[:, 1:], batch_size=batch, shuffle=False, verbose=0)


def exact_match(model, rng, count=300, length=None, task=reverse):
    source, target = sequences(rng, count, length, task)
    longest = target.shape[1] - 1
    result = GreedyDecoder(model.decoder, max_length=longest)(*model.encoder(source))
    tokens = np.where(
        np.arange(longest) < np.array(result.lengths)[:, 0, None], result.tokens[:, 0], 0
    )
    return float((tokens == target[:, 1:]).all(axis=1).mean())


def run(seed, steps=1500):
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    shares = {}
    for attention in (True, False):
        model = build(attention)
        train(model, rng, steps, keras.optimizers.schedules.CosineDecay(4e-3, steps))
        shares[attention] = (exact_match(model, rng), exact_match(model, rng, length=LONGEST))
    return shares


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="trained on one backend")
def test_attention_removes_the_bottleneck():
    seed = int(np.random.default_rng().integers(2**31))
    shares = run(seed)
    message = f"seed {seed}: (all lengths, length {LONGEST}) with and without attention: {shares}"
    assert shares[True][0] >= 0.98, message
    assert shares[False][1] <= shares[True][1] - 0.3, message


if __name__ == "__main__":
    for seed in range(int(sys.argv[1])):
        began = time.time()
        shares = run(seed)
        print(seed, shares, f"{time.time() - began:.0f} s", flush=True)
