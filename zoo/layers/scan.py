import contextlib

import keras
from keras import ops

from zoo.layers.products import DeferredProducts, being_traced, defers_gradients


class _Step:
    """What keras.layers.RNN needs to see of a step function to take it for a cell."""

    compute_dtype = None  # keeps the dtype of every state: a position stays an integer

    def __init__(self, step, state_size):
        self.call = step
        self.state_size = state_size

    def __call__(self, inputs, states):
        return self.call(inputs, states)


def scan(step, inputs, state, training=None, fixed=()):
    """Runs `outputs, state = step(inputs[:, t], state)` for every t, within the graph.

    `keras.layers.RNN` is the loop that trains on every backend, compiled or not. It carries a list
    of states and emits one tensor, so nests are flattened and outputs joined on the way.

    Arguments:
        step: a function; whatever it closes over is fixed over time and is not carried along.
        inputs: (batch, time, ...), rank 3 at least; or a list of (batch, time, size). What has a
            size unknown to the graph comes last, and all of it has the same size, that of the
            source. A step gets what was given, without time.
        state: a nest of tensors, whose shapes and dtypes the step keeps.
        training: bool, whether gradients will be wanted: those of weights, with which a step
            multiplies by `product`, are then taken when the loop is over.
        fixed: a nest of tensors whose gradients are to be taken so too.

    Returns the list of outputs, each (batch, time, ...), and the final state. A step returns a list
    of outputs of one rank; for their last axes holds what is said of the inputs' sizes.
    """
    given = inputs if isinstance(inputs, list) else [inputs]
    is_flat = all(len(x.shape) == 3 for x in given)
    products = DeferredProducts(fixed) if is_flat and defers_gradients(training) else None
    count = len(keras.tree.flatten(state))
    emitted = []  # the outputs of the step that was traced last, for their sizes and dtypes

    def flat_step(parts, states, probes=None):
        with products.of_step(probes) if products else being_traced(None):
            own = parts if isinstance(inputs, list) else parts[0]
            outputs, new_state = step(own, keras.tree.pack_sequence_as(state, states[:count]))
        emitted[:] = [*(products.multiplied if products else ()), *outputs]
        return _join(emitted)[0], [*keras.tree.flatten(new_state), *states[count:]]

    # The loop wants a state to carry, also where the step has none.
    states = keras.tree.flatten(state) or [ops.zeros(())]
    # Dropout masks that cells keep for all steps are drawn in the first one. If that is inside the
    # loop, JAX cannot use them in the next (see also reset_dropout).
    flat_step([x[:, 0] for x in given], states)
    probes = products.make_probes(*ops.shape(given[0])[:2]) if products else []
    if not probes:
        products = None
    joined, apart = _join([*probes, *given])

    def joined_step(joined, states):
        parts = apart(joined)
        return flat_step(parts[len(probes) :], states, parts[: len(probes)])

    dtypes = {x.dtype for x in [*emitted, *states]}
    rnn = keras.layers.RNN(
        _Step(joined_step, [0] * len(states)),
        return_sequences=True,
        return_state=True,
        # what it casts its results to; they are cast back below
        dtype=dtypes.pop() if len(dtypes) == 1 else "float32",
        autocast=False,
        name="scan",
    )
    joined, *final = rnn(joined, initial_state=states)
    final = [ops.cast(new, old.dtype) for new, old in zip(final, states, strict=True)]
    if products:
        products.finish(_apart(ops.stop_gradient(joined), emitted)[: len(probes)])
    outputs = _apart(joined, emitted)[len(probes) :]
    return outputs, keras.tree.pack_sequence_as(state, final[:count])


def _join(inputs):
    """One tensor of several, and a function that takes a step of it apart again."""
    if len(inputs) == 1:
        return inputs[0], lambda joined: [joined]
    dtypes = {x.dtype for x in inputs}
    dtype = dtypes.pop() if len(dtypes) == 1 else "float32"
    joined = [ops.cast(inputs[i], dtype) for i in _known_first(inputs)]
    return ops.concatenate(joined, axis=-1), lambda joined: _apart(joined, inputs)


def _known_first(parts):
    """The indices of the parts, those whose last axis the graph does not know behind the others."""
    return sorted(range(len(parts)), key=lambda i: parts[i].shape[-1] is None)


def _apart(joined, parts):
    """The parts of what was joined on the last axis, where each has its size and its dtype."""
    order = _known_first(parts)
    sizes = [parts[i].shape[-1] for i in order if parts[i].shape[-1] is not None]
    shape, known, unknown = ops.shape(joined)[:-1], sum(sizes), len(parts) - len(sizes)
    pieces = []
    if sizes:
        # (of a slice of an unknown size the graph does not know the size)
        starts = (0,) * len(joined.shape)
        first = ops.slice(joined, starts, (*shape, known)) if unknown else joined
        ends = [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)]
        first = ops.reshape(first, (*shape, known))
        pieces = ops.split(first, ends, axis=-1) if ends else [first]
    if unknown:
        size = (ops.shape(joined)[-1] - known) // unknown
        starts = [known + i * size for i in range(unknown)]
        pieces = [*pieces, *(joined[..., start : start + size] for start in starts)]
    back = sorted(range(len(parts)), key=order.__getitem__)
    return [ops.cast(pieces[i], part.dtype) for i, part in zip(back, parts, strict=True)]


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
