"""A decoder that copies: its probabilities by hand, and a task that cannot be learnt without."""

import keras
import numpy as np
import pytest

from tests.layers.test_decoder_kinds import (
    COPIED,
    ENCODED,
    IDS,
    TOKENS,
    VOCABULARY,
    recurrent,
    transformer,
)
from tests.tools import close, log_softmax, randomize, to_numpy
from zoo import (
    AttentionCell,
    BahdanauAttention,
    BeamSearchDecoder,
    CopyDecoder,
    CopyEncoder,
    GreedyDecoder,
    LuongAttention,
    RecurrentDecoder,
    RecurrentEncoder,
    Seq2Seq,
    TokenCrossentropy,
    TransformerDecoder,
    TransformerEncoder,
)


def built(make=lambda: recurrent(LuongAttention())):
    decoder = CopyDecoder(make())
    decoder(TOKENS, **COPIED)
    return randomize(decoder)


@pytest.mark.parametrize("make", [lambda: recurrent(LuongAttention()), transformer])
def test_probabilities_are_those_of_the_paper(make):
    decoder = built(make)
    logits, weights = decoder.decoder(TOKENS, **ENCODED, return_attention_scores=True)
    logits, weights = to_numpy(logits).astype("float64"), to_numpy(weights)
    switch = logits[..., 0] + float(to_numpy(decoder.copy_bias))
    generates = 1 / (1 + np.exp(switch - np.log(np.exp(logits[..., 1:]).sum(-1))))
    words = np.exp(log_softmax(logits[..., 1:]))
    expected = np.zeros((3, 6, VOCABULARY))
    expected[..., 1:] = generates[..., None] * words
    for row, i in np.ndindex(3, 5):
        if weights[row, :, i].any():
            expected[row, :, IDS[row, i]] += (1 - generates[row]) * weights[row, :, i]
    assert 0.05 < generates.min() < generates.max() < 0.999
    close(np.exp(to_numpy(decoder(TOKENS, **COPIED))), expected)
    close(expected.sum(-1), np.ones((3, 6)))


def test_half_is_copied_at_first():
    vocabulary = 5000
    cell = AttentionCell(keras.layers.GRUCell(8), LuongAttention(), 8)
    decoder = CopyDecoder(RecurrentDecoder(vocabulary, 8, cell, "zeros"))
    ids = np.array([[9, 10, 11, 12, 13]])
    memory = {"memory": np.random.default_rng(0).normal(size=(1, 5, 6)), "ids": ids}
    probabilities = np.exp(to_numpy(decoder(np.array([[1]]), memory))[0, 0])
    assert 0.4 < probabilities[ids].sum() < 0.6


def test_logits_at_some_rows_are_those_of_the_call():
    decoder = built()
    rows = np.array([0, 3, 7, 17], "int32")
    logits, weights = decoder(TOKENS, **COPIED, return_attention_scores=True)
    close(decoder.logits_at(rows, TOKENS, **COPIED), to_numpy(logits).reshape(18, -1)[rows])
    some, all_weights = decoder.logits_at(rows, TOKENS, **COPIED, return_attention_scores=True)
    assert some.shape == (4, VOCABULARY)
    close(all_weights, weights)


def test_what_sees_nothing_copies_nothing():
    decoder = built()
    blind = {**COPIED, "memory_mask": np.zeros((3, 5), bool)}
    logits = to_numpy(decoder(TOKENS, **blind))
    assert np.isfinite(logits).all()
    blind["memory"] = ENCODED["memory"]
    plain = to_numpy(decoder.decoder(TOKENS, **blind))
    close(log_softmax(logits[..., 1:]), log_softmax(plain[..., 1:]), 1e-4)


def test_padding_is_never_written():
    result = BeamSearchDecoder(built(), beam_width=4, max_length=6)(**COPIED)
    assert (to_numpy(result.tokens) != 0).all()


def test_coverage_counts_what_the_decoder_may_see():
    search = BeamSearchDecoder(built(), 3, max_length=4, coverage_penalty=0.5)
    result = [to_numpy(x) for x in search(**COPIED)]
    _, _, scores, log_probs, alignments = result
    sums = np.clip(alignments.sum(2), 1e-6, 1)
    counted = np.where(ENCODED["memory_mask"][:, None], np.log(sums), 0).sum(-1)
    close(scores, log_probs + 0.5 * counted, 1e-4)


def test_it_is_the_same_after_saving(tmp_path):
    encoder = RecurrentEncoder(VOCABULARY, 3, 6, bidirectional=True)
    cell = AttentionCell(keras.layers.GRUCell(5), LuongAttention(), 3, activation="tanh")
    decoder = RecurrentDecoder(VOCABULARY, 3, cell, tie_embeddings=True)
    model = Seq2Seq(CopyEncoder(encoder), CopyDecoder(decoder), share_embeddings=True)
    assert decoder.embedding is encoder.embedding
    inputs = {"source": IDS, "target": TOKENS}
    model(inputs)
    randomize(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    close(loaded(inputs), model(inputs))
    assert len(loaded.weights) == len(model.weights)


def test_half_precision():
    encoder = TransformerEncoder(50, 16, num_layers=1, dtype="mixed_bfloat16")
    decoder = TransformerDecoder(50, 16, num_layers=1, dtype="mixed_bfloat16")
    model = Seq2Seq(CopyEncoder(encoder), CopyDecoder(decoder, dtype="mixed_bfloat16"))
    source = np.array([[4, 5, 6, 0], [7, 8, 9, 10]])
    logits = model({"source": source, "target": np.array([[1, 5], [1, 8]])})
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    close(np.exp(to_numpy(logits)).sum(-1), np.ones((2, 2)), 1e-2)
    assert decoder is model.decoder.decoder
    assert keras.backend.standardize_dtype(model.decoder.copy_bias.dtype) == "float32"


NAMES = range(40, 140)  # the last 60 of them are in no training


def greetings(names, count, rng):
    """ "a NAME b NAME", of which the target is both names, and a word that is generated."""
    first, second = rng.choice(names, size=(2, count))
    filler = rng.integers(4, 30, size=(4, count))
    source = np.stack([filler[0], np.full(count, 30), first, filler[1], filler[2],
                       np.full(count, 31), second, filler[3]], axis=1)  # fmt: skip
    ones = np.ones(count, int)
    target = np.stack([ones, 33 * ones, second, 34 * ones, first, 2 * ones], axis=1)
    return source, target


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="trains for seconds there")
@pytest.mark.parametrize("copies", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_words_that_no_training_has_seen(copies):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    encoder = RecurrentEncoder(140, 16, 24, bidirectional=True)
    cell = AttentionCell(keras.layers.GRUCell(24), BahdanauAttention(24), query="previous_state")
    decoder = RecurrentDecoder(140, 16, cell)
    if copies:
        encoder, decoder = CopyEncoder(encoder), CopyDecoder(decoder)
    model = Seq2Seq(encoder, decoder)
    source, target = greetings(NAMES[:40], 3200, rng)
    model.compile(keras.optimizers.Adam(0.01), TokenCrossentropy(), jit_compile=False)
    inputs = {"source": source, "target": target[:, :-1]}
    epochs = 3 if copies else 12
    model.fit(inputs, target[:, 1:], batch_size=64, epochs=epochs, verbose=0)
    search = GreedyDecoder(decoder, max_length=5)
    right = []
    for names in (NAMES[:40], NAMES[40:]):
        source, target = greetings(names, 200, rng)
        tokens = to_numpy(search(*encoder(source)).tokens)[:, 0]
        right.append((tokens == target[:, 1:]).all(-1).mean())
    assert right[0] > 0.9
    assert right[1] > 0.9 if copies else right[1] == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CopyDecoder(keras.layers.Dense(3)), "`decoder` must be a zoo.Decoder that knows"),
        (
            lambda: CopyDecoder(
                RecurrentDecoder(4, 3, keras.layers.GRUCell(5), sampling_probability=0.5)
            ),
            "must not sample in training",
        ),
        (lambda: built()(TOKENS, **ENCODED), "`memory` must be a dict of 'memory' and 'ids'"),
        (
            lambda: CopyDecoder(RecurrentDecoder(4, 3, keras.layers.GRUCell(5)))(TOKENS, **COPIED),
            "RecurrentDecoder gives no weights",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
