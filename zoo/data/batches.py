import functools
import hashlib

import numpy as np
import tensorflow as tf

from zoo.data.packed import PackedBatches, pack, side_of


class Batches(PackedBatches):
    """Padded batches of few shapes, in an order that depends on the seed and the epoch alone.

    Examples of like length share a bucket, and a bucket has one shape: so many rows that the longer
    side has about `batch_tokens` positions, and each side as wide as its longest in the bucket. The
    last batch of a bucket is filled up with empty rows, so that every example counts in every epoch
    and XLA compiles few shapes. Since an epoch's order follows from its number, two integers
    (epoch, batch) say where a training stands.

    Arguments:
        sources, targets: lists of lists of ids, without start and end.
        batch_tokens: int.
        num_buckets: int, the number of shapes at the most; of resampled ids there may be more.
        max_length: int; longer examples are left out and counted in `too_long`.
        cut_sources: bool, whether a longer source is cut off instead, and counted in `cut`.
        seed: int.
        start_id, end_id: ints, put around each target.
        resample: a function of the epoch that gives sources and targets for it, the same examples
            in other ids, and the columns if there are any; batches are made up as they would be of
            the given ones.
        columns: dict of lists of lists of ints above 0: what else each example has, by the name
            that it has in a batch.
        look_up: what a model reads in place of the sources, where their ids stand for something
            else, such as images: a function in the graph of a batch's source (rows, width), with
            the attributes `spec`, the tf.TensorSpec of what it gives, and `fingerprint`, a str.

    Example:

    ```python
    from zoo.data import Batches

    batches = Batches([[4, 5], [6], [7, 8, 9]], [[4], [5], [6, 7]], batch_tokens=8, num_buckets=1)
    for batch in batches.epoch(0):  # or batches.epoch(3, first=10), to go on
        print(batch["source"], batch["target"])  # (2, 3), (2, 4): a start and an end besides
    ```
    """

    def __init__(
        self,
        sources,
        targets,
        batch_tokens=4096,
        num_buckets=6,
        max_length=100,
        cut_sources=False,
        seed=0,
        start_id=1,
        end_id=2,
        resample=None,
        columns=None,
        look_up=None,
    ):
        if len(sources) != len(targets):
            raise ValueError(
                "`sources` and `targets` must be as many. "
                f"Received: {len(sources)} and {len(targets)}"
            )
        self.max_length = max_length
        self.cut_sources = cut_sources
        self.cut = sum(len(ids) > max_length for ids in sources) if cut_sources else 0
        self.sources, self.targets = self._cut(sources), targets
        sources = self.sources
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.start_id, self.end_id = start_id, end_id
        self.resample = resample
        self.columns = columns or {}
        self.look_up = look_up
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
        self.buckets = {}  # width of the longer side -> indices of examples
        shortest = 0
        for width in widths:
            members = (lengths > shortest) & (lengths <= width)
            self.buckets[width] = np.flatnonzero(members)
            shortest = width

    @property
    def spec(self):
        """What a batch is made of: a dict of tf.TensorSpec."""
        ids = tf.TensorSpec((None, None), tf.int32)  # (rows, width)
        spec = dict.fromkeys(["source", "target", *self.columns], ids)
        return {**spec, "source": self.look_up.spec} if self.look_up else spec

    @property
    def fingerprint(self):
        """A digest of the examples and of all that decides what is in a batch."""
        settings = (self.batch_tokens, self.seed, sorted(self.buckets))
        settings += (self.look_up.fingerprint,) if self.look_up else ()
        everything = repr((self.sources, self.targets, settings, *self.columns.items()))
        return hashlib.sha256(everything.encode()).hexdigest()[:16]

    def rows(self, bucket):
        """How many examples a batch of this bucket has."""
        return max(1, self.batch_tokens // bucket)

    def __len__(self):
        """The number of batches of an epoch."""
        return sum(-(-len(members) // self.rows(one)) for one, members in self.buckets.items())

    def plan(self, epoch):
        """The batches of an epoch: a list of (bucket, indices of examples)."""
        rng = np.random.default_rng([self.seed, epoch])
        plan = []
        for bucket, members in self.buckets.items():
            shuffled, rows = rng.permutation(members), self.rows(bucket)
            for i in range(0, len(shuffled), rows):
                plan.append((bucket, shuffled[i : i + rows]))
        return [plan[i] for i in rng.permutation(len(plan))]

    def packed(self, epoch):
        """The epoch as `pack` has it: a vector of int32 and its layout."""
        sides = self._sides_of(*self.resample(epoch)) if self.resample else self._sides
        plan = []
        for bucket, members in self.plan(epoch):
            longest = np.array([side.lengths[members].max() for side in sides.values()])
            # Other ids may be longer: as wide as another bucket, or by some more for XLA's sake.
            widths = self._widths[bucket]
            wider = [others for one, others in self._widths.items() if one >= bucket]
            more = np.where(longest > widths, -(-longest // 16) * 16, widths)
            widths = next((others for others in wider if (others >= longest).all()), more)
            plan.append((self.rows(bucket), widths, members))
        return pack(sides, plan)

    @functools.cached_property
    def _widths(self):
        """Of each bucket how wide its columns are, by the ids that were given."""
        columns = (self.sources, self.targets, *self.columns.values())
        lengths = np.array([[len(ids) for ids in column] for column in columns])
        lengths[1] += 2  # a start and an end
        # An empty source has a place all the same.
        return {
            bucket: np.maximum(lengths[:, members].max(axis=1), 1)
            for bucket, members in self.buckets.items()
        }

    @functools.cached_property
    def _sides(self):
        return self._sides_of(self.sources, self.targets, self.columns)

    def _sides_of(self, sources, targets, columns=()):
        targets = [[self.start_id, *ids, self.end_id] for ids in targets]
        lists = {"source": self._cut(sources), "target": targets, **dict(columns)}
        return {name: side_of(column) for name, column in lists.items()}

    def _cut(self, sources):
        return [ids[: self.max_length] for ids in sources] if self.cut_sources else sources

    def looked_up(self, batch):
        return {**batch, "source": self.look_up(batch["source"])} if self.look_up else batch


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
