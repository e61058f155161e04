"""What the rest of the zoo needs to know of any Keras cell, one layer or a stack.

States are flat lists here: [h] for a GRU, [h, c] for an LSTM, [h, c, h, c] for a stack of two.
"""

import keras
from keras import ops

from zoo.layers.reshape import reshape
from zoo.layers.scan import reset_dropout, scan


def check_cell(cell):
    is_cell = isinstance(cell, keras.layers.Layer) and hasattr(cell, "state_size")
    if not is_cell or isinstance(cell, keras.layers.RNN):
        raise ValueError(
            "`cell` must be one step, such as keras.layers.GRUCell(256) (not the layer GRU), or "
            "keras.layers.StackedRNNCells([...]) for several. "
            f"Received: cell={cell!r} of type {type(cell).__name__}"
        )


def layer_cells(cell):
    """The cells of all layers, from the lowest to the top."""
    if not hasattr(cell, "cells"):
        return [cell]
    return [single for inner in cell.cells for single in layer_cells(inner)]


def state_sizes(cell):
    return keras.tree.flatten(cell.state_size)


def hidden_indices(cell):
    """Where the hidden state h of each layer stands among all states."""
    counts = [len(state_sizes(single)) for single in layer_cells(cell)]
    return [sum(counts[:i]) for i in range(len(counts))]


def hidden_size(cell):
    """The size of the top layer's hidden state."""
    return state_sizes(cell)[hidden_indices(cell)[-1]]


def hidden_state(cell, states):
    """The top layer's hidden state."""
    return states[hidden_indices(cell)[-1]]


def output_size(cell):
    return getattr(cell, "output_size", None) or hidden_size(cell)


def run_cell(cell, inputs, states, training=None):
    """One step: inputs and states (batch, beam, dim) -> outputs (batch, beam, dim), states."""
    batch, beam = ops.shape(inputs)[:2]
    dtypes = [x.dtype for x in [inputs, *states]]  # kept, whatever the policy of the cell
    # Keras' cells know rows only: (batch, beam, dim) -> (batch * beam, dim) and back.
    inputs, *states = [ops.reshape(x, (-1, x.shape[-1])) for x in [inputs, *states]]
    sizes = cell.state_size
    structure = sizes if isinstance(sizes, (list, tuple)) else [sizes]
    states = keras.tree.pack_sequence_as(structure, states)
    outputs, states = cell(inputs, states, training=training)
    results = [outputs, *keras.tree.flatten(states)]
    results = [ops.cast(x, dtype) for x, dtype in zip(results, dtypes, strict=True)]
    outputs, *states = [reshape(x, (batch, beam, x.shape[-1])) for x in results]
    return outputs, states


def run_sequence(cell, inputs, states, training=None):
    """All steps: inputs (batch, time, dim), states (batch, 1, size).

    Returns outputs (batch, time, dim), the top layer's hidden states (batch, time, size), states.
    """

    def step(inputs, states):
        outputs, states = run_cell(cell, inputs[:, None], states, training)
        return [outputs[:, 0], hidden_state(cell, states)[:, 0]], states

    (outputs, hidden), states = scan(step, inputs, states)
    reset_dropout(cell)
    return outputs, hidden, states
