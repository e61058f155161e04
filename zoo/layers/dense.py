import keras
from keras import ops

from zoo.layers.reshape import reshape


@keras.saving.register_keras_serializable("zoo")
class Dense(keras.layers.Dense):
    """Keras' layer as one product of rows, with which TensorFlow fuses bias and activation."""

    def call(self, inputs, training=None):
        if len(inputs.shape) == 2:
            return super().call(inputs, training=training)
        rows = ops.reshape(inputs, (-1, self.kernel.shape[0]))
        outputs = super().call(rows, training=training)
        return reshape(outputs, (*ops.shape(inputs)[:-1], self.units))


def tied_logits(outputs, embeddings, bias):
    """Logits by the embeddings (vocabulary, dim) themselves: outputs E^T + bias."""
    rows = ops.reshape(outputs, (-1, embeddings.shape[1]))
    logits = ops.matmul(rows, ops.transpose(ops.cast(embeddings, outputs.dtype)))
    logits = ops.add(logits, ops.cast(bias, outputs.dtype))
    return reshape(logits, (*ops.shape(outputs)[:-1], embeddings.shape[0]))
