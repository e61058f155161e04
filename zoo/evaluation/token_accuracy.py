import keras
from keras import ops


@keras.saving.register_keras_serializable("zoo")
class TokenAccuracy(keras.metrics.Mean):
    """The share of tokens that a model ranks first, padding left out.

    Arguments:
        pad_id: int, the label that counts for nothing.

    Example:

    ```python
    import numpy as np
    from zoo import TokenAccuracy

    accuracy = TokenAccuracy()
    accuracy.update_state(np.array([[1, 2, 0]]), np.eye(4)[[[1, 3, 0]]])
    assert float(accuracy.result()) == 0.5
    ```
    """

    def __init__(self, pad_id=0, name="token_accuracy", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.pad_id = pad_id

    def update_state(self, labels, logits, sample_weight=None):
        labels = ops.cast(labels, "int32")
        weights = ops.cast(ops.not_equal(labels, self.pad_id), "float32")
        if sample_weight is not None:
            sample_weight = ops.cast(sample_weight, "float32")
            if len(sample_weight.shape) == 1:  # a weight per sentence
                sample_weight = sample_weight[:, None]
            weights = weights * sample_weight
        hits = ops.equal(labels, ops.cast(ops.argmax(logits, axis=-1), "int32"))
        super().update_state(ops.cast(hits, "float32"), sample_weight=weights)

    def get_config(self):
        return {"name": self.name, "dtype": self.dtype, "pad_id": self.pad_id}
