"""Training on a decoder's own tokens, and on given alignments."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.test_recurrent_decoder import inputs
from tests.layers.test_sampling import check_frequencies
from tests.tools import attention_decoder, close, greedy_by_hand, randomize, to_numpy
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


every_kind = pytest.mark.parametrize("kind", decoders(0.5))


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
    again = RecurrentDecoder.from_config(decoder.get_config())
    close(again.sampling_probability(1), 0.5)


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
    )
    given = {name: np.tile(x, (16,) + (1,) * (x.ndim - 1)) for name, x in given.items()}
    labels = np.roll(given["tokens"], -1, axis=1)
    losses = model.fit(given, labels, epochs=12, batch_size=16, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert int(to_numpy(decoder.scheduled_sampling.iterations)) == 36


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
