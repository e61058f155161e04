import keras
import numpy as np
import pytest
from keras import ops

from zoo.layers.dropout import Dropout


@pytest.mark.parametrize(("rate", "share"), [(0.1, 26 / 256), (0.5, 0.5), (0.01, 0.01)])
def test_drops_its_share_and_keeps_the_mean(rate, share):
    x = np.full((40, 50, 101), 2.0, "float32")  # 202,000 units, no multiple of four
    y = ops.convert_to_numpy(Dropout(rate, seed=7)(x[:, :, :-1], training=True))
    dropped = y == 0
    deviation = np.sqrt(share * (1 - share) / y.size)
    assert abs(dropped.mean() - share) < 5 * deviation
    np.testing.assert_allclose(y[~dropped], 2 / (1 - share), rtol=1e-6)
    # Neighbours share a random number, and yet are dropped on their own.
    flat = dropped.reshape(-1, 4).astype("float64") - share
    products = flat.T @ flat / len(flat)
    others = products[~np.eye(4, dtype=bool)]
    assert np.abs(others).max() < 5 * share * (1 - share) / np.sqrt(len(flat))


def test_draws_anew_and_by_its_seed():
    x = np.ones((3, 5, 7), "float32")
    first, second = Dropout(0.5, seed=1), Dropout(0.5, seed=1)
    a, b = (ops.convert_to_numpy(first(x, training=True)) for _ in range(2))
    assert (a != b).any()
    np.testing.assert_array_equal(a, ops.convert_to_numpy(second(x, training=True)))
    np.testing.assert_array_equal(ops.convert_to_numpy(first(x)), x)  # not in training


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a tf.function")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("jit", [False, True])
def test_gradients_pass_what_was_kept_in_a_graph_of_any_size(dtype, jit):
    import tensorflow as tf

    layer = Dropout(0.25, dtype=dtype)

    @tf.function(input_signature=[tf.TensorSpec((None, None, 3), dtype)], jit_compile=jit)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
        return y, tape.gradient(y, x)

    y, gradient = run(tf.ones((5, 3, 3), dtype))
    np.testing.assert_array_equal(y, gradient)
    assert set(np.unique(tf.cast(y, tf.float32))) == {0.0, np.float32(tf.constant(4 / 3, dtype))}
