"""What the rest of the zoo needs to know of any Keras cell, one layer or a stack.

States are flat lists here: [h] for a GRU, [h, c] for an LSTM, [h, c, h, c] for a stack of two.
"""

import keras
from keras import ops

from zoo.layers.products import defers_gradients, product
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
    run = run_deferred if defers_gradients(training) else call_cell
    outputs, states = run(cell, inputs, states, training)
    results = [outputs, *keras.tree.flatten(states)]
    results = [ops.cast(x, dtype) for x, dtype in zip(results, dtypes, strict=True)]
    outputs, *states = [reshape(x, (batch, beam, x.shape[-1])) for x in results]
    return outputs, states


def call_cell(cell, inputs, states, training):
    return cell(inputs, states, training=training)


def run_deferred(cell, inputs, states, training):
    """What a cell does, its products given to the loop around it, which defers their gradients."""
    run = {keras.layers.LSTMCell: _run_lstm, keras.layers.GRUCell: _run_gru}.get(type(cell))
    if run and getattr(cell, "reset_after", True):
        # as their own `call` would be given them
        inputs, *states = [ops.cast(x, cell.compute_dtype) for x in [inputs, *states]]
        return run(cell, inputs, *states, training)
    if type(cell) is keras.layers.StackedRNNCells or "adds_inputs" in vars(type(cell)):
        return run_stack(cell, inputs, states, training, run_deferred)
    return call_cell(cell, inputs, states, training)


def run_stack(stack, inputs, states, training, run):
    """Layer upon layer, `run(cell, inputs, states, training)` being one of them."""
    new_states = []
    for i, (cell, state) in enumerate(zip(stack.cells, states, strict=True)):
        nested = keras.tree.is_nested(state)
        outputs, state = run(cell, inputs, list(state) if nested else [state], training)
        new_states.append(state if nested else keras.tree.flatten(state)[0])
        inputs = inputs + outputs if i > 0 and getattr(stack, "adds_inputs", False) else outputs
    return inputs, new_states


def _run_lstm(cell, inputs, hidden, carry, training):
    inputs, dropped = _dropped(cell, inputs, hidden, training)
    pairs = (inputs, cell.kernel), (dropped, cell.recurrent_kernel)
    gates = _float32(product(*pairs, bias=cell.bias))  # (rows, 4 * units)
    into, keep, new, out = ops.split(gates, 4, axis=-1)
    opened = cell.recurrent_activation
    new_carry = opened(keep) * _float32(carry) + opened(into) * cell.activation(new)
    hidden = ops.cast(opened(out) * cell.activation(new_carry), inputs.dtype)
    return hidden, [hidden, ops.cast(new_carry, carry.dtype)]


def _run_gru(cell, inputs, hidden, training):
    inputs, dropped = _dropped(cell, inputs, hidden, training)
    biases = ops.unstack(cell.bias, axis=0) if cell.use_bias else (None, None)
    read = _float32(product((inputs, cell.kernel), bias=biases[0]))  # (rows, 3 * units)
    kept = _float32(product((dropped, cell.recurrent_kernel), bias=biases[1]))
    (read, read_new), (kept, kept_new) = (
        ops.split(x, [2 * cell.units], axis=-1) for x in (read, kept)
    )
    update, reset = ops.split(cell.recurrent_activation(read + kept), 2, axis=-1)
    new = cell.activation(read_new + reset * kept_new)
    hidden = ops.cast(new + update * (_float32(hidden) - new), hidden.dtype)
    return hidden, [hidden]


def _float32(x):
    """At least float32, in which activations are faster than in bfloat16, and exact."""
    return x if x.dtype == "float64" else ops.cast(x, "float32")


def _dropped(cell, inputs, hidden, training):
    """Inputs and state, of which the same units are left out at all steps (one mask for all gates:
    Gal & Ghahramani 2016)."""
    if training and 0 < cell.dropout < 1:
        inputs = inputs * _mask(cell.get_dropout_mask(inputs))
    if training and 0 < cell.recurrent_dropout < 1:
        hidden = hidden * _mask(cell.get_recurrent_dropout_mask(hidden))
    return inputs, hidden


def _mask(masks):
    return masks[0] if isinstance(masks, list) else masks


def run_sequence(cell, inputs, states, training=None):
    """All steps: inputs (batch, time, dim), states (batch, 1, size).

    Returns outputs (batch, time, dim), the top layer's hidden states (batch, time, size), states.
    """

    def step(inputs, states):
        outputs, states = run_cell(cell, inputs[:, None], states, training)
        return [outputs[:, 0], hidden_state(cell, states)[:, 0]], states

    (outputs, hidden), states = scan(step, inputs, states, training)
    reset_dropout(cell)
    return outputs, hidden, states


def run_layer(cell, inputs, mask, training):
    """What a Keras layer of this cell does in training, from zeros.

    inputs (batch, time, dim), mask (batch, time) bool: where it is False the state stays. Returns
    outputs (batch, time, units), states.
    """
    dtype = cell.compute_dtype
    zeros = [ops.zeros((ops.shape(inputs)[0], size), dtype=dtype) for size in state_sizes(cell)]
    inputs = [ops.cast(inputs, dtype), ops.cast(mask, dtype)[:, :, None]]

    def step(inputs, states):
        inputs, is_there = inputs[0], inputs[1] > 0
        _, new_states = run_deferred(cell, inputs, states, training)
        states = [ops.where(is_there, n, o) for n, o in zip(new_states, states, strict=True)]
        return [states[0]], states  # the output of every cell that Keras has is its first state

    (outputs,), states = scan(step, inputs, zeros, training)
    reset_dropout(cell)
    return outputs, states
