"""Requests to try a SavedModel with: its own warm-up requests, and awkward ones.

A request is a dict of columns, {input: array}; its rows are what clients send.
"""

import math

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import types_pb2

from zoo.serving.check.images import awkward_images
from zoo.serving.warm_up import DEFAULT, WARM_UP, read_warm_up

MOST_RECORDS = 1000  # more fail the load

ORDINARY_TEXTS = (b"a", b"one two three", b"A dog runs over the green field.")
AWKWARD_TEXTS = {
    "an empty text": b"",
    "only spaces": b"   ",
    "a new line and a tab": b"one\ntwo\tthree\r\n",
    "emoji": "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea".encode(),
    "text from right to left": "\u05e9\u05dc\u05d5\u05dd \u202eabc \u0645\u0631\u062d".encode(),
    "combining characters": ("e" + "\u0301" * 50).encode(),
    "a NUL": b"one\x00two",
    "invalid UTF-8": b"\xff\xfe one \xc3\x28 \xed\xa0\x80 \xf0\x9f\x98",
    "10,000 characters": b"a" * 10_000,
    "10,000 emoji": "\U0001f600".encode() * 10_000,
    "2,000 words": b"word " * 2_000,
}


def warm_up_requests(folder, signatures):
    """The warm-up requests, as (number of record, signature, columns), and what is wrong with them.

    Returns two lists, of requests and of findings.
    """
    if not (folder / WARM_UP).exists():
        return [], [f"{WARM_UP} is missing: `zoo export` writes it"]
    requests, findings, number = [], [], 0
    try:
        for request in read_warm_up(folder):
            number += 1
            if number > MOST_RECORDS:
                findings.append(f"{WARM_UP} has more than {MOST_RECORDS} records: leave some out")
                break
            try:
                requests.append((number, *_columns(request, signatures)))
            except ValueError as error:
                findings.append(f"warm-up request {number}: {error}")
    except (tf.errors.OpError, DecodeError) as error:
        findings.append(
            f"{WARM_UP} is damaged after record {number} ({type(error).__name__}): write a "
            "TFRecord of PredictionLog, as `zoo export` does"
        )
    is_damaged = bool(findings)
    covered = {signature for _, signature, _ in requests}
    for name in signatures:
        if name not in covered and not is_damaged:
            findings.append(f"no warm-up request is for signature {name}: write one")
    return requests, findings


def _columns(request, signatures):
    """The signature and the columns of a PredictRequest, or ValueError, as TF Serving checks it."""
    name = request.model_spec.signature_name or DEFAULT
    if not request.inputs:
        raise ValueError("it is no PredictLog with inputs, which is all that can be replayed here")
    if name not in signatures:
        raise ValueError(
            f"there is no signature {name}, but {', '.join(signatures)}: write it anew"
        )
    inputs = signatures[name].inputs
    if set(request.inputs) != set(inputs):
        raise ValueError(
            f"{name} takes {', '.join(sorted(inputs))}. Received: "
            f"{', '.join(sorted(request.inputs))}. Write it anew"
        )
    for key, tensor in request.inputs.items():
        if tensor.dtype != inputs[key].dtype:
            wanted, received = tf.as_dtype(inputs[key].dtype).name, tf.as_dtype(tensor.dtype).name
            raise ValueError(f"{name}: {key} is {wanted}. Received: {received}. Write it anew")
    return name, {key: tf.make_ndarray(tensor) for key, tensor in request.inputs.items()}


def ordinary_rows(name, signature, warm_up, most=6):
    """Different rows for a signature from its warm-up requests, or texts if it takes nothing else.

    Returns columns, or None if there is nothing that the signature is known to take.
    """
    requests = [columns for _, asked, columns in warm_up if asked == name]
    if not requests:
        is_text = [
            info.dtype == types_pb2.DT_STRING and len(info.tensor_shape.dim) == 1
            for key, info in signature.inputs.items()
            if not key.endswith("_bytes")
        ]
        if len(is_text) == len(signature.inputs) and all(is_text):
            return dict.fromkeys(signature.inputs, strings(ORDINARY_TEXTS))
        return None
    rows, seen = [], set()
    for columns in requests:
        sizes = {len(array) if array.ndim else 0 for array in columns.values()}
        for i in range(min(sizes)):
            row = {key: array[i : i + 1] for key, array in columns.items()}
            content = repr([(row[key].shape, row[key].tolist()) for key in sorted(row)])
            if content not in seen and (not rows or _shapes(row) == _shapes(rows[0])):
                seen.add(content)
                rows.append(row)
    return join(rows[:most]) if rows else None


def awkward_rows(signature, ordinary):
    """Rows that clients will send one day: (name, columns of one row), for inputs of strings."""
    texts = [key for key, info in signature.inputs.items() if info.dtype == types_pb2.DT_STRING]
    images = [key for key in texts if key.endswith("_bytes")]
    first = take(ordinary, [0])
    keys, values = (images, _images(first, images)) if images else (texts, AWKWARD_TEXTS)
    rows = []
    for name, value in values.items() if keys else ():
        changed = {key: filled(first[key].shape, value) for key in keys}
        rows.append((name, {**first, **changed}))
    return rows


def _images(first, keys):
    return awkward_images(max((first[key].ravel()[0] for key in keys), key=len))


def has_images(signature):
    """Whether an input is named as those of files are."""
    return any(key.endswith("_bytes") for key in signature.inputs)


def mates(signature, ordinary):
    """The ordinary rows, and for inputs of text also an empty and a long one."""
    keys = [key for key, info in signature.inputs.items() if info.dtype == types_pb2.DT_STRING]
    if not keys or has_images(signature):
        return ordinary
    longest, empty = take(ordinary, [0]), take(ordinary, [0])
    for key in keys:
        text = b" ".join(ordinary[key].ravel().tolist())
        longest[key] = filled(longest[key].shape, text * (1 + 200 // (len(text) + 1)))
        empty[key] = filled(empty[key].shape, b"")
    return join([ordinary, longest, empty])


def take(columns, rows):
    """The columns of some rows."""
    return {key: array[rows] for key, array in columns.items()}


def join(requests):
    """Requests put together to one."""
    return {key: np.concatenate([one[key] for one in requests]) for key in requests[0]}


def num_rows(columns):
    """How many rows the columns have; one is as long as any other."""
    return len(next(iter(columns.values())))


def strings(values):
    """An array of bytes objects; numpy's own arrays of bytes lose NULs at the end."""
    array = np.empty(len(values), object)
    array[:] = list(values)
    return array


def filled(shape, value):
    """An array of one bytes object, many times."""
    return strings([value] * math.prod(shape)).reshape(shape)


def _shapes(row):
    return {key: array.shape for key, array in row.items()}
