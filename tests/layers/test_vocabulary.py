import keras
import numpy as np
import pytest
from keras import ops

from zoo.layers.vocabulary import in_chunks, log_totals, top_k


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
