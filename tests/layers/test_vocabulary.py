import keras
import numpy as np
import pytest
from keras import ops

from zoo.layers.hypotheses import NONE
from zoo.layers.vocabulary import best_words, in_chunks, log_totals, top_k


@pytest.mark.parametrize("size", [7, 997, 2000, 8000, 8009])
@pytest.mark.parametrize("k", [1, 9])
def test_top_k_is_what_sorting_gives(size, k):
    values = np.random.RandomState(size + k).normal(size=(2, 3, size)).astype("float32")
    values[0, 0, : size // 2] = -1e9  # what may not be written
    values[1, 2] = np.sort(values[1, 2])  # all of the largest in one chunk
    k = min(k, size)
    best, indices = (ops.convert_to_numpy(x) for x in top_k(ops.convert_to_tensor(values), k))
    np.testing.assert_array_equal(best, -np.sort(-values, axis=-1)[..., :k])
    np.testing.assert_array_equal(np.take_along_axis(values, indices, axis=-1), best)
    assert all(len(set(row)) == k for row in indices.reshape(-1, k))


def test_indices_stay_in_the_vocabulary_where_nothing_else_is_left():
    values = np.full((1, 8081), -np.inf, "float32")  # no divisor near: it is padded
    values[0, 8080] = 0.0
    best, indices = (ops.convert_to_numpy(x) for x in top_k(ops.convert_to_tensor(values), 6))
    assert indices[0, 0] == 8080
    assert indices.max() < 8081
    np.testing.assert_array_equal(best, [[0.0] + 5 * [-np.inf]])


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="Keras' max of nothing is a scalar")
def test_nothing_of_nothing():
    empty = ops.zeros((0, 8081))
    assert tuple(top_k(empty, 6)[0].shape) == (0, 6)
    assert tuple(log_totals(empty).shape) == (0,)


def test_log_totals_of_large_and_of_hopeless_logits():
    logits = np.random.RandomState(0).normal(size=(4, 5000)).astype("float32") * 5
    logits[1] += 1e4
    logits[2, 1:] = -1e9
    exact = np.log(np.exp((logits - logits.max(-1, keepdims=True)).astype("float64")).sum(-1))
    exact = exact + logits.max(-1)
    tensor = ops.convert_to_tensor(logits)
    np.testing.assert_allclose(ops.convert_to_numpy(log_totals(tensor)), exact, rtol=1e-6)
    totals = ops.convert_to_numpy(log_totals(tensor, in_chunks(tensor)))
    np.testing.assert_allclose(totals, exact, rtol=1e-6)


@pytest.mark.parametrize("size", [3, 7, 997, 8000, 8009])
@pytest.mark.parametrize("passed_over", [(), (0, 2), (0, 1, 2, 90)])
def test_best_words_of_all_slots_are_what_sorting_gives(size, passed_over):
    passed_over = [i for i in passed_over if i < size]
    random = np.random.RandomState(size)
    logits = random.normal(size=(3, 4, size)).astype("float32")
    shifts = random.normal(size=(3, 4)).astype("float32")
    logits[0, 1] = np.sort(logits[0, 1]) + 3  # nearly all of the best in one slot, and in one chunk
    logits[1, :, passed_over] += 20  # what is passed over would be best
    shifts[1, 2] = NONE  # a slot that does not go on
    logits[2, 0] = np.nan
    ranks = logits + shifts[:, :, None]
    ranks[:, :, passed_over] = NONE
    ranks = np.where(ranks > NONE / 2, ranks, NONE).reshape(3, -1)
    tensors = ops.convert_to_tensor(logits), ops.convert_to_tensor(shifts)
    best, words = best_words(in_chunks(tensors[0]), tensors[1], 5, passed_over)
    best, words = ops.convert_to_numpy(best), ops.convert_to_numpy(words)
    np.testing.assert_array_equal(best, -np.sort(-ranks, axis=1)[:, :5])
    found = best > NONE / 2
    picked = np.take_along_axis(ranks, words, axis=1)
    np.testing.assert_array_equal(picked[found], best[found])
    assert all(len(set(w[f])) == f.sum() for w, f in zip(words, found, strict=True))
    assert words.min() >= 0
    assert words.max() < 4 * size
