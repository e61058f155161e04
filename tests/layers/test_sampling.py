"""Samples against the distributions that they come from."""

import keras
import numpy as np
import pytest
from keras import ops

from tests.tools import (
    TableDecoder,
    attention_decoder,
    brute_force,
    close,
    compiled,
    log_softmax,
    random_table,
    randomize,
    to_numpy,
)
from zoo import GreedyDecoder, SamplingDecoder
from zoo.layers.chance import draw_index

START, END = 1, 2


def check_frequencies(drawn, probabilities):
    """Pearson's chi-square, below its 99.99 % quantile (by Wilson and Hilferty's formula)."""
    probabilities = np.asarray(probabilities, "float64")
    counts = np.bincount(drawn, minlength=len(probabilities))
    assert counts[probabilities == 0].sum() == 0
    common = len(drawn) * probabilities > 5
    expected = len(drawn) * probabilities[common]
    statistic = ((counts[common] - expected) ** 2 / expected).sum()
    k = common.sum() - 1
    assert statistic < k * (1 - 2 / (9 * k) + 3.72 * np.sqrt(2 / (9 * k))) ** 3


def table_of(probabilities):
    """A decoder that writes its first token with these probabilities, whatever the last one."""
    logits = np.log(np.maximum(probabilities, 1e-30))
    return TableDecoder(np.tile(logits, (1, 1, len(probabilities), 1)))


P = np.array([0.4, 0.05, 0.2, 0.25, 0.1])
IDENTITY = np.zeros((50, 1, 1), "float32")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, P),
        ({"temperature": 0.5}, P**2 / (P**2).sum()),
        ({"temperature": 2.0}, P**0.5 / (P**0.5).sum()),
        ({"top_k": 3}, np.array([0.4, 0, 0.2, 0.25, 0]) / 0.85),
        ({"top_k": 99}, P),
        ({"top_p": 0.6}, np.array([0.4, 0, 0, 0.25, 0]) / 0.65),
        ({"top_p": 0.66}, np.array([0.4, 0, 0.2, 0.25, 0]) / 0.85),
        ({"top_k": 4, "top_p": 0.8}, np.array([0.4, 0, 0.2, 0.25, 0]) / 0.85),
        ({"temperature": 0.5, "top_p": 0.5}, [1.0, 0, 0, 0, 0]),
        ({"forbidden_ids": [0]}, np.array([0, 0.05, 0.2, 0.25, 0.1]) / 0.6),
    ],
)
def test_frequencies_are_those_of_the_distribution(options, expected, seed):
    # All rows of the batch read one table: 50 x 400 draws.
    search = SamplingDecoder(
        table_of(P), seed=seed, num_results=400, max_length=1, start_id=0, **options
    )
    tokens = to_numpy(search(IDENTITY).tokens).reshape(-1)
    if sum(np.asarray(expected) > 0) == 1:
        assert set(tokens) == {int(np.argmax(expected))}
    else:
        check_frequencies(tokens, expected)


def test_what_is_forbidden_stays_so_at_any_temperature():
    search = SamplingDecoder(
        table_of(P), 1e12, seed=0, num_results=400, max_length=1, start_id=0, forbidden_ids=[0, 2]
    )
    tokens = to_numpy(search(IDENTITY).tokens).reshape(-1)
    check_frequencies(tokens, [0, 1 / 3, 0, 1 / 3, 1 / 3])


def test_all_of_a_large_vocabulary_can_be_drawn():
    # In float32 the sum of 50,000 equal probabilities ends above 1.
    probabilities = ops.full((1, 50_000), 1 / 50_000)
    drawn = draw_index(ops.tile(probabilities, (3, 1)), ops.convert_to_tensor([0.0, 0.5, 1 - 6e-8]))
    drawn = to_numpy(drawn)
    assert drawn[0] == 0
    assert abs(drawn[1] - 25_000) < 20
    assert drawn[2] == 49_999


def test_sequences_have_their_probabilities():
    # Each sequence of up to two tokens, as often as the chain rule says.
    table = random_table(np.random.default_rng(0), time=2, vocabulary=4, scale=1.0)
    search = SamplingDecoder(TableDecoder(table), seed=5, num_results=400, max_length=2)
    result = search(IDENTITY)
    expected = brute_force(table[0], limit=2)
    names = {tokens: i for i, (tokens, _, _) in enumerate(expected)}
    tokens, lengths = to_numpy(result.tokens), to_numpy(result.lengths)
    drawn = [
        names[tuple(tokens[b, n, : lengths[b, n]].tolist())] for b in range(50) for n in range(400)
    ]
    probabilities = np.exp([log_prob for _, log_prob, _ in expected])
    check_frequencies(drawn, probabilities)
    log_probs = to_numpy(result.log_probs).reshape(-1)
    close(log_probs, np.array([log_prob for _, log_prob, _ in expected])[drawn], 1e-4)
    close(result.scores, result.log_probs)


def test_samples_of_one_source_are_independent():
    # Results are sorted, which hides which was which: pairs are counted without order.
    search = SamplingDecoder(
        table_of([0, 0, 0.9, 0.1]), seed=2, num_results=2, max_length=1, start_id=0
    )
    pairs = to_numpy(search(np.zeros((4000, 1, 1), "float32")).tokens)[:, :, 0].sum(1)
    check_frequencies(pairs - 4, [0.81, 0.18, 0.01])


def decoder_and_memory():
    decoder = attention_decoder(vocabulary_size=9)
    rng = np.random.default_rng(0)
    memory = {
        "memory": rng.normal(size=(3, 7, 5)).astype("float32"),
        "summary": rng.normal(size=(3, 5)).astype("float32"),
    }
    decoder(np.ones((3, 2), int), **memory)
    return randomize(decoder), memory


def test_the_same_seed_gives_the_same_sample():
    decoder, memory = decoder_and_memory()
    options = {"num_results": 4, "max_length": 8}
    first = SamplingDecoder(decoder, seed=3, **options)(**memory)
    again = compiled(SamplingDecoder(decoder, seed=3, **options))(**memory)
    other = SamplingDecoder(decoder, seed=4, **options)(**memory)
    assert (to_numpy(first.tokens) == to_numpy(again.tokens)).all()
    assert (to_numpy(first.tokens) != to_numpy(other.tokens)).any()
    close(first.alignments, again.alignments, 1e-4)


def test_without_a_seed_each_call_draws_anew():
    decoder, memory = decoder_and_memory()
    samples = []
    for _ in range(2):
        keras.utils.set_random_seed(8)
        search = SamplingDecoder(decoder, num_results=4, max_length=8)
        if keras.backend.backend() == "tensorflow":  # a function of JAX has to be given its state
            search = compiled(search)
        samples.append([to_numpy(search(**memory).tokens) for _ in range(2)])
    assert (samples[0][0] != samples[0][1]).any()
    assert (samples[0][0] == samples[1][0]).all()
    assert (samples[0][1] == samples[1][1]).all()


def test_scores_are_those_of_teacher_forcing_and_the_best_come_first():
    decoder, memory = decoder_and_memory()
    result = SamplingDecoder(decoder, 1.5, seed=1, num_results=6, max_length=5)(**memory)
    tokens, lengths = to_numpy(result.tokens), to_numpy(result.lengths)
    ended = np.take_along_axis(tokens, lengths[..., None] - 1, -1)[..., 0] == END
    assert ended.any()
    assert not ended.all()
    for n in range(6):
        given = np.concatenate([np.ones((3, 1), int), tokens[:, n, :-1]], axis=1)
        log_probs = log_softmax(to_numpy(decoder(given, **memory)))
        picked = np.take_along_axis(log_probs, tokens[:, n, :, None], -1)[..., 0]
        written = np.arange(5) < lengths[:, n, None]
        close(result.log_probs[:, n], (picked * written).sum(1), 1e-4)
    scores = to_numpy(result.scores)
    for b in range(3):
        order = sorted(range(6), key=lambda n: (not ended[b, n], -scores[b, n]))
        assert order == list(range(6))


def test_the_rules_of_search_hold():
    table = random_table(np.random.default_rng(0), sources=3, time=6, vocabulary=6)
    search = SamplingDecoder(
        TableDecoder(table), seed=0, num_results=50, max_length=6, min_length=3, no_repeat_ngram=2
    )
    prefix = np.array([[3, 4], [5, -1], [-1, -1]])
    result = search(prefix=prefix, max_length=np.array([6, 5, 4]))
    tokens, lengths = to_numpy(result.tokens), to_numpy(result.lengths)
    assert (lengths >= 3).all()
    assert (lengths <= [[6], [5], [4]]).all()
    assert (tokens[0, :, :2] == [3, 4]).all()
    assert (tokens[1, :, 0] == 5).all()
    for row in tokens.reshape(-1, 6):
        length = list(row).index(END) + 1 if END in row else 6
        pairs = list(zip(row[: length - 1], row[1:length], strict=True))
        assert len(set(pairs)) == len(pairs)


def test_a_low_temperature_is_greedy():
    decoder, memory = decoder_and_memory()
    cold = SamplingDecoder(decoder, temperature=1e-6, seed=0, max_length=6)(**memory)
    greedy = GreedyDecoder(decoder, max_length=6)(**memory)
    assert (to_numpy(cold.tokens) == to_numpy(greedy.tokens)).all()
    close(cold.scores, greedy.scores, 1e-4)


def test_what_nothing_is_allowed_to_follow_does_not_exist():
    decoder = table_of([0.25, 0.25, 0.25, 0.25])
    result = SamplingDecoder(decoder, num_results=2, max_length=1, forbidden_ids=[0, 1, 2, 3])(
        batch_size=1
    )
    assert to_numpy(result.scores).tolist() == [[-1e9, -1e9]]
    assert to_numpy(result.lengths).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "`temperature` must be a number above 0"),
        ({"temperature": float("inf")}, "`temperature` must be a number above 0"),
        ({"temperature": "0.9"}, "`temperature` must be a number above 0"),
        ({"top_k": -1}, "`top_k` must be an integer of at least 0"),
        ({"top_p": 0}, "`top_p` must be above 0 and at most 1"),
        ({"top_p": 1.5}, "`top_p` must be above 0 and at most 1"),
        ({"top_p": True}, "`top_p` must be above 0 and at most 1"),
        ({"num_results": 0}, "`num_results` must be an integer of at least 1"),
        ({"seed": "x"}, "`seed` must be an integer"),
    ],
)
def test_errors(options, message):
    with pytest.raises(ValueError, match=message):
        SamplingDecoder(table_of([0.5, 0.5]), **options, end_id=1, start_id=0)
