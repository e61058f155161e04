import keras
from keras import ops

from zoo.layers.vocabulary import log_totals


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
    logits = ops.convert_to_tensor(logits)
    labels = ops.cast(labels, "int32")
    if len(logits.shape) != len(labels.shape) + 1:
        raise ValueError(
            "Labels must be (batch, time) and logits (batch, time, vocabulary). Received: "
            f"labels.shape={tuple(labels.shape)}, logits.shape={tuple(logits.shape)}"
        )
    mask = ops.not_equal(labels, pad_id)
    size = ops.shape(logits)[-1]
    is_label = ops.logical_and(labels >= 0, labels < size)  # else the loss is NaN
    rows = ops.reshape(ops.where(ops.logical_and(mask, is_label), labels, 0), (-1,))
    losses = _row_losses(ops.reshape(logits, (-1, size)), rows, label_smoothing)
    losses = ops.where(is_label, ops.reshape(losses, ops.shape(mask)), float("nan"))
    return ops.where(mask, losses, 0.0), ops.cast(mask, "float32")


def disagreement(logits, others):
    """How far two distributions are apart: the mean of KL(p || q) and KL(q || p), for each row.

        1/2 * sum of (p - q) * (logits - others)

    The normalisers of both logits cancel out, since p and q have the same sum. The gradient is
    written out, as that of a loss is.
    """
    logits, others = ops.convert_to_tensor(logits), ops.convert_to_tensor(others)
    dtype = logits.dtype

    @ops.custom_gradient
    def of(logits, others):
        logits, others = ops.cast(logits, "float32"), ops.cast(others, "float32")
        p, q = ops.softmax(logits, axis=-1), ops.softmax(others, axis=-1)
        differ, apart = p - q, logits - others

        def gradient(*arguments, upstream=None):
            (upstream,) = arguments if upstream is None else (upstream,)

            def toward(probabilities, sign):
                mean = ops.sum(probabilities * apart, axis=-1, keepdims=True)
                both = differ + probabilities * (apart - mean)
                return ops.cast(both * (0.5 * sign * upstream)[:, None], dtype)

            return toward(p, 1.0), toward(q, -1.0)

        return 0.5 * ops.sum(differ * apart, axis=-1), gradient

    return of(logits, others)


def _row_losses(logits, labels, smoothing):
    """The loss of each row (rows, vocabulary) and its label, with the gradient written out.

    The passes over all words are what a loss costs (bench/passes.py): one softmax serves both
    directions, and no pass is made for the label.
    """
    size = ops.cast(ops.shape(logits)[-1], "float32")
    share = smoothing / size  # of each word, in the distribution that is aimed at

    @ops.custom_gradient
    def losses_of(logits):
        dtype = logits.dtype
        logits = ops.cast(logits, "float32")
        probabilities = ops.softmax(logits, axis=-1)
        index = labels[:, None]
        losses = log_totals(logits, probabilities=probabilities)
        losses = losses - (1 - smoothing) * _take(logits, index)
        if smoothing:
            losses = losses - smoothing * ops.mean(logits, axis=-1)

        def gradient(*arguments, upstream=None):  # PyTorch hands it over by name, the others not
            (upstream,) = arguments if upstream is None else (upstream,)
            everywhere = probabilities - share if smoothing else probabilities
            at_labels = (_take(probabilities, index) - share - (1 - smoothing)) * upstream
            where = ops.stack([ops.arange(ops.shape(labels)[0]), labels], axis=1)
            everywhere = ops.scatter_update(everywhere * upstream[:, None], where, at_labels)
            return ops.cast(everywhere, dtype)

        return losses, gradient

    return losses_of(logits)


def _take(rows, index):
    return ops.take_along_axis(rows, index, axis=1)[:, 0]
