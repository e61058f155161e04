import keras

from zoo.layers.cells import output_size


@keras.saving.register_keras_serializable("zoo")
class ResidualRNNCells(keras.layers.StackedRNNCells):
    """`StackedRNNCells` in which each layer above the first adds its input to its output.

    Deep stacks train better so (He et al. 2016; Wu et al. 2016).

    Arguments:
        cells: a list of Keras cells, all with outputs of one size.

    Example:

    ```python
    import keras
    from zoo import ResidualRNNCells

    stack = ResidualRNNCells([keras.layers.LSTMCell(16) for _ in range(3)])
    outputs = keras.layers.RNN(stack)(keras.random.normal((2, 5, 8)))
    assert outputs.shape == (2, 16)
    ```
    """

    def __init__(self, cells, **kwargs):
        super().__init__(cells, **kwargs)
        sizes = [output_size(cell) for cell in self.cells]
        if len(set(sizes)) != 1:
            raise ValueError(
                "`cells` must all give outputs of one size, to be added up. "
                f"Received: cells with outputs of {sizes}"
            )

    def call(self, inputs, states, training=None):
        new_states = []
        for i, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            nested = keras.tree.is_nested(state)
            outputs, state = cell(inputs, list(state) if nested else [state], training=training)
            new_states.append(state if nested else keras.tree.flatten(state)[0])
            inputs = inputs + outputs if i > 0 else outputs
        return inputs, new_states
