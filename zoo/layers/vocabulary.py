"""What is computed over a whole vocabulary, where each pass over the logits costs.

`python bench/passes.py` measures what these functions take beside those of Keras.
"""

from keras import ops

CHUNK = 40  # words of which one maximum is taken, about


def log_totals(logits, index=None, probabilities=None):
    """log(sum(exp(logits))) = logit - log(probability) of any one word: softmax is one kernel.

    The word is the most probable one, whose probability does not vanish; `index` (..., 1) says
    which it is, where that is known.
    """
    if probabilities is None:
        probabilities = ops.softmax(logits, axis=-1)
    if index is None:
        floor = -float("inf")
        largest = ops.max(logits, axis=-1, initial=floor)
        return largest - ops.log(ops.max(probabilities, axis=-1, initial=0.0))
    logit, probability = (ops.take_along_axis(x, index, axis=-1) for x in (logits, probabilities))
    return (logit - ops.log(probability))[..., 0]


def top_k(values, k):
    """The k largest of the last axis and their indices, as `ops.top_k` gives them.

    They are in the k chunks with the largest maxima, and a maximum is quickly found. Which of equal
    values come first is left open.
    """
    size = values.shape[-1]
    if size < 4 * k * CHUNK:
        return ops.top_k(values, k=k)
    lead, chunk = ops.shape(values)[:-1], _chunk(size)
    rows, count = ops.reshape(values, (-1, size)), -(-size // chunk)
    floor = -float("inf")
    if count * chunk > size:
        padding = ((0, 0), (0, count * chunk - size))
        rows = ops.pad(rows, padding, constant_values=floor)
    chunks = ops.reshape(rows, (-1, count, chunk))
    _, which = ops.top_k(ops.max(chunks, axis=-1, initial=floor), k=k)  # (rows, k)
    first = ops.expand_dims(ops.arange(ops.shape(which)[0]) * count, 1)
    found = ops.take(ops.reshape(chunks, (-1, chunk)), which + first, axis=0)
    best, places = ops.top_k(ops.reshape(found, (-1, k * chunk)), k=k)
    indices = ops.take_along_axis(which, places // chunk, axis=1) * chunk + places % chunk
    indices = ops.minimum(indices, size - 1)  # of padding, which is as good as any other -inf
    return ops.reshape(best, (*lead, k)), ops.reshape(indices, (*lead, k))


def _chunk(size):
    """The divisor of a size that is nearest to CHUNK, if there is one near: else it is padded."""
    near = [n for n in range(CHUNK // 2, CHUNK * 2) if size % n == 0]
    return min(near, key=lambda n: abs(n - CHUNK), default=CHUNK)
