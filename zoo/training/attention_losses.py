"""Losses on where a model looks, which a training can add to that of the tokens."""

import itertools
import pathlib

import numpy as np
import tensorflow as tf

from zoo.data.lines import read_lines
from zoo.evaluation.alignment import parse_links
from zoo.evaluation.words import are_of_spaces, words_of

MOST = 2**15  # positions of a source, so that a pair of positions is one number


class AttentionLoss:
    """Base class: a loss on the weights of teacher forcing.

    A subclass implements `__call__(weights, batch)`, where the weights are (rows, time,
    source_length) and the batch has the "target" (rows, time + 1): the weights at i are of the step
    that writes the target's token i + 1. It returns the loss summed over the tokens; padding is no
    token. A loss that has to know more of each example names a `column` of the batches and gives it
    by `lists`.

    Arguments:
        weight: float, what the loss is multiplied with. Like the loss of the tokens it is divided
            by the number of all tokens of a batch.
    """

    column = None

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, weights, batch):
        raise NotImplementedError(f"{type(self).__name__} must implement `__call__`")

    def lists(self, tokenizers, texts, ids):
        """The column: a list of ints above 0 for each example.

        All arguments are pairs, of the source's side and the target's; the ids of a side are a list
        of lists, and may change from epoch to epoch.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement `lists`")


class CoverageLoss(AttentionLoss):
    """What is looked at again, which makes a summary repeat itself (See et al. 2017).

        loss(t) = sum over i of min(weights(t, i), weights(1, i) + ... + weights(t-1, i))

    Arguments:
        weight: float.

    Example:

    ```python
    import tensorflow as tf
    from zoo.training.attention_losses import CoverageLoss

    batch = {"target": tf.constant([[1, 5, 6, 2]])}
    weights = tf.constant([[[1.0, 0.0], [0.8, 0.2], [0.0, 1.0]]])
    assert abs(float(CoverageLoss(1.0)(weights, batch)) - (0.8 + 0.2)) < 1e-6
    ```
    """

    def __call__(self, weights, batch):
        weights = tf.cast(weights, tf.float32)
        before = tf.cumsum(weights, axis=1, exclusive=True)
        again = tf.reduce_sum(tf.minimum(weights, before), axis=2)  # (rows, time)
        return tf.reduce_sum(tf.where(batch["target"][:, 1:] != 0, again, 0.0))


class GuidedAlignment(AttentionLoss):
    """The cross-entropy of given links between words (Chen et al. 2016).

        loss(t) = - mean over the positions i that are linked with t of log weights(t, i)

    Pieces of words have the links of their words; a token without links has no loss. Where a
    tokenizer writes symbols or characters, the links are of those.

    Arguments:
        links: for each pair of texts a list of pairs of positions, (source, target), from 0.
        weight: float.
        name: str, what the links are called where something is wrong with them.

    Example:

    ```python
    import tensorflow as tf
    from zoo.text import CharacterTokenizer
    from zoo.training.attention_losses import GuidedAlignment

    letters = CharacterTokenizer("ab")
    texts = ["ab"], ["ba"]
    ids = [letters.tokenize(side).to_list() for side in texts]
    guide = GuidedAlignment([[(0, 1), (1, 0)]], weight=0.5)  # one pair of texts
    batch = {"links": tf.constant(guide.lists((letters, letters), texts, ids))}
    weights = tf.constant([[[0.1, 0.9], [1.0, 0.0], [0.5, 0.5]]])  # the end token has no link
    loss = guide(weights, batch)
    assert abs(float(loss) - 0.105) < 1e-3
    ```
    """

    column = "links"

    def __init__(self, links, weight, name="links"):
        super().__init__(weight)
        self.links = links
        self.name = name
        self._left_out = None

    def __call__(self, weights, batch):
        weights, links = tf.cast(weights, tf.float32), batch["links"]
        rows, time, length = tf.unstack(tf.shape(weights))
        t, i = tf.math.maximum(links - 1, 0) // MOST, tf.math.maximum(links - 1, 0) % MOST
        is_link = tf.cast((links > 0) & (i < length), tf.float32)  # (rows, links)
        i = tf.minimum(i, length - 1)  # a source may have been cut off
        row = tf.broadcast_to(tf.range(rows)[:, None], tf.shape(links))
        # Of each token that is linked, the mean over its links.
        tokens = tf.reshape(row * time + t, (-1,))
        counts = tf.math.unsorted_segment_sum(tf.reshape(is_link, (-1,)), tokens, rows * time)
        share = is_link / tf.maximum(tf.reshape(tf.gather(counts, tokens), tf.shape(links)), 1.0)
        looked = tf.gather_nd(weights, tf.stack([row, t, i], axis=-1))  # (rows, links)
        return -tf.reduce_sum(share * tf.math.log(looked + 1e-9))

    def lists(self, tokenizers, texts, ids):
        count = len(ids[0])
        if len(self.links) != count:
            raise ValueError(
                f"{self.name} must have a line for each of the {count} pairs that are trained on. "
                f"Received: {len(self.links)} lines"
            )
        sides = [_pieces_of_words(*side) for side in zip(tokenizers, texts, ids, strict=True)]
        left_out = sum(None in pair for pair in zip(*sides, strict=True))
        if left_out and left_out != self._left_out:
            print(
                f"{self.name}: the links of {left_out} pairs are left out, whose words the "
                "tokenizer splits otherwise than spaces do"
            )
        self._left_out = left_out
        lines = enumerate(zip(self.links, *sides, strict=True), 1)
        return [self._codes(number, *line) for number, line in lines]

    def _codes(self, number, links, source, target):
        """Each link of pieces as one number above 0."""
        if source is None or target is None:
            return []
        codes = set()
        for one, other in links:
            if one >= len(source) or other >= len(target):
                raise ValueError(
                    f"{self.name}:{number} must link words of the pair of texts that is trained "
                    f"on, of {len(source)} and {len(target)} words. Received: {one}-{other}"
                )
            codes |= {t * MOST + i + 1 for t in target[other] for i in source[one] if t < MOST > i}
        return sorted(codes)


def guides(config):
    """The losses that a config asks for, if it is a `GuidedSettings`."""
    if not getattr(config, "guided_alignment", None):
        return []
    links = read_links(config.guided_alignment)
    return [GuidedAlignment(links, config.guided_weight, config.guided_alignment)]


def read_links(path):
    """The links of a file, a line for each pair of texts: "0-0 1-2" are source-target positions."""
    lines = []
    for number, line in enumerate(read_lines(pathlib.Path(path)), 1):
        try:
            lines.append(sorted(parse_links(line)))
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    return lines


def _pieces_of_words(tokenizer, texts, ids):
    """For each text the ranges of pieces that its words are made of.

    None stands for a text whose pieces make other words than spaces separate.
    """
    names = tokenizer.tokens(np.arange(tokenizer.vocabulary_size, dtype="int32")).numpy()
    names = [name.decode() for name in names]
    spans = []
    for text, numbers in zip(texts, ids, strict=True):
        pieces = [names[i] for i in numbers]
        _, starts = words_of(pieces)
        ranges = [range(*pair) for pair in itertools.pairwise([*starts, len(pieces)])]
        spans.append(ranges if are_of_spaces(pieces, text) else None)
    return spans


def require_weights(model):
    """Raises an error unless a model gives attention weights."""
    ids = np.ones((1, 2), "int32")
    _, weights = model({"source": ids, "target": ids}, return_attention_scores=True)
    if weights is None:
        raise ValueError(
            "A loss on attention needs a model that gives attention weights. Received: "
            f"{type(model.decoder).__name__}, which gives none"
        )
