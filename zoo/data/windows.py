import functools
import hashlib

import numpy as np
import tensorflow as tf

from zoo.data.packed import PackedBatches, Side, pack


class Windows(PackedBatches):
    """Batches of windows of one long text, to train a language model.

    A window holds `width` tokens and the one after them, which the next window begins with: in an
    epoch every token but the first is predicted once. The first window ends elsewhere in each
    epoch, and all others with it, so that each token is seen behind more or less of its past.
    Windows and their order follow from the seed and the epoch alone, as the batches of `Batches`.

    Arguments:
        tokens: (length,) ids, of which 0, the padding, is none.
        width: int, the tokens of a window that are read.
        batch_tokens: int.
        seed: int.

    Example:

    ```python
    from zoo.data import Windows

    windows = Windows([2, 5, 6, 7, 2, 8, 9, 2], width=3, batch_tokens=6)
    for batch in windows.epoch(0):
        print(batch["target"])  # (2, 4), the windows and their next tokens, padded with 0
    ```
    """

    spec = {"target": tf.TensorSpec((None, None), tf.int32)}  # of a batch
    too_long = cut = 0  # examples that are left out, sources that are cut off

    def __init__(self, tokens, width, batch_tokens=4096, seed=0):
        self.tokens = np.asarray(tokens, "int32")
        if self.tokens.ndim != 1 or len(self.tokens) < 2 or not self.tokens.all():
            raise ValueError(
                "`tokens` must be the ids of one text, two at least and none of them 0. Received: "
                f"tokens of shape {self.tokens.shape}, {(self.tokens == 0).sum()} of them 0"
            )
        if width < 1:
            raise ValueError(f"`width` must be 1 or more. Received: width={width}")
        self.width, self.seed = width, seed
        self.batch_tokens = batch_tokens
        self.rows = max(1, batch_tokens // width)
        # So many windows whole or in part, wherever the first one ends.
        self.most = -(-(len(self.tokens) - 1) // width) + 1

    @property
    def targets(self):
        """All that is predicted, as `Batches` has it: lists of ids."""
        return [self.tokens[1:].tolist()]

    @functools.cached_property
    def fingerprint(self):
        """A digest of the text and of all that decides what is in a batch."""
        settings = repr((self.width, self.batch_tokens, self.seed)).encode()
        return hashlib.sha256(settings + self.tokens.tobytes()).hexdigest()[:16]

    def __len__(self):
        """The number of batches of an epoch."""
        return -(-self.most // self.rows)

    def plan(self, epoch):
        """The windows of an epoch, (first, last) token of each, in the order of the text."""
        end = len(self.tokens) - 1
        first = np.random.default_rng([self.seed, epoch]).integers(1, self.width + 1)
        borders = np.unique(np.minimum([0, *range(first, end, self.width), end], end))
        return np.stack([borders[:-1], borders[1:]], axis=1)

    def packed(self, epoch):
        """The epoch as `pack` has it: a vector of int32 and its layout."""
        windows = self.plan(epoch)
        order = np.random.default_rng([self.seed, epoch, 1]).permutation(len(windows))
        ids = [self.tokens[first : last + 1] for first, last in windows]
        side = Side(np.concatenate(ids), np.array([len(one) for one in ids], "int32"))
        plan = [
            (self.rows, (self.width + 1,), order[i * self.rows : (i + 1) * self.rows])
            for i in range(len(self))  # the last one may have no windows
        ]
        return pack({"target": side}, plan)
