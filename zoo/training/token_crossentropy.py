import keras
from keras import ops


@keras.saving.register_keras_serializable("zoo")
class TokenCrossentropy(keras.losses.Loss):
    """Cross-entropy of the next token: the mean over all tokens of a batch that are no padding.

        loss = - sum over tokens of log q(token), with q = (1 - s) * one-hot + s / vocabulary_size

    The mean is over tokens, not over sentences, so that a token weighs the same in a short sentence
    as in a long one. (On several replicas Keras' `fit` takes the mean of their means.) Computed in
    float32 whatever the dtype of the logits.

    Arguments:
        label_smoothing: float s in [0, 1), the probability that is spread over the vocabulary
            (Szegedy et al. 2016).
        pad_id: int, the label that counts for nothing.

    Call arguments: labels (batch, time) ints, logits (batch, time, vocabulary), and optionally
        sample_weight (batch,) or (batch, time), factors that do not change the divisor.

    Example:

    ```python
    import numpy as np
    from zoo import TokenCrossentropy

    loss = TokenCrossentropy()(np.array([[1, 2, 0]]), np.zeros((1, 3, 4)))
    assert abs(float(loss) - np.log(4)) < 1e-6
    ```
    """

    def __init__(self, label_smoothing=0.0, pad_id=0, name="token_crossentropy"):
        super().__init__(name=name, dtype="float32")
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                f"`label_smoothing` must be in [0, 1). Received: label_smoothing={label_smoothing}"
            )
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id

    def __call__(self, labels, logits, sample_weight=None):
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight)
            if len(sample_weight.shape) == 1:  # a weight per sentence
                sample_weight = sample_weight[:, None]
        return super().__call__(labels, logits, sample_weight)

    def call(self, labels, logits):
        losses, mask = token_losses(labels, logits, self.label_smoothing, self.pad_id)
        # Keras takes the mean over all positions (and divides among replicas): make it the mean
        # over the tokens.
        count = ops.cast(ops.size(mask), "float32")
        return losses * (count / ops.maximum(ops.sum(mask), 1.0))

    def get_config(self):
        return {
            "name": self.name,
            "label_smoothing": self.label_smoothing,
            "pad_id": self.pad_id,
        }


def token_losses(labels, logits, label_smoothing=0.0, pad_id=0):
    """The loss of each token, 0 at padding, and 1.0 where there is a token; both (batch, time)."""
    logits = ops.cast(logits, "float32")
    labels = ops.cast(labels, "int32")
    if len(logits.shape) != len(labels.shape) + 1:
        raise ValueError(
            "Labels must be (batch, time) and logits (batch, time, vocabulary). Received: "
            f"labels.shape={tuple(labels.shape)}, logits.shape={tuple(logits.shape)}"
        )
    mask = ops.not_equal(labels, pad_id)
    labels = ops.where(mask, labels, 0)
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    if label_smoothing:
        # The cross-entropy with the uniform distribution, without a (.., vocabulary) tensor.
        uniform = ops.logsumexp(logits, axis=-1) - ops.mean(logits, axis=-1)
        losses = losses + label_smoothing * (uniform - losses)
    mask = ops.cast(mask, "float32")
    return losses * mask, mask
