import contextlib

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


def scan(step, inputs, state):
    """Runs `outputs, state = step(inputs[:, t], state)` for every t, within the graph.

    `keras.layers.RNN` is the loop that trains on every backend, compiled or not. It carries a list
    of states and emits one tensor, so nests are flattened and outputs joined on the way.

    Arguments:
        step: a function; whatever it closes over is fixed over time and is not carried along.
        inputs: (batch, time, ...), rank 3 at least; or a list of (batch, time, size), of which only
            the last may have a size unknown to the graph. A step gets what was given, without time.
        state: a nest of tensors, whose shapes and dtypes the step keeps.

    Returns the list of outputs, each (batch, time, ...), and the final state. A step returns a list
    of outputs of one rank, of which only the last may have a last axis unknown to the graph.
    """
    if isinstance(inputs, list) and len(inputs) == 1:
        return scan(lambda inputs, state: step([inputs], state), inputs[0], state)
    if isinstance(inputs, list):
        joined, apart = _join(inputs)
        return scan(lambda inputs, state: step(apart(inputs), state), joined, state)
    count = len(keras.tree.flatten(state))
    emitted = []  # the outputs of the step that was traced last, for their sizes and dtypes

    def flat_step(inputs, states):
        outputs, new_state = step(inputs, keras.tree.pack_sequence_as(state, states[:count]))
        emitted[:] = outputs
        joined = ops.concatenate(outputs, axis=-1) if len(outputs) > 1 else outputs[0]
        return joined, [*keras.tree.flatten(new_state), *states[count:]]

    # The loop wants a state to carry, also where the step has none.
    states = keras.tree.flatten(state) or [ops.zeros(())]
    # Dropout masks that cells keep for all steps are drawn in the first one. If that is inside the
    # loop, JAX cannot use them in the next (see also reset_dropout).
    flat_step(inputs[:, 0], states)
    rnn = keras.layers.RNN(
        _Step(flat_step, [0] * len(states)),
        return_sequences=True,
        return_state=True,
        dtype="float32",  # what it casts its results to; they are cast back below
        autocast=False,
        name="scan",
    )
    joined, *final = rnn(inputs, initial_state=states)
    ends = [sum(x.shape[-1] for x in emitted[: i + 1]) for i in range(len(emitted) - 1)]
    outputs = [
        ops.cast(joined[..., start:end], x.dtype)
        for x, start, end in zip(emitted, [0, *ends], [*ends, None], strict=True)
    ]
    final = [ops.cast(new, old.dtype) for new, old in zip(final, states, strict=True)]
    return outputs, keras.tree.pack_sequence_as(state, final[:count])


def _join(inputs):
    """One tensor of several, and a function that takes a step of it apart again."""
    sizes = [x.shape[-1] for x in inputs]
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]

    def apart(joined):
        parts = zip([0, *ends], [*ends, None], sizes, inputs, strict=True)
        return [
            # where the last size is unknown, the graph does not know those of slices either
            ops.cast(ops.reshape(joined[:, start:end], (-1, size or ops.shape(x)[-1])), x.dtype)
            for start, end, size, x in parts
        ]

    return ops.concatenate([ops.cast(x, "float32") for x in inputs], axis=-1), apart


def reset_dropout(layer):
    """Forgets the dropout masks that Keras' cells keep between the steps of one sequence."""
    for inner in layer._flatten_layers():  # private in Keras, and the only way to find them all
        if hasattr(inner, "reset_dropout_mask"):
            inner.reset_dropout_mask()
            inner.reset_recurrent_dropout_mask()


@contextlib.contextmanager
def for_training_only(training, layer):
    """Within it, where nothing is trained, Keras' RNNs do without dropout masks and cuDNN.

    They would draw masks that nothing uses, and leave a SavedModel a state. And cuDNN would tie a
    SavedModel to GPUs, and ask of every text that it is not empty.
    """
    inner = [] if training else layer._flatten_layers()
    without = {"dropout": 0.0, "recurrent_dropout": 0.0, "use_cudnn": False}
    before = []
    for part in inner:
        for name, value in without.items():
            if name in vars(part):
                before.append((part, name, vars(part)[name]))
                setattr(part, name, value)
    try:
        yield
    finally:
        for part, name, value in before:
            setattr(part, name, value)
