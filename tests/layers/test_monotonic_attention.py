"""Attention that only moves forward: Addons' numbers, and the process that its weights describe."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.test_recurrent_decoder import check_call_equals_step, inputs
from tests.tools import PLAIN, close, golden, mask_of, randomize, to_numpy, weight
from zoo import (
    AttentionCell,
    BahdanauMonotonicAttention,
    BeamSearchDecoder,
    LuongMonotonicAttention,
    RecurrentDecoder,
)
from zoo.layers.monotonic_attention import monotonic_weights

GOLDENS = [
    "bahdanau_monotonic_parallel",
    "bahdanau_monotonic_recursive",
    "bahdanau_monotonic_hard",
    "luong_monotonic_parallel",
]


def golden_attention(name):
    arrays = golden(f"attention_{name}")
    mode = name.split("_")[-1]
    if name.startswith("bahdanau"):
        attention = BahdanauMonotonicAttention(6, mode)
        attention.build((None, None, 6), arrays["memory"].shape)
        attention.query_kernel.assign(weight(arrays, "Attention.kernel"))
        attention.key_kernel.assign(weight(arrays, "memory_layer.kernel"))
        attention.v.assign(weight(arrays, "attention_v"))
    else:
        attention = LuongMonotonicAttention(mode)
        attention.build((None, None, 6), arrays["memory"].shape)
        attention.kernel.assign(weight(arrays, "memory_layer.kernel"))
    attention.score_bias.assign(weight(arrays, "score_bias"))
    return attention, arrays


@pytest.mark.parametrize("name", GOLDENS)
def test_two_steps_are_those_of_tensorflow_addons(name):
    attention, arrays = golden_attention(name)
    mask = mask_of(arrays["lengths"], 7)
    source = attention.precompute(arrays["memory"], mask)
    context, weights = attention.attend(arrays["query"][:, None], source)
    close(weights[:, 0], arrays["alignments"])
    close(context[:, 0], arrays["context"])
    _, weights = attention(
        arrays["query2"][:, None],
        arrays["memory"],
        value_mask=mask,
        previous_weights=weights,
        return_attention_scores=True,
    )
    close(weights[:, 0], arrays["alignments2"])


def stopped(choose, previous, rng, readers=200_000):
    """Where readers stop who start where `previous` says, by walking: shares of all readers."""
    length = len(choose)
    positions = rng.choice(length, p=previous, size=readers)
    stops = np.zeros(length)
    walking = np.ones(readers, bool)
    for j in range(length):
        here = walking & (positions == j)
        stop = here & (rng.random(readers) < choose[j])
        stops[j] = stop.sum()
        walking &= ~stop
        positions = np.where(here & ~stop, j + 1, positions)
    return stops / readers


def weights_of(choose, previous, mode):
    tensors = [ops.convert_to_tensor(x, "float32") for x in (choose, previous)]
    return to_numpy(monotonic_weights(*tensors, mode))


@pytest.mark.parametrize("mode", ["parallel", "recursive"])
def test_weights_are_where_readers_stop(mode):
    rng = np.random.default_rng(0)
    choose, previous = rng.random(6), rng.dirichlet(np.ones(6))
    weights = weights_of(choose[None, None], previous[None, None], mode)
    close(weights[0, 0], stopped(choose, previous, rng), 5e-3)


def test_recursive_is_exact_behind_positions_that_are_surely_chosen():
    # The reader stands at 30, behind 30 positions that nobody passes.
    choose = np.full((1, 1, 40), 1 - 1e-7, "float32")
    choose[..., 30:] = 0.5
    previous = np.zeros((1, 1, 40), "float32")
    previous[..., 30] = 1.0
    weights = weights_of(choose, previous, "recursive")
    close(weights[0, 0, 30:], 0.5 ** np.arange(1, 11))
    assert np.isfinite(weights_of(choose, previous, "parallel")).all()


def test_hard_weights_are_0_or_1():
    rng = np.random.default_rng(0)
    choose = (rng.random((500, 1, 9)) < 0.5).astype("float32")
    previous = np.eye(9, dtype="float32")[rng.integers(0, 9, size=500)][:, None]
    weights = weights_of(choose, previous, "hard")
    expected = np.zeros_like(weights)
    for row in range(500):
        start = previous[row, 0].argmax()
        stops = [j for j in range(start, 9) if choose[row, 0, j]]
        if stops:
            expected[row, 0, stops[0]] = 1
    assert (weights == expected).all()


def attentions(mode, **options):
    return [
        BahdanauMonotonicAttention(5, mode, **options),
        BahdanauMonotonicAttention(5, mode, normalize=True, **options),
        LuongMonotonicAttention(mode, **options),
        LuongMonotonicAttention(mode, "concat", 5, **options),
    ]


@pytest.mark.parametrize("mode", ["parallel", "recursive", "hard"])
@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("query", ["output", "previous_state"])
def test_in_a_decoder_call_equals_step(mode, kind, query):
    attention = attentions(mode)[kind]
    feeding = kind % 2 == 0
    cell = AttentionCell(keras.layers.GRUCell(6), attention, 7, query, input_feeding=feeding)
    check_call_equals_step(RecurrentDecoder(11, 4, cell), **inputs())


def decoder_of(attention, scale=0.7):
    cell = AttentionCell(keras.layers.GRUCell(6), attention, 7)
    decoder = RecurrentDecoder(11, 4, cell)
    decoder(**inputs())
    return randomize(decoder, scale=scale)


@pytest.mark.parametrize("mode", ["parallel", "recursive", "hard"])
def test_it_never_moves_back(mode):
    decoder = decoder_of(BahdanauMonotonicAttention(5, mode))
    _, weights = decoder(**inputs(), return_attention_scores=True)
    # The share that stopped at a position or behind it never grows from step to step.
    before = np.cumsum(to_numpy(weights), axis=-1)
    ran_off = 1 - before[..., -1:]
    assert (np.diff(before, axis=1) <= 1e-5).all()
    assert (ran_off >= -1e-5).all()
    assert np.abs(np.diff(before, axis=1)).max() > 0.01
    if mode == "hard":
        weights = to_numpy(weights)
        assert set(np.unique(weights)) <= {0, 1}
        assert (weights.sum(-1) <= 1).all()


def test_each_hypothesis_of_a_beam_has_its_own_place():
    decoder = decoder_of(LuongMonotonicAttention())
    memory = {name: inputs()[name] for name in ("memory", "memory_mask", "summary")}
    result = BeamSearchDecoder(decoder, beam_width=4, max_length=6)(**memory)
    for n in range(4):  # forced along each result, the decoder looks where the search says
        tokens = to_numpy(result.tokens)[:, n]
        given = np.concatenate([np.ones((3, 1), int), tokens[:, :-1]], axis=1)
        _, weights = decoder(given, **memory, return_attention_scores=True)
        written = np.arange(6) < to_numpy(result.lengths)[:, n, None]
        close(result.alignments[:, n], to_numpy(weights) * written[..., None], 1e-4)


def test_noise_and_bias_are_as_large_as_was_said():
    attention = BahdanauMonotonicAttention(5, sigmoid_noise=0.3, score_bias_init=-1.5, seed=1)
    attention.build((2, 3, 4), (2, 5, 4))
    close(attention.score_bias, -1.5)
    noise = to_numpy(attention.draw_noise((200, 10, 10)))
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 0.3) < 0.01


def test_noise_is_for_training_only():
    decoder = decoder_of(BahdanauMonotonicAttention(5, sigmoid_noise=1.0, seed=3))
    plain = to_numpy(decoder(**inputs()))
    close(decoder(**inputs()), plain)
    first, second = (to_numpy(decoder(**inputs(), training=True)) for _ in range(2))
    assert np.abs(first - plain).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3
    attention = BahdanauMonotonicAttention(5, sigmoid_noise=1.0)
    query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
    outputs = [to_numpy(attention(query, value, training=t)) for t in (True, False)]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3


@pytest.mark.parametrize("mode", ["parallel", "recursive"])
def test_it_learns_to_read_on(mode):
    # The target is the source itself: the weights have to wander along the diagonal.
    rng = np.random.default_rng(0)
    source = rng.integers(3, 11, size=(256, 6))
    memory = np.eye(11, dtype="float32")[source]
    attention = LuongMonotonicAttention(mode, sigmoid_noise=0.5, score_bias_init=-1.0)
    decoder = RecurrentDecoder(
        11, 8, AttentionCell(keras.layers.GRUCell(32), attention, 32), initial_state="zeros"
    )
    tokens = keras.Input((6,), dtype="int32")
    given = keras.Input((6, 11))
    model = keras.Model([tokens, given], decoder(tokens, given))
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **PLAIN,
    )
    fed = np.concatenate([np.ones((256, 1), int), source[:, :-1]], axis=1)
    history = model.fit([fed, memory], source, epochs=40, batch_size=64, verbose=0)
    assert history.history["accuracy"][-1] > 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BahdanauMonotonicAttention(5, mode="soft"), "`mode` must be one of"),
        (lambda: setattr(LuongMonotonicAttention(), "mode", "Hard"), "`mode` must be one of"),
        (lambda: LuongMonotonicAttention(sigmoid_noise=-1), "`sigmoid_noise` must be a number"),
        (
            lambda: LuongMonotonicAttention(score_bias_init="x"),
            "`score_bias_init` must be a number",
        ),
        (
            lambda: LuongMonotonicAttention()(
                np.ones((2, 3, 4)), np.ones((2, 5, 4)), previous_weights=np.ones((2, 3, 6))
            ),
            "`previous_weights` must have shape",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
