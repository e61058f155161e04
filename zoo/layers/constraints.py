"""Which tokens a search may write next."""

import numpy as np
from keras import ops


def allowed_tokens(
    step,
    tokens,
    vocabulary_size,
    *,
    end_id,
    min_length=0,
    no_repeat_ngram=0,
    forbidden_ids=(),
    prefix=None,
):
    """A bool that broadcasts to (batch, beam, vocabulary), of rank 1 where it is the same for all.

    tokens (batch, beam, time) are written up to step; prefix (batch, length) holds -1 where a token
    is free, in its last column at least.
    """
    ids = ops.arange(vocabulary_size)
    allowed = ops.convert_to_tensor(~np.isin(np.arange(vocabulary_size), forbidden_ids))
    if min_length > 0:
        long_enough = ops.convert_to_tensor(step + 1 >= min_length)
        allowed = ops.logical_and(allowed, ops.logical_or(long_enough, ids != end_id))
    if 0 < no_repeat_ngram <= tokens.shape[2]:
        repeated = repeating_tokens(step, tokens, vocabulary_size, no_repeat_ngram)
        allowed = ops.logical_and(allowed, ~repeated)
    if prefix is not None:  # what is given overrules everything
        column = ops.minimum(step, ops.shape(prefix)[1] - 1)
        given = ops.take(prefix, column, axis=1)[:, None, None]  # (batch, 1, 1)
        allowed = ops.where(given >= 0, ops.equal(ids, given), allowed)
    return allowed


def repeating_tokens(step, tokens, vocabulary_size, n):
    """The next tokens that would complete an n-gram a second time: (batch, beam, vocabulary)."""
    batch, beam, time = ops.shape(tokens)
    starts = time - n + 1
    # An n-gram that starts at i counts if it is written, i + n <= step, and if its first n - 1
    # tokens are the last n - 1 ones.
    same = ops.broadcast_to(ops.arange(starts) + n <= step, (batch, beam, starts))
    for i in range(n - 1):
        latest = ops.take(tokens, ops.maximum(step - n + 1 + i, 0), axis=2)  # (batch, beam)
        same = ops.logical_and(same, ops.equal(tokens[:, :, i : i + starts], latest[..., None]))
    completions = ops.where(same, tokens[:, :, n - 1 :], vocabulary_size)  # beyond the last: none
    rows = ops.reshape(ops.arange(batch * beam), (batch, beam, 1))
    indices = ops.stack([ops.broadcast_to(rows, (batch, beam, starts)), completions], axis=-1)
    indices = ops.reshape(indices, (-1, 2))
    table = ops.zeros((batch * beam, vocabulary_size + 1), dtype="int32")
    table = ops.scatter_update(table, indices, ops.ones_like(indices[:, 0]))
    return ops.reshape(table[:, :-1] > 0, (batch, beam, vocabulary_size))
