"""What is computed over a whole vocabulary, where each pass over the logits costs.

`python bench/passes.py` measures what these functions take beside those of Keras.
"""

from typing import Any, NamedTuple

import numpy as np
from keras import ops

from zoo.layers.hypotheses import NONE, gather_beams
from zoo.layers.reshape import reshape

CHUNK = 40  # words of which one maximum is taken, about
FLOOR = -float("inf")


class Chunks(NamedTuple):
    """Logits cut into pieces of which the maxima are known."""

    values: Any  # (..., count, width), padded with -inf
    maxima: Any  # (..., count)
    size: int  # of the vocabulary, without the padding

    @property
    def width(self):
        return self.values.shape[-1]


def in_chunks(values):
    """Chunks of the last axis; few values are one chunk."""
    *lead, size = ops.shape(values)
    width = size if size < 4 * CHUNK else _chunk(size)
    count = -(-size // width)
    if count * width > size:
        padding = [(0, 0)] * len(lead) + [(0, count * width - size)]
        values = ops.pad(values, padding, constant_values=FLOOR)
    values = reshape(values, (*lead, count, width))
    return Chunks(values, ops.max(values, axis=-1, initial=FLOOR), size)


def _chunk(size):
    """The divisor of a size that is nearest to CHUNK, if there is one near: else it is padded."""
    near = [n for n in range(CHUNK // 2, CHUNK * 2) if size % n == 0]
    return min(near, key=lambda n: abs(n - CHUNK), default=CHUNK)


def log_totals(logits, chunks=None, probabilities=None):
    """log(sum(exp(logits))), for what has no use for the parts that `normalizers` gives."""
    largest, rest = normalizers(logits, chunks, probabilities)
    return largest + rest


def normalizers(logits, chunks=None, probabilities=None):
    """The largest logit and a rest: log(probability) of a word is (logit - largest) - rest.

    In this order nothing is lost where all logits are large. The rest is -log(probability) of the
    most probable word, for softmax is one kernel; it does not vanish, and is in the first of the
    `chunks` with the largest maximum, if the logits were cut into them.
    """
    if chunks is not None:
        *lead, count, width = ops.shape(chunks.values)
        logits = reshape(chunks.values, (*lead, count * width))
    if probabilities is None:
        probabilities = ops.softmax(logits, axis=-1)
    if chunks is None:
        largest = ops.max(logits, axis=-1, initial=FLOOR)
    else:
        largest, which = ops.top_k(chunks.maxima, k=1)  # (..., 1)
        largest = largest[..., 0]
        rows = ops.reshape(probabilities, (-1, count, width))
        probabilities = gather_beams(rows, ops.reshape(which, (-1, 1)))  # (rows, 1, width)
        probabilities = reshape(probabilities, (*lead, width))
    return largest, -ops.log(ops.max(probabilities, axis=-1, initial=0.0))


def top_k(values, k):
    """The k largest of the last axis and their indices, as `ops.top_k` gives them.

    They are in the k chunks with the largest maxima, and a maximum is quickly found. Which of equal
    values come first is left open.
    """
    *lead, size = ops.shape(values)
    if size < 4 * k * CHUNK:
        return ops.top_k(values, k=k)
    chunks = in_chunks(ops.reshape(values, (-1, size)))
    _, which = ops.top_k(chunks.maxima, k=k)  # (rows, k)
    found = gather_beams(chunks.values, which)  # (rows, k, width)
    best, places = ops.top_k(ops.reshape(found, (-1, k * chunks.width)), k=k)
    indices = gather_beams(which, places // chunks.width) * chunks.width + places % chunks.width
    indices = ops.minimum(indices, size - 1)  # of padding, which is as good as any other -inf
    return reshape(best, (*lead, k)), reshape(indices, (*lead, k))


def best_words(chunks, shifts, k, passed_over=()):
    """Of all slots of a source, the k words with the largest logit + shift of the slot.

    chunks of logits (batch, beam, vocabulary), shifts (batch, beam); `passed_over` are ids that do
    not count. Returns logit + shift, NONE where there is no such word, and the words, told as slot
    * vocabulary + id, both (batch, k).

    They are in the k chunks with the largest maxima, beside those that hold what is passed over.
    Which of equal values come first is left open.
    """
    _, beam, count, width = ops.shape(chunks.values)
    spoiled = beam * len({i // width for i in passed_over})

    def ranked(values, k):
        values = ops.reshape(values, (-1, values.shape[1] * values.shape[2]))
        values = ops.where(values > NONE / 2, values, NONE)  # a NaN is not above it
        return ops.top_k(values, k=min(k, values.shape[1]))

    _, which = ranked(chunks.maxima + shifts[:, :, None], k + spoiled)  # slot * count + chunk
    values = gather_beams(reshape(chunks.values, (-1, beam * count, width)), which)
    values = values + gather_beams(shifts, which // count)[:, :, None]  # (batch, chunks, width)
    if passed_over:
        counts = ~np.isin(np.arange(count * width), list(passed_over))
        counts = ops.convert_to_tensor(counts.reshape(count, width))
        values = ops.where(ops.take(counts, which % count, axis=0), values, NONE)
    best, places = ranked(values, k)
    which = gather_beams(which, places // width)
    ids = which % count * width + places % width
    ids = ops.minimum(ids, chunks.size - 1)  # no word is in the padding
    return best, which // count * chunks.size + ids
