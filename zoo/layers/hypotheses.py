"""What a search carries from step to step, and what it gives."""

from typing import Any, NamedTuple

import keras
from keras import ops

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

    tokens: Any  # (batch, beam, time) int32, end_id where nothing is written yet
    last: Any  # (batch, beam) int32, the tokens written last
    origins: Any  # (batch, beam, time) int32, the slot whose step wrote each token
    lengths: Any  # (batch, beam) int32
    log_probs: Any  # (batch, beam) float32, NONE where a slot is empty
    scores: Any  # (batch, beam) float32
    finished: Any  # (batch, beam) bool
    coverage: Any  # (batch, beam, source_length) float32, the sum of the weights so far
    active: Any  # (batch,) bool, whether the search of this source goes on


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
    batch, beam = ops.shape(parents)[0], parents.shape[1]

    def gather(leaf):
        if len(leaf.shape) == 0:
            return leaf
        shape = ops.shape(leaf)
        rows = parents + shape[1] * ops.expand_dims(ops.arange(batch), 1)  # (batch, k)
        flat = ops.reshape(leaf, (batch * shape[1], *shape[2:]))
        picked = ops.take(flat, ops.reshape(rows, (-1,)), axis=0)
        return ops.reshape(picked, (batch, beam, *shape[2:]))

    return keras.tree.map_structure(gather, nest)
