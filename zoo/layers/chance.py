from keras import ops


def draw_index(probabilities, chances):
    """Draws along the last axis: probabilities (..., n), chances (...) uniform in [0, 1) -> int32.

    probabilities need not sum to 1; what has none is not drawn. The chances come from outside,
    because a loop over time cannot draw on JAX: there they are drawn for all steps before it.
    """
    up_to = ops.cumsum(probabilities, axis=-1)
    below = up_to <= chances[..., None] * up_to[..., -1:]
    index = ops.sum(ops.cast(below, "int32"), axis=-1, keepdims=True)
    index = ops.minimum(index, ops.shape(probabilities)[-1] - 1)
    # Rounding, or the order in which a backend sums, may lead to what has no probability.
    possible = ops.take_along_axis(probabilities, index, axis=-1) > 0
    likely = ops.argmax(probabilities, axis=-1, keepdims=True)
    return ops.where(possible, index, ops.cast(likely, "int32"))[..., 0]
