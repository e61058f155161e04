import keras
from keras import ops


class _Step:
    """What keras.layers.RNN needs to see of a step function to take it for a cell."""

    compute_dtype = None  # keeps the dtype of every state: a position stays an integer

    def __init__(self, step, state_size):
        self.call = step
        self.state_size = state_size

    def __call__(self, inputs, states):
        return self.call(inputs, states)


def scan(step, inputs, state, dtype):
    """Runs `outputs, state = step(inputs[:, t], state)` for every t, within the graph.

    `keras.layers.RNN` is the loop that trains on every backend, compiled or not. It carries a list
    of states and emits one tensor, so nests are flattened and outputs joined on the way.

    Arguments:
        step: a function; whatever it closes over is fixed over time and is not carried along.
        inputs: (batch, time, ...), rank 3 at least.
        state: a nest of tensors, whose shapes and dtypes the step keeps.
        dtype: the dtype of the outputs.

    Returns the list of outputs, each (batch, time, ...), and the final state. A step returns a list
    of outputs of one rank, of which only the last may have a last axis unknown to the graph.
    """
    sizes = []
    count = len(keras.tree.flatten(state))

    def flat_step(inputs, states):
        outputs, new_state = step(inputs, keras.tree.pack_sequence_as(state, states[:count]))
        sizes[:] = [output.shape[-1] for output in outputs]
        outputs = [ops.cast(output, dtype) for output in outputs]
        joined = ops.concatenate(outputs, axis=-1) if len(outputs) > 1 else outputs[0]
        return joined, [*keras.tree.flatten(new_state), *states[count:]]

    # The loop wants a state to carry, also where the step has none.
    states = keras.tree.flatten(state) or [ops.zeros(())]
    # The loop runs the step once outside itself: dropout masks that cells keep for all steps are
    # then drawn there and belong to the graph around it (see also reset_dropout).
    flat_step(inputs[:, 0], states)
    rnn = keras.layers.RNN(
        _Step(flat_step, [0] * len(states)), return_sequences=True, return_state=True, dtype=dtype
    )
    joined, *final = rnn(inputs, initial_state=states)
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]  # the last one needs no end
    outputs = [joined[..., start:end] for start, end in zip([0, *ends], [*ends, None], strict=True)]
    final = [ops.cast(new, old.dtype) for new, old in zip(final, states, strict=True)]
    return outputs, keras.tree.pack_sequence_as(state, final[:count])
