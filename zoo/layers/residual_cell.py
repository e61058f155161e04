import keras

from zoo.layers.cells import check_cell, output_size


@keras.saving.register_keras_serializable("zoo")
class ResidualCell(keras.layers.Layer):
    """A cell whose output is the wrapped cell's output plus its input (He et al. 2016).

    Wrap the upper layers of a stack with it, where input and output have one size; deep stacks
    train better so (Wu et al. 2016).

    Arguments:
        cell: any Keras cell.

    Example:

    ```python
    import keras
    from zoo.layers import ResidualCell

    first, second = keras.layers.LSTMCell(16), keras.layers.LSTMCell(16)
    stack = keras.layers.StackedRNNCells([first, ResidualCell(second)])
    outputs = keras.layers.RNN(stack)(keras.random.normal((2, 5, 8)))
    assert outputs.shape == (2, 16)
    ```
    """

    def __init__(self, cell, **kwargs):
        super().__init__(**kwargs)
        check_cell(cell)
        self.cell = cell
        self.state_size = cell.state_size
        self.output_size = output_size(cell)

    def build(self, inputs_shape):
        if inputs_shape[-1] != self.output_size:
            raise ValueError(
                "`cell` of a ResidualCell must give outputs of the size of its inputs. Received: "
                f"inputs of {inputs_shape[-1]} features, outputs of {self.output_size}"
            )
        if not self.cell.built:
            self.cell.build(inputs_shape)
        self.built = True

    def call(self, inputs, states, training=None):
        outputs, states = self.cell(inputs, states, training=training)
        return inputs + outputs, states

    def get_initial_state(self, batch_size=None):
        return self.cell.get_initial_state(batch_size=batch_size)

    def get_config(self):
        return {
            **super().get_config(),
            "cell": keras.saving.serialize_keras_object(self.cell),
        }

    @classmethod
    def from_config(cls, config):
        cell = keras.saving.deserialize_keras_object(config["cell"])
        return cls(**{**config, "cell": cell})
