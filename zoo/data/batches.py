import functools
import hashlib

import numpy as np
import tensorflow as tf

from zoo.data.packed import batch_of, pack, side_of


class Batches:
    """Padded batches of few shapes, in an order that depends on the seed and the epoch alone.

    Examples of like length share a bucket, and a bucket has one shape: rows by width, with about
    `batch_tokens` positions on the longer side. The last batch of a bucket is filled up with empty
    rows, so that every example counts in every epoch and XLA compiles few shapes. Since an epoch's
    order follows from its number, two integers (epoch, batch) say where a training stands.

    Arguments:
        sources, targets: lists of lists of ids, without start and end.
        batch_tokens: int.
        num_buckets: int, the number of shapes at the most.
        max_length: int; longer examples are left out and counted in `too_long`.
        seed: int.
        start_id, end_id: ints, put around each target.
        resample: a function of the epoch that gives sources and targets for it, the same examples
            in other ids; batches are made up as they would be of the given ones.

    Example:

    ```python
    from zoo.data import Batches

    batches = Batches([[4, 5], [6], [7, 8, 9]], [[4], [5], [6, 7]], batch_tokens=8, num_buckets=1)
    for batch in batches.epoch(0):  # or batches.epoch(3, first=10), to go on
        print(batch["source"], batch["target"])  # (rows, width), (rows, width + 1)
    ```
    """

    def __init__(
        self,
        sources,
        targets,
        batch_tokens=4096,
        num_buckets=6,
        max_length=100,
        seed=0,
        start_id=1,
        end_id=2,
        resample=None,
    ):
        if len(sources) != len(targets):
            raise ValueError(
                "`sources` and `targets` must be as many. "
                f"Received: {len(sources)} and {len(targets)}"
            )
        self.sources, self.targets = sources, targets
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.start_id, self.end_id = start_id, end_id
        self.resample = resample
        pairs = zip(sources, targets, strict=True)
        lengths = np.array([max(len(s), len(t) + 1) for s, t in pairs], dtype=int)
        fits = lengths <= max_length
        self.too_long = int((~fits).sum())
        if not fits.any():
            raise ValueError(
                f"No example is as short as max_length={max_length}. Received: "
                f"{len(lengths)} examples, the shortest of {min(lengths, default=0)} tokens"
            )
        widths = _least_padding(lengths[fits], num_buckets)
        self.buckets = {}  # width -> indices of examples
        shortest = 0
        for width in widths:
            members = (lengths > shortest) & (lengths <= width)
            self.buckets[width] = np.flatnonzero(members)
            shortest = width

    @property
    def fingerprint(self):
        """A digest of the examples and of all that decides what is in a batch."""
        settings = (self.batch_tokens, self.seed, sorted(self.buckets))
        everything = repr((self.sources, self.targets, settings))
        return hashlib.sha256(everything.encode()).hexdigest()[:16]

    def rows(self, width):
        """How many examples a batch of this width has."""
        return max(1, self.batch_tokens // width)

    def __len__(self):
        """The number of batches of an epoch."""
        return sum(-(-len(members) // self.rows(w)) for w, members in self.buckets.items())

    def plan(self, epoch):
        """The batches of an epoch: a list of (width, indices of examples)."""
        rng = np.random.default_rng([self.seed, epoch])
        plan = []
        for width, members in self.buckets.items():
            shuffled, rows = rng.permutation(members), self.rows(width)
            for i in range(0, len(shuffled), rows):
                plan.append((width, shuffled[i : i + rows]))
        return [plan[i] for i in rng.permutation(len(plan))]

    def packed(self, epoch):
        """The epoch as `pack` has it: a vector of int32 and its layout."""
        if not self.resample:
            plan = [(self.rows(width), width, members) for width, members in self.plan(epoch)]
            return pack(*self._sides, plan)
        source, target = self._sides_of(*self.resample(epoch))
        lengths, plan = np.maximum(source.lengths, target.lengths - 1), []
        for width, members in self.plan(epoch):
            # They may be longer: of the next bucket, or of some more for XLA's sake.
            longest = max(width, lengths[members].max())
            wider = [w for w in self.buckets if w >= longest]
            plan.append((self.rows(width), min(wider, default=-(-longest // 16) * 16), members))
        return pack(source, target, plan)

    @functools.cached_property
    def _sides(self):
        return self._sides_of(self.sources, self.targets)

    def _sides_of(self, sources, targets):
        targets = [[self.start_id, *ids, self.end_id] for ids in targets]
        return side_of(sources), side_of(targets)

    def epoch(self, epoch, first=0):
        """The batches of an epoch from the first-th on, prefetched, as a tf.data.Dataset."""
        vector, layout = self.packed(epoch)
        with tf.device("CPU:0"):
            vector = tf.constant(vector)
        numbers = tf.data.Dataset.range(first, layout.count, output_type=tf.int32)
        dataset = numbers.map(lambda number: batch_of(vector, layout, number))
        return dataset.prefetch(tf.data.AUTOTUNE)


def _least_padding(lengths, num_buckets):
    """At most so many widths, the longest length among them, with the fewest padded positions."""
    candidates, counts = np.unique(lengths, return_counts=True)
    totals = np.concatenate([[0], np.cumsum(counts)])
    # cost[j]: positions of the j shortest lengths in the widths so far; widths[j]: those widths
    cost = np.full(len(candidates) + 1, np.inf)
    cost[0] = 0
    widths = [[] for _ in cost]
    for _ in range(num_buckets):
        # One more width, that of the j-th length, which takes all lengths from the i-th on.
        more = cost[:, None] + (totals[None, :] - totals[:, None]) * np.append(0, candidates)
        more[np.tril_indices(len(cost))] = np.inf
        first = more.argmin(axis=0)
        better = more.min(axis=0) < cost
        widths = [
            [*widths[first[j]], int(candidates[j - 1])] if better[j] else widths[j]
            for j in range(len(cost))
        ]
        cost = np.minimum(cost, more.min(axis=0))
    return widths[-1]
