"""Pieces of words put together again."""

import numpy as np

START = "\u2581"  # what SentencePiece puts before the first piece of a word


def merge_words(source_tokens, target_tokens, weights):
    """Pieces of words put together, on both sides, where SentencePiece has split them.

    The weight of a pair of words is what all pieces of the source's word have together, in the mean
    of the pieces of the target's word: a row still sums to one.

    Arguments:
        source_tokens, target_tokens: lists of str; a side whose pieces do not mark where words
            start is left as it is.
        weights: (len(target_tokens), len(source_tokens)).

    Returns source words, target words and their weights.

    Example:

    ```python
    from zoo.evaluation.words import merge_words

    pieces = ["\u2581ein", "\u2581Fahr", "rad"], ["\u2581a", "\u2581bi", "cycle"]
    weights = [[1.0, 0.0, 0.0], [0.2, 0.4, 0.4], [0.0, 0.2, 0.8]]
    sources, targets, weights = merge_words(*pieces, weights)
    assert (sources, targets) == (["ein", "Fahrrad"], ["a", "bicycle"])
    print(weights)  # [[1.0, 0.0], [0.1, 0.9]]
    ```
    """
    weights = checked_weights(source_tokens, target_tokens, weights)
    sources, source_starts = words_of(source_tokens)
    targets, target_starts = words_of(target_tokens)
    if sources:
        weights = np.add.reduceat(weights, source_starts, axis=1)
    if targets:
        sizes = np.diff([*target_starts, len(target_tokens)])
        weights = np.add.reduceat(weights, target_starts, axis=0) / sizes[:, None]
    return sources, targets, weights


def words_of(tokens):
    """The words that tokens make, and the index of the first token of each."""
    marked = any(token.startswith(START) for token in tokens)
    words, starts = [], []
    for i, token in enumerate(tokens):
        if i == 0 or not marked or token.startswith(START):
            words.append("")
            starts.append(i)
        words[-1] += token.removeprefix(START)
    return words, starts


def are_of_spaces(tokens, text):
    """Whether the words that tokens make are as many as spaces separate in their text.

    Where a tokenizer normalises characters it may split a word at some; symbols and characters are
    not words.
    """
    marked = any(token.startswith(START) for token in tokens)
    return not marked or len(words_of(tokens)[0]) == len(text.split())


def checked_weights(source_tokens, target_tokens, weights):
    """Weights as an array, a row for each target token and a column for each source token."""
    weights = np.asarray(weights, "float64")
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"`weights` must have shape ({len(target_tokens)}, {len(source_tokens)}), a row for "
            f"each target token. Received: weights.shape={weights.shape}"
        )
    return weights
