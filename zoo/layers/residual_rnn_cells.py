import keras

from zoo.layers.cells import call_cell, output_size, run_stack


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

    adds_inputs = True  # what `run_stack` asks

    def __init__(self, cells, **kwargs):
        super().__init__(cells, **kwargs)
        sizes = [output_size(cell) for cell in self.cells]
        if len(set(sizes)) != 1:
            raise ValueError(
                "`cells` must all give outputs of one size, to be added up. "
                f"Received: cells with outputs of {sizes}"
            )

    def call(self, inputs, states, training=None):
        return run_stack(self, inputs, states, training, call_cell)
