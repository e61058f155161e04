"""An epoch as one vector of numbers, and its batches by operations of TensorFlow alone.

Such a pipeline can be written down and run by another process, which one with Python in it cannot.
"""

import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Side(NamedTuple):
    """One column of all examples, such as their sources, one behind the other."""

    ids: np.ndarray
    lengths: np.ndarray


def side_of(lists):
    """A `Side` from lists of ids."""
    ids = np.fromiter(itertools.chain.from_iterable(lists), "int32")
    return Side(ids, np.fromiter(map(len, lists), "int32", len(lists)))


class Layout(NamedTuple):
    """Where in an epoch's vector its parts begin.

    The ids of a column of example i are those between the i-th of its borders and the next; the
    examples of batch i are those between its `first` and `last` member, in `rows` rows, each column
    as wide as its width.
    """

    borders: dict  # of each column, by its name
    members: int
    batches: int  # first, last, rows and the width of each column, of each batch
    count: int  # of batches


def pack(sides, plan):
    """The vector of an epoch (int32), and its `Layout`.

    Arguments:
        sides: dict of `Side`s by the names of columns, with ids as they are to stand in a batch.
        plan: list of (rows, widths, indices of examples), the widths in the order of the sides.
    """
    vectors, borders, end = [], [], 0
    for side in sides.values():
        vectors.append(side.ids)
        borders.append(end + np.cumsum([0, *side.lengths]))
        end += len(side.ids)
    members = [indices for *_, indices in plan]
    ends = np.cumsum([0, *map(len, members)])
    shapes = np.array([(rows, *widths) for rows, widths, _ in plan])
    batches = np.concatenate([ends[:-1, None], ends[1:, None], shapes], axis=1)
    parts = [*vectors, *borders, *members, batches.ravel()]
    vector = np.concatenate(parts).astype("int32")
    at = end + np.cumsum([0, *map(len, borders)])  # of each one's borders, and behind them
    begins = dict(zip(sides, at[:-1].tolist(), strict=True))
    return vector, Layout(begins, int(at[-1]), len(vector) - batches.size, len(plan))


def batch_of(vector, layout, number):
    """A batch of a packed epoch: each column (rows, its width), padded with 0."""
    columns = len(layout.borders)
    at = layout.batches + (3 + columns) * number
    first, last, rows, *widths = tf.unstack(vector[at : at + 3 + columns], 3 + columns)
    members = vector[layout.members + first : layout.members + last]

    def padded(borders, width):
        begins, ends = (tf.gather(vector, borders + members + i) for i in (0, 1))
        ids = tf.gather(vector, tf.ragged.range(begins, ends))
        return tf.ensure_shape(ids.to_tensor(shape=tf.stack([rows, width])), (None, None))

    pairs = zip(layout.borders.items(), widths, strict=True)
    return {name: padded(borders, width) for (name, borders), width in pairs}


def untuned(dataset):
    """The dataset without a thread that tunes it.

    Between two looks that thread sleeps, twice as long each time, up to a minute; and who is done
    with an iterator waits for it. That may be as long again as the reading took.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class PackedBatches:
    """Base class of what makes batches, an epoch of them from `packed(epoch)`, as `pack` has it."""

    def packed(self, epoch):
        raise NotImplementedError(f"{type(self).__name__} must implement `packed`")

    def looked_up(self, batch):
        """A batch of ids as it is trained on."""
        return batch

    def epoch(self, epoch, first=0):
        """The batches of an epoch from the first-th on, prefetched, as a tf.data.Dataset."""
        vector, layout = self.packed(epoch)
        with tf.device("CPU:0"):
            vector = tf.constant(vector)
        numbers = tf.data.Dataset.range(first, layout.count, output_type=tf.int32)
        dataset = numbers.map(lambda number: self.looked_up(batch_of(vector, layout, number)))
        return untuned(dataset.prefetch(2))
