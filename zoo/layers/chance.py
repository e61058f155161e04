from keras import ops


def draw_index(probabilities, chances):
    """Draws along the last axis: probabilities (..., n), chances (...) uniform in [0, 1) -> int32.

    probabilities need not sum to 1; what has none is not drawn. The chances come from outside,
    because a loop over time cannot draw on JAX: there they are drawn for all steps before it.
    """
    up_to = ops.cumsum(probabilities, axis=-1)
    below = up_to <= chances[..., None] * up_to[..., -1:]
    index = ops.sum(ops.cast(below, "int32"), axis=-1)
    # Rounding, or the order in which a backend sums, may lead behind the last possible one.
    places = ops.arange(ops.shape(probabilities)[-1], dtype="int32")
    return ops.minimum(index, ops.max(ops.where(probabilities > 0, places, 0), axis=-1))
