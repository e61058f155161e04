import keras
from keras import ops


@keras.saving.register_keras_serializable("zoo")
class Dense(keras.layers.Dense):
    """Keras' layer as one product of rows, with which TensorFlow fuses bias and activation."""

    def call(self, inputs, training=None):
        if len(inputs.shape) == 2:
            return super().call(inputs, training=training)
        rows = ops.reshape(inputs, (-1, self.kernel.shape[0]))
        outputs = super().call(rows, training=training)
        return ops.reshape(outputs, (*ops.shape(inputs)[:-1], self.units))
