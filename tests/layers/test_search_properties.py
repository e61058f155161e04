"""Properties of search that hold for every decoder, on random ones."""

import keras
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layers.test_search import check_against_brute_force
from tests.tools import TableDecoder, close, log_softmax, random_table, to_numpy
from zoo import BeamSearchDecoder

# Each example is a search of its own, which JAX compiles for seconds.
COUNT = 3 if keras.backend.backend() == "jax" else 25
some = settings(max_examples=COUNT, deadline=None, derandomize=False)
seeds = st.integers(0, 2**32 - 1)
options = st.fixed_dictionaries(
    {},
    optional={
        "length_penalty": st.sampled_from([0.3, 1.0, 2.0]),
        "min_length": st.integers(0, 3),
        "no_repeat_ngram": st.integers(0, 3),
        "forbidden_ids": st.lists(st.sampled_from([0, 3]), max_size=1),
        "prefix": st.lists(st.integers(0, 3), max_size=3),
        "coverage_penalty": st.sampled_from([0.2, 1.0]),
    },
)


@some
@given(seeds, options, st.lists(st.integers(1, 3), min_size=2, max_size=2))
def test_a_beam_as_wide_as_the_space_is_brute_force(seed, options, limits):
    if "prefix" in options and not options["prefix"]:
        del options["prefix"]
    rng = np.random.default_rng(seed)
    table = random_table(rng, sources=2, time=3, vocabulary=4)
    weights = rng.dirichlet(np.full(4, 0.3), size=(2, 3))
    check_against_brute_force(table, options, limits, weights, width=60)


def reference_beam(table, width, limit, alpha, start_id=1, end_id=2):
    """Beam search as its rules are told, with lists: (tokens, log_prob) best first."""
    log_probs = log_softmax(table)

    def score(item):
        return item[1] / ((5 + len(item[0])) / 6) ** alpha

    beam = [((), 0.0)]
    for step in range(limit):
        candidates = [item for item in beam if end_id in item[0]]
        for tokens, total in beam:
            if end_id not in tokens:
                row = log_probs[step, tokens[-1] if tokens else start_id]
                candidates += [((*tokens, v), total + p) for v, p in enumerate(row)]
        beam = sorted(candidates, key=score, reverse=True)[:width]
    return sorted(beam, key=lambda item: (end_id not in item[0], -score(item)))


@some
@given(seeds, st.integers(1, 6), st.sampled_from([0.0, 0.6, 1.5]), st.integers(1, 7))
def test_a_narrow_beam_is_the_rules_written_with_lists(seed, width, alpha, limit):
    table = random_table(np.random.default_rng(seed), time=7, vocabulary=6)
    search = BeamSearchDecoder(TableDecoder(table), width, max_length=7, length_penalty=alpha)
    result = search(batch_size=1, max_length=limit)
    expected = reference_beam(table[0], width, limit, alpha)
    for k, (tokens, log_prob) in enumerate(expected):
        assert to_numpy(result.lengths)[0, k] == len(tokens)
        assert to_numpy(result.tokens)[0, k, : len(tokens)].tolist() == list(tokens)
        close(result.log_probs[0, k], log_prob, 1e-4)


@some
@given(
    seeds,
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0.0, 0.5]),
    st.lists(st.integers(1, 8), min_size=4, max_size=4),
)
def test_stopping_early_loses_nothing(seed, alpha, coverage, limits):
    # The first n of a search that may stop early are those of a search that waits for all.
    rng = np.random.default_rng(seed)
    table = random_table(rng, sources=4, time=8, vocabulary=5)
    decoder = TableDecoder(table, rng.dirichlet(np.full(3, 0.2), size=(4, 8)))
    rules = {"beam_width": 4, "max_length": 8, "length_penalty": alpha}
    rules["coverage_penalty"] = coverage
    limits = np.array(limits)
    every = BeamSearchDecoder(decoder, **rules)(batch_size=4, max_length=limits)
    first = BeamSearchDecoder(decoder, num_results=1, **rules)(batch_size=4, max_length=limits)
    for row in range(4):
        if to_numpy(first.tokens)[row, 0].tolist() != to_numpy(every.tokens)[row, 0].tolist():
            close(first.scores[row, 0], every.scores[row, 0], 1e-5)  # a tie


@some
@given(seeds, st.integers(2, 5))
def test_permuting_the_batch_permutes_the_result(seed, sources):
    rng = np.random.default_rng(seed)
    table = random_table(rng, sources=sources, time=5, vocabulary=5)
    order = rng.permutation(sources)
    search = BeamSearchDecoder(TableDecoder(table), 3, max_length=5, length_penalty=0.5)
    memory = np.arange(sources, dtype="float32")[:, None, None]
    result, permuted = search(memory), search(memory[order])
    for leaf, permuted_leaf in zip(result, permuted, strict=True):
        close(permuted_leaf, to_numpy(leaf)[order])
