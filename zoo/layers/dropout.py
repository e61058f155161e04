import keras
from keras import ops

PARTS = 256  # of which a rate is a whole number


@keras.saving.register_keras_serializable("zoo")
class Dropout(keras.layers.Dropout):
    """Keras' layer with a quarter of the random numbers, which are what dropout costs on a CPU.

    One number of 32 bits decides over four units, so the rate is rounded to 1/256: 0.1 is 26/256. A
    rate that would be off by more than a twentieth is Keras' affair.
    """

    def call(self, inputs, training=False):
        dropped = round(self.rate * PARTS)
        is_near = abs(dropped / PARTS - self.rate) <= 0.05 * self.rate and dropped < PARTS
        if not training or not dropped or not is_near or self.noise_shape:
            return super().call(inputs, training=training)
        count = ops.size(inputs)
        words = keras.random.randint(
            ((count + 3) // 4, 1), -(2**31), 2**31 - 1, dtype="int32", seed=self.seed_generator
        )
        draws = ops.reshape(ops.view(words, "int8"), (-1,))[:count]  # -128 to 127, all alike
        kept = ops.cast(draws >= dropped - PARTS // 2, inputs.dtype) * (PARTS / (PARTS - dropped))
        return inputs * ops.reshape(kept, ops.shape(inputs))
