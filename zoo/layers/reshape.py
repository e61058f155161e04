from keras import ops


def reshape(x, shape):
    """`ops.reshape` that infers a size which only the graph knows, where it is the only one.

    To read a size and to pack it into a shape are operations of the graph, several for each
    reshape, and the count of operations is what a step on one sentence costs.
    """
    known = [size for size in shape if isinstance(size, int)]
    if len(known) == len(shape) - 1 and min(known, default=1) > 0:
        shape = [size if isinstance(size, int) else -1 for size in shape]
    return ops.reshape(x, shape)
