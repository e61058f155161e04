"""What a search carries from step to step, and what it gives."""

from typing import Any, NamedTuple

import keras
from keras import ops

from zoo.layers.reshape import reshape

NONE = -1e9  # the log-probability and the score of what does not exist


class SearchResult(NamedTuple):
    """The n best results of each source, best first."""

    tokens: Any  # (batch, n, time) int32, without the start id, end_id after the end
    lengths: Any  # (batch, n) int32, the end token and the prefix counted
    scores: Any  # (batch, n) float32
    log_probs: Any  # (batch, n) float32
    alignments: Any  # (batch, n, time, source_length) float32


class Hypotheses(NamedTuple):
    """What a search knows of its hypotheses, apart from the decoder's state."""

    written: Any  # (batch, beam, time, 2) int32: each token, and the slot whose step wrote it
    last: Any  # (batch, beam) int32, the tokens written last
    lengths: Any  # (batch, beam) int32
    log_probs: Any  # (batch, beam) float32, NONE where a slot is empty
    scores: Any  # (batch, beam) float32
    finished: Any  # (batch, beam) bool
    coverage: Any  # (batch, beam, source_length) float32, the sum of the weights so far
    active: Any  # (batch,) bool, whether the search of this source goes on

    @property
    def tokens(self):
        """(batch, beam, time), end_id where nothing is written yet."""
        return self.written[..., 0]


def standing(hypotheses):
    """(batch, beam): 0 for a finished hypothesis, 1 for an unfinished one, 2 for an empty slot."""
    groups = ops.where(hypotheses.finished, 0, 1)
    return ops.where(hypotheses.log_probs > NONE / 2, groups, 2)


class Choice(NamedTuple):
    """What a step keeps: for each slot whom it continues, and with what; leaves (batch, beam)."""

    parents: Any  # int32, the slot continued
    tokens: Any  # int32
    grown: Any  # bool, whether the token is written: a frozen hypothesis stays as it is
    log_probs: Any  # float32
    scores: Any  # float32


def gather_beams(nest, parents):
    """Picks for each slot the state of its parent: leaves (batch, beam, ...), parents (batch, k).

    Scalars, which all hypotheses share, stay as they are.
    """
    firsts = ops.expand_dims(ops.arange(ops.shape(parents)[0]), 1)  # (batch, 1)

    def gather(leaf):
        if len(leaf.shape) == 0:
            return leaf
        batch, beam, *sizes = ops.shape(leaf)
        rows = reshape(leaf, (batch * beam, *sizes))
        picked = ops.take(rows, firsts * beam + parents, axis=0)
        # (The shape is said because Keras' `take` of nothing forgets it under JAX.)
        return reshape(picked, (*ops.shape(parents), *sizes))  # (batch, k, ...)

    return keras.tree.map_structure(gather, nest)
