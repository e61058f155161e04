"""Training on a decoder's own tokens, and on given alignments."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.test_recurrent_decoder import inputs
from tests.layers.test_sampling import check_frequencies
from tests.tools import PLAIN, attention_decoder, close, greedy_by_hand, randomize, to_numpy
from zoo import (
    AttentionCell,
    BahdanauMonotonicAttention,
    LuongAttention,
    RecurrentDecoder,
    RecurrentLanguageModel,
)
from zoo.layers.scheduled_sampling import ScheduledSampling


def decoders(probability, **options):
    """A decoder of each kind that samples, and what it is called with."""
    cell = AttentionCell(keras.layers.GRUCell(6), LuongAttention(), 7)
    monotonic = BahdanauMonotonicAttention(5, sigmoid_noise=0.5)
    monotonic = AttentionCell(keras.layers.LSTMCell(6), monotonic, query="previous_state")
    options = {"sampling_probability": probability, **options}
    given = inputs()
    return {
        "attention": (RecurrentDecoder(11, 4, cell, **options), given),
        "monotonic": (RecurrentDecoder(11, 4, monotonic, **options), given),
        "bottleneck": (
            RecurrentDecoder(11, 4, keras.layers.GRUCell(6), feed_summary=True, **options),
            given,
        ),
        "language_model": (
            RecurrentLanguageModel(
                11, 4, keras.layers.GRUCell(6), LuongAttention(), window=3, **options
            ),
            {"tokens": given["tokens"]},
        ),
    }


KINDS = list(decoders(0.5))
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.parametrize("kind", ["attention", "bottleneck", "language_model"])
def test_with_probability_1_it_sees_only_what_it_wrote(kind):
    # Large logits make its own token certain: training is then a greedy rollout.
    decoder, given = decoders(1.0)[kind]
    decoder(**given)
    randomize(decoder)
    decoder.output_dense.kernel.assign(decoder.output_dense.kernel * 1000)
    rest = {name: x for name, x in given.items() if name != "tokens"}
    tokens = greedy_by_hand(decoder, given["tokens"][:, :1], 5, **rest)
    expected = to_numpy(decoder(tokens, **rest))
    close(to_numpy(decoder(**given, training=True)) / 1000, expected / 1000, 1e-4)
    assert np.abs(to_numpy(decoder(**given)) - expected).max() > 1  # not what it was given


@every_kind
def test_inference_never_samples_and_training_does(kind):
    decoder, given = decoders(0.5)[kind]
    decoder(**given)
    randomize(decoder)
    plain = to_numpy(decoder(**given))
    close(decoder(**given), plain)
    sampled = [to_numpy(decoder(**given, training=True)) for _ in range(2)]
    assert all(np.abs(x - plain).max() > 1e-2 for x in sampled)
    assert np.abs(sampled[0] - sampled[1]).max() > 1e-2
    if kind != "monotonic":  # whose noise begins with the first step
        close(sampled[0][:, 0], plain[:, 0])  # the start id is always given


def test_tokens_are_mixed_with_the_probability_and_drawn_from_the_distribution():
    sampling = ScheduledSampling(0.3)
    sampling.build()
    chances = ops.reshape(sampling.chances(20, 1000), (-1, 2))
    given, own = ops.zeros((20000, 1), "int32"), ops.ones((20000, 1), "int32")
    chosen = to_numpy(sampling.choose(given, own, chances, sampling.next_probability()))
    check_frequencies(chosen[:, 0], [0.7, 0.3])
    probabilities = [0.4, 0.0, 0.5, 0.1]
    logits = np.log(np.maximum(probabilities, 1e-30))
    logits = ops.convert_to_tensor(np.tile(logits, (20000, 1, 1)), "float32")
    drawn = to_numpy(sampling.draw(logits, chances))
    check_frequencies(drawn[:, 0], probabilities)
    # The two decisions are independent.
    both = 4 * chosen[:, 0] + drawn[:, 0]
    check_frequencies(both, np.outer([0.7, 0.3], probabilities).reshape(-1))


def test_a_schedule_counts_training_steps():
    schedule = keras.optimizers.schedules.PolynomialDecay(0.0, 2, 1.0)
    decoder = RecurrentDecoder(
        11, 4, keras.layers.GRUCell(5), "zeros", sampling_probability=schedule
    )
    tokens = inputs()["tokens"]
    decoder(tokens, inputs()["memory"])
    probabilities = []
    for _ in range(4):
        decoder(tokens, inputs()["memory"], training=True)
        decoder(tokens, inputs()["memory"])
        count = int(to_numpy(decoder.scheduled_sampling.iterations))
        probabilities.append(float(schedule(count - 1)))
    close(probabilities, [0, 0.5, 1, 1])
    sampling = ScheduledSampling(schedule)
    sampling.build()
    close([float(to_numpy(sampling.next_probability())) for _ in range(4)], [0, 0.5, 1, 1])
    again = RecurrentDecoder.from_config(decoder.get_config())
    close(again.sampling_probability(1), 0.5)


NEVER = 1e-30  # a probability that makes training go the way of sampling, and never sample


@every_kind
def test_what_is_never_sampled_is_teacher_forcing(kind):
    decoder, given = decoders(NEVER)[kind]
    if kind == "monotonic":
        decoder.cell.attention.sigmoid_noise = 0
    decoder(**given)
    randomize(decoder)
    asked = {"return_attention_scores": True, "return_state": True}
    expected = decoder(**given, **asked)
    actual = decoder(**given, **asked, training=True)
    for one, other in zip(keras.tree.flatten(actual), keras.tree.flatten(expected), strict=True):
        if one is not None:
            close(one, other)


def test_dropout_and_noise_reach_every_part_of_it():
    given = inputs()
    everything = decoders(NEVER, dropout=1 - 1e-7)["bottleneck"][0]
    everything(**given)
    randomize(everything)
    other = {**given, "tokens": (given["tokens"] + 1) % 11}
    states = [
        to_numpy(everything(**x, training=True, return_state=True)[1]["cell"][0])
        for x in (given, other)
    ]
    close(*states)  # what is embedded is dropped
    cell = keras.layers.GRUCell(6, dropout=0.5, recurrent_dropout=0.5)
    inside = RecurrentDecoder(11, 4, cell, sampling_probability=NEVER)
    noisy = decoders(NEVER)["monotonic"][0]
    for decoder in (inside, noisy):
        plain = to_numpy(decoder(**given))
        first, second = (to_numpy(decoder(**given, training=True)) for _ in range(2))
        assert np.abs(first - plain).max() > 1e-3
        assert np.abs(first - second).max() > 1e-3


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="shapes unknown to a graph")
@pytest.mark.parametrize(
    ("kind", "dtype", "jit_compile"),
    # XLA takes its time to compile a loop.
    [
        *((kind, "mixed_float16", False) for kind in KINDS),
        *(
            pytest.param(
                kind, "float32", True, marks=() if kind == "monotonic" else pytest.mark.slow
            )
            for kind in KINDS
        ),
    ],
)
def test_it_trains_where_the_graph_knows_no_sizes(kind, dtype, jit_compile):
    import tensorflow as tf

    keras.config.set_dtype_policy(dtype)
    try:
        decoder, given = decoders(0.5, dropout=0.1)[kind]
        decoder(**given)
    finally:
        keras.config.set_dtype_policy("float32")
    names = list(given)
    signature = [
        tf.TensorSpec((None, None, 5) if name == "memory" else (None, None), given[name].dtype)
        if name != "summary"
        else tf.TensorSpec((None, 5))
        for name in names
    ]

    def gradients(*values):
        with tf.GradientTape() as tape:
            logits = decoder(**dict(zip(names, values, strict=True)), training=True)
            loss = tf.reduce_mean(tf.square(tf.cast(logits, "float32")))
        return tape.gradient(loss, [v.value for v in decoder.trainable_variables])

    run = tf.function(gradients, input_signature=signature, jit_compile=jit_compile)
    found = [tf.convert_to_tensor(x) for x in run(*given.values()) if x is not None]
    assert len(found) >= len(decoder.trainable_variables) - 2
    assert all(np.isfinite(x.numpy()).all() for x in found)


def symbolic(given):
    dtypes = {name: "int32" if name == "tokens" else "float32" for name in given}
    return {
        name: keras.Input(x.shape[1:], None, dtypes[name], name=name) for name, x in given.items()
    }


@every_kind
def test_it_trains(kind):
    schedule = keras.optimizers.schedules.PolynomialDecay(0.0, 20, 0.5)
    decoder, given = decoders(schedule, dropout=0.1)[kind]
    given = {name: x for name, x in given.items() if name != "memory_mask"}
    layers = symbolic(given)
    model = keras.Model(layers, decoder(**layers))
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **PLAIN,
    )
    given = {name: np.tile(x, (16,) + (1,) * (x.ndim - 1)) for name, x in given.items()}
    labels = np.roll(given["tokens"], -1, axis=1)
    losses = model.fit(given, labels, epochs=20, batch_size=16, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert int(to_numpy(decoder.scheduled_sampling.iterations)) == 60


def test_alignments_can_be_taught():
    # Guided alignment (Chen et al. 2016): the weights of teacher forcing are a part of the loss.
    decoder, given = attention_decoder(), inputs()
    del given["memory_mask"]
    layers = symbolic(given)
    logits, weights = decoder(**layers, return_attention_scores=True)
    model = keras.Model(layers, {"logits": logits, "weights": weights})
    model.compile(
        keras.optimizers.Adam(0.02),
        {
            "logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "weights": keras.losses.CategoricalCrossentropy(),
        },
        **PLAIN,
    )
    wanted = np.tile(np.eye(7)[[6, 5, 4, 3, 2, 1]], (3, 1, 1))
    labels = {"logits": given["tokens"], "weights": wanted}
    model.fit(given, labels, epochs=100, verbose=0)
    found = to_numpy(model(given)["weights"])
    assert (found.argmax(-1) == wanted.argmax(-1)).mean() > 0.95


@pytest.mark.parametrize("probability", [-0.1, 1.5, "often"])
def test_errors(probability):
    with pytest.raises(ValueError, match="`sampling_probability` must be"):
        RecurrentDecoder(11, 4, keras.layers.GRUCell(5), sampling_probability=probability)
