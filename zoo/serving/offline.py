"""Many lines through a model, in order and in little memory."""

import concurrent.futures
import functools
import itertools
import json
import pathlib
import re
import sys

import tensorflow as tf

from zoo.errors import UsageError
from zoo.image import ImageReader
from zoo.layers.hypotheses import NONE
from zoo.serving.strings import to_bytes

# Windows grow: the first answers are there at once, and later there are many lines to sort.
FIRST_WINDOW, LARGEST_WINDOW = 64, 4096


def predict_lines(model, lines, batch_size=64, in_flight=1):
    """Yields (line, texts, scores) for each line: all its answers, best first.

    Only some thousand lines are in memory at a time. Those of like length are searched together,
    which pads less and stops earlier.

    Arguments:
        model: a `SavedModel`, or a `Client` of a server.
        lines: iterable of str, as many as you like: texts, or names of image files.
        batch_size: int, how many lines are searched at once.
        in_flight: int, how many batches a server has to do at a time.

    Example:

    ```python
    from zoo.serving import SavedModel, predict_lines

    model = SavedModel("saved_models/pronounce_en")
    for line, texts, scores in predict_lines(model, ["kombucha", "schadenfreude"]):
        print(line, texts[0], scores[0])
    ```
    """
    for window in predict_windows(model, lines, batch_size, in_flight):
        yield from window


def predict_windows(model, lines, batch_size=64, in_flight=1, done=0, largest=LARGEST_WINDOW):
    """Yields lists of what `predict_lines` yields, each as soon as it is whole."""
    pool = concurrent.futures.ThreadPoolExecutor(in_flight) if in_flight > 1 else None
    try:
        for window in split_windows(lines, done, largest):
            batches = list(batches_by_length(window, batch_size))
            texts = ([window[i] for i in batch] for batch in batches)
            results = (pool.map if pool else map)(functools.partial(_decode, model), texts)
            answers = [None] * len(window)
            for batch, result in zip(batches, results, strict=True):
                for i, answer in zip(batch, read_answers(result), strict=True):
                    answers[i] = answer
            yield [(line, *answer) for line, answer in zip(window, answers, strict=True)]
    finally:
        if pool:  # what is under way ends when the client is closed
            pool.shutdown(wait=False, cancel_futures=True)


def require_possible(n_best, batch_size, most, path):
    """Raises an error unless a model that gives so many answers can be asked for n_best of them."""
    if batch_size < 1:
        raise UsageError(f"`--batch-size` must be 1 or more. Received: {batch_size}")
    if not 1 <= n_best <= most:
        raise UsageError(
            f"`--n-best` must be 1 to {most}, as many as {path} was exported with. "
            f"Received: {n_best}"
        )


def split_windows(lines, done=0, largest=LARGEST_WINDOW):
    """Yields lists of lines that are searched, and written, together.

    Where a window ends follows from the number of lines before it, `done` of which were answered
    earlier: a job that goes on puts the same lines together.
    """
    lines = iter(lines)
    while window := list(itertools.islice(lines, min(max(done, FIRST_WINDOW), largest))):
        yield window
        done += len(window)


def batches_by_length(lines, batch_size):
    """Yields the places of lines of like length, a list for each batch.

    The longest come first: what takes most memory or time shows early, and does not end alone.
    """
    order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
    for i in range(0, len(order), batch_size):
        yield order[i : i + batch_size]


def _decode(model, lines):
    return model("serving_default", **sources_of(model, lines))


def sources_of(model, lines):
    """The column of sources that lines stand for: texts, or names of files where it reads images.

    Arguments:
        model: a `SavedModel`, a `Client` of a server, or a pipeline.
        lines: list of str.
    """
    if model.input_name == "text":
        return {"text": lines}
    return {model.input_name: _images(lines)}


def _images(names):
    """What is in files; those that no model can read are told of."""
    contents = []
    for name in names:
        if not name or "\0" in name:  # lines of a picture itself, perhaps
            raise ValueError(
                "An image is given by the name of its file, one on each line. "
                f"Received: {name[:40]!r}"
            )
        contents.append(pathlib.Path(name).read_bytes())
    can_read = _picture_reader()(contents).numpy().any(axis=(1, 2, 3))
    for name in itertools.compress(names, ~can_read):
        print(
            f"zoo: {name} is no PNG, JPEG, GIF, BMP or WebP, or is cut off or too large: "
            "its answer is empty",
            file=sys.stderr,
        )
    return contents


@functools.cache
def _picture_reader():
    """Of pictures, whatever a model makes of them; traced once, which takes longer than reading."""
    spec = tf.TensorSpec((None,), tf.string)
    return tf.function(ImageReader(1, 1).read, input_signature=[spec], autograph=False)


def read_answers(result):
    """The texts and the scores of each row that serving_default gave, two lists."""
    for texts, scores in zip(result["texts"], result["scores"], strict=True):
        pairs = zip(texts, scores, strict=True)
        # Places that no answer fills are left out.
        answers = [(text.decode(), float(score)) for text, score in pairs if score > NONE]
        yield tuple(list(column) for column in zip(*answers, strict=True))


def answer_lines(line, texts, scores, n_best=1, as_json=False):
    """What `zoo predict` prints for a line of text: a line, or of several answers one each."""
    line = to_bytes([line])[0].decode("utf-8", "replace")
    texts, scores = texts[:n_best], scores[:n_best]
    if as_json:
        about = {"input": line, "text": texts[0], "score": scores[0]}
        about = {**about, "texts": texts, "scores": scores}
        return json.dumps(about, ensure_ascii=False) + "\n"
    # A language model goes on with a text of several lines: an answer is one all the same.
    line, *texts = (re.sub(r"[\r\n]+", " ", text) for text in (line, *texts))
    if n_best == 1:
        return texts[0] + "\n"
    pairs = zip(texts, scores, strict=True)
    return "".join(f"{line}\t{score:.4f}\t{text}\n" for text, score in pairs)
