import numpy as np

from tests.evaluation.test_heat_map import ENGLISH, GERMAN
from zoo.evaluation.words import merge_words


def test_words_from_pieces():
    weights = np.random.default_rng(0).dirichlet(np.ones(6), size=5)
    sources, targets, merged = merge_words(GERMAN, ENGLISH, weights)
    assert sources == ["Der", "Mann", "fährt", "Rad."]
    assert targets == ["The", "man", "rides."]
    columns = [weights[:, [0]], weights[:, [1]], weights[:, 2:4], weights[:, 4:6]]
    by_hand = np.stack([column.sum(1) for column in columns], axis=1)
    by_hand = np.stack([by_hand[0], by_hand[1], by_hand[2:].mean(0)])
    np.testing.assert_allclose(merged, by_hand)
    np.testing.assert_allclose(merged.sum(1), 1.0)


def test_a_side_of_symbols_has_no_words():
    sources, targets, merged = merge_words(["\u2581a", "b"], ["AE", "B"], [[0.5, 0.5], [0.2, 0.8]])
    assert (sources, targets) == (["ab"], ["AE", "B"])
    np.testing.assert_allclose(merged, [[1.0], [1.0]])
    assert merge_words([], [], np.zeros((0, 0)))[:2] == ([], [])


def test_a_mark_alone_starts_a_word_too():
    assert merge_words(["\u2581", "東", "京", "\u2581x"], [], np.zeros((0, 4)))[0] == ["東京", "x"]
