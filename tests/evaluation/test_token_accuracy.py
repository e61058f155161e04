import keras
import numpy as np

from zoo import TokenAccuracy

LABELS = np.array([[3, 2, 0, 0], [1, 1, 1, 1]])
LOGITS = np.eye(4)[[[3, 1, 0, 0], [1, 1, 1, 2]]]


def test_padding_is_left_out():
    accuracy = TokenAccuracy()
    accuracy.update_state(LABELS, LOGITS)
    assert float(accuracy.result()) == np.float32(4 / 6)
    accuracy.update_state(LABELS[:1], LOGITS[:1])
    assert float(accuracy.result()) == np.float32(5 / 8)


def test_sample_weights():
    accuracy = TokenAccuracy()
    accuracy.update_state(LABELS, LOGITS, sample_weight=np.array([1.0, 0.0]))
    assert float(accuracy.result()) == 0.5


def test_configuration_round_trip():
    metric = keras.metrics.deserialize(keras.metrics.serialize(TokenAccuracy(pad_id=3)))
    assert metric.pad_id == 3
