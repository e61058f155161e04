import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from tests.tools import close, log_softmax
from zoo import TokenCrossentropy
from zoo.training.token_crossentropy import disagreement

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 5, 7)).astype("float32")
LABELS = RNG.integers(1, 7, size=(3, 5))
LABELS[0, 3:] = LABELS[2, 1:] = 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_mean_over_the_tokens_that_are_no_padding(smoothing):
    log_probs, total, count = log_softmax(LOGITS), 0.0, 0
    for i, j in np.argwhere(LABELS > 0):
        q = (1 - smoothing) * np.eye(7)[LABELS[i, j]] + smoothing / 7
        total, count = total - (q * log_probs[i, j]).sum(), count + 1
    close(TokenCrossentropy(smoothing)(LABELS, LOGITS), total / count)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("jit", [False, True])
def test_the_gradient_is_softmax_less_what_is_aimed_at(smoothing, dtype, jit):
    logits = tf.cast(LOGITS, dtype)

    @tf.function(jit_compile=jit)
    def gradient_of(logits):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            loss = TokenCrossentropy(smoothing)(LABELS, logits)
        return tape.gradient(loss, logits)

    gradient = gradient_of(logits)
    aimed_at = (1 - smoothing) * np.eye(7)[LABELS] + smoothing / 7
    expected = np.exp(log_softmax(tf.cast(logits, tf.float32).numpy())) - aimed_at
    expected *= (LABELS > 0)[..., None] / (LABELS > 0).sum()
    assert gradient.dtype == dtype
    tolerance = 1e-6 if dtype == "float32" else 1e-3
    np.testing.assert_allclose(tf.cast(gradient, tf.float32), expected, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_disagreement_is_the_mean_of_both_divergences(dtype):
    logits, others = (tf.cast(20.0 + RNG.normal(size=(4, 7)), dtype) for _ in range(2))
    p, q = (log_softmax(tf.cast(x, tf.float32).numpy()) for x in (logits, others))
    forth, back = (np.exp(p) * (p - q)).sum(-1), (np.exp(q) * (q - p)).sum(-1)
    close(disagreement(logits, others), (forth + back) / 2, 1e-5)


def test_the_gradient_of_disagreement_is_what_small_changes_show():
    both, weights = RNG.normal(size=(2, 4, 7)), RNG.normal(size=4)

    def of(both):
        p, q = (log_softmax(x) for x in both)
        return (weights * ((np.exp(p) - np.exp(q)) * (p - q)).sum(-1) / 2).sum()

    expected = np.empty(both.shape)
    for place in np.ndindex(both.shape):
        change = np.zeros(both.shape)
        change[place] = 1e-5
        expected[place] = (of(both + change) - of(both - change)) / 2e-5
    logits = [tf.constant(x, "float32") for x in both]
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total = tf.reduce_sum(disagreement(*logits) * weights.astype("float32"))
    close(tf.stack(tape.gradient(total, logits)), expected, 1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_labels_outside_of_the_vocabulary_are_no_numbers(jit):
    compute = tf.function(
        lambda labels, logits: TokenCrossentropy()(labels, logits),
        input_signature=[tf.TensorSpec((None, None), tf.int32), tf.TensorSpec((None, None, None))],
        jit_compile=jit,
    )
    for wrong in (-1, 7):
        labels = LABELS.copy()
        labels[1, 2] = wrong
        assert np.isnan(compute(tf.constant(labels, tf.int32), LOGITS))
    assert np.isfinite(compute(tf.constant(LABELS, tf.int32), LOGITS))


def test_padding_has_no_gradient_and_no_value():
    changed = LOGITS.copy()
    changed[LABELS == 0] = 1e4
    close(TokenCrossentropy(0.1)(LABELS, changed), TokenCrossentropy(0.1)(LABELS, LOGITS))


def test_nothing_but_padding_is_zero():
    close(TokenCrossentropy()(np.zeros((2, 3)), LOGITS[:2, :3]), 0.0)


def test_another_pad_id():
    labels = np.where(LABELS == 0, 6, np.minimum(LABELS, 5))
    picked = -log_softmax(LOGITS)[labels != 6][np.arange((labels != 6).sum()), labels[labels != 6]]
    close(TokenCrossentropy(pad_id=6)(labels, LOGITS), picked.mean())


def test_float32_whatever_the_logits():
    logits = ops.cast(LOGITS * 10, "float16")
    loss = TokenCrossentropy()(LABELS, logits)
    assert keras.backend.standardize_dtype(loss.dtype) == "float32"
    close(loss, TokenCrossentropy()(LABELS, LOGITS * 10), 1e-2)


def test_large_ids_in_mixed_precision():
    logits = np.zeros((1, 1, 3000), "float32")
    logits[0, 0, 2049] = 20.0  # float16 would read 2048
    keras.config.set_dtype_policy("mixed_float16")
    try:
        loss = TokenCrossentropy()(np.array([[2049]]), logits)
    finally:
        keras.config.set_dtype_policy("float32")
    assert float(loss) < 1e-4


def test_sample_weights_weigh_sentences():
    only_first = TokenCrossentropy()(LABELS, LOGITS, sample_weight=np.array([1.0, 0.0, 0.0]))
    close(only_first * (LABELS > 0).sum(), TokenCrossentropy()(LABELS[:1], LOGITS[:1]) * 3)


def test_configuration_round_trip():
    loss = keras.losses.deserialize(keras.losses.serialize(TokenCrossentropy(0.1, pad_id=3)))
    assert (loss.label_smoothing, loss.pad_id) == (0.1, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TokenCrossentropy(1.0), "label_smoothing=1.0"),
        (lambda: TokenCrossentropy()(LABELS, LABELS), r"labels.shape=\(3, 5\)"),
    ],
)
def test_errors_say_what_was_received(call, message):
    with pytest.raises(ValueError, match=message):
        call()
