"""An epoch as one vector of numbers, and its batches by operations of TensorFlow alone.

Such a pipeline can be written down and run by another process, which one with Python in it cannot.
"""

import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Side(NamedTuple):
    """The sources or the targets of all examples, one behind the other."""

    ids: np.ndarray
    lengths: np.ndarray


def side_of(lists):
    """A `Side` from lists of ids."""
    ids = np.fromiter(itertools.chain.from_iterable(lists), "int32")
    return Side(ids, np.fromiter(map(len, lists), "int32", len(lists)))


class Layout(NamedTuple):
    """Where in an epoch's vector its parts begin.

    The ids of example i are those between the i-th border and the next; the examples of batch i are
    those between its `first` and `last` member, in `rows` rows as wide as `width`.
    """

    source_borders: int
    target_borders: int
    members: int
    batches: int  # first, last, rows and width of each
    count: int  # of batches


def pack(source, target, plan):
    """The vector of an epoch (int32), and its `Layout`.

    Arguments:
        source, target: `Side`s, with ids as they are to stand in a batch.
        plan: list of (rows, width, indices of examples).
    """
    borders = [np.cumsum([0, *side.lengths]) for side in (source, target)]
    borders[1] += len(source.ids)
    members = [indices for *_, indices in plan]
    ends = np.cumsum([0, *map(len, members)])
    shapes = np.array([(rows, width) for rows, width, _ in plan])
    batches = np.concatenate([ends[:-1, None], ends[1:, None], shapes], axis=1)
    parts = [source.ids, target.ids, *borders, *members, batches.ravel()]
    vector = np.concatenate(parts).astype("int32")
    batches_at = len(vector) - batches.size
    members_at = batches_at - int(ends[-1])
    second = members_at - len(borders[1])
    return vector, Layout(second - len(borders[0]), second, members_at, batches_at, len(plan))


def batch_of(vector, layout, number):
    """A batch of a packed epoch: source (rows, width), target (rows, width + 1), padded with 0."""
    at = layout.batches + 4 * number
    first, last, rows, width = tf.unstack(vector[at : at + 4], 4)
    members = vector[layout.members + first : layout.members + last]

    def padded(borders, width):
        begins, ends = (tf.gather(vector, borders + members + i) for i in (0, 1))
        ids = tf.gather(vector, tf.ragged.range(begins, ends))
        return tf.ensure_shape(ids.to_tensor(shape=tf.stack([rows, width])), (None, None))

    source = padded(layout.source_borders, width)
    return {"source": source, "target": padded(layout.target_borders, width + 1)}
