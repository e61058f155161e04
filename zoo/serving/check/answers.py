"""What is looked at in the answers: arrays by the name of the output."""

import numpy as np

from zoo.serving.strings import is_utf8

PADDING = {"O": b""}  # of strings; 0 is that of numbers
TOLERANCE = 1e-4
NONE = -1e8  # scores of empty places are below: they say nothing of the scale


def answer_findings(name, rows, answer):
    """What is wrong with an answer to so many rows, by itself: pairs (what, finding)."""
    for key, array in answer.items():
        output = f"{name}: output {key!r}"
        if not array.ndim or len(array) != rows:
            shape = f"of shape {array.shape} for {rows} rows" if array.ndim else "a scalar"
            finding = f"{output} is {shape}: give it the batch as its first dimension"
            yield (output, "shape"), finding
        if array.dtype == object and not key.endswith("_bytes"):
            wrong = next((text for text in array.ravel() if not is_utf8(text)), None)
            if wrong is not None:
                finding = (
                    f"{output} is no UTF-8, which breaks the JSON of REST: make it valid, or let "
                    f"its name end in _bytes. Received: {wrong[:40]!r}"
                )
                yield (output, "UTF-8"), finding
        elif array.dtype != object:
            numbers = _numbers(array)
            wrong = numbers[~np.isfinite(numbers)]
            if wrong.size:
                finding = f"{output} has a value {wrong[0]}, which JSON has not: keep it finite"
                yield (output, "finite"), finding


def differences(alone, together, row):
    """Outputs in which the row of a batch says something else than the row by itself.

    Rows of other shapes are filled up with "" and 0, as padding does.
    """
    for key, array in alone.items():
        if not array.ndim or len(array) != 1 or row >= len(together[key]):
            continue  # `answer_findings` has told
        ours, theirs = _same_shape(array[0], together[key][row])
        if not _is_same(ours, theirs):
            yield key


def _same_shape(*arrays):
    """Arrays of as many dimensions, filled up to the largest of each."""
    sizes = np.max([array.shape for array in map(np.asarray, arrays)], axis=0, initial=0)
    full = []
    for array in map(np.asarray, arrays):
        padded = np.full(sizes.astype(int), PADDING.get(array.dtype.kind, 0), array.dtype)
        padded[tuple(slice(size) for size in array.shape)] = array
        full.append(padded)
    return full


def _is_same(ours, theirs):
    if ours.dtype.kind in "OSUbiu":
        return bool((ours == theirs).all())
    ours, theirs = _numbers(ours), _numbers(theirs)
    if not (np.isfinite(ours) == np.isfinite(theirs)).all():
        return False
    sizes = np.where(np.isfinite(ours) & (ours > NONE), np.abs(ours), 0.0)
    scale = max(0.01, float(sizes.max(initial=0.0)))
    limits = TOLERANCE * np.maximum(np.abs(ours), scale)
    return bool((np.where(np.isfinite(ours), np.abs(ours - theirs) <= limits, True)).all())


def _numbers(array):
    return np.asarray(array).astype("float64")  # also of bfloat16
