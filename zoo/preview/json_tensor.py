"""JSON to the inputs of a model and its outputs to JSON, as TF Serving's json_tensor.cc has it."""

import base64
import binascii
import json
import math
import re

import numpy as np
from tensorflow.core.framework import types_pb2

from zoo.preview.models import Column
from zoo.preview.refused import Refused, invalid
from zoo.serving.strings import is_utf8
from zoo.serving.warm_up import DEFAULT

KINDS = {type(None): "Null", dict: "Object", list: "Array"}


def read_predict(body, signatures):
    """What a request for `:predict` says: the signature, {input: Column}, whether it is in rows."""
    document = _parse(body)
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {_show(document)} not formatted correctly. 'signature_name' key must be "
            "a string value."
        )
    name = name or DEFAULT
    if name not in signatures:
        raise invalid(f'Serving signature name: "{name}" not found in signature def')
    inputs = sorted(signatures[name].inputs)
    if not inputs:
        raise invalid(f"Failed to get input map for signature: {name}")
    if "instances" in document and "inputs" in document:
        raise invalid(
            f"JSON Value: {_show(document)} Not formatted correctly expecting only one of "
            "'inputs' or 'instances' keys to exist "
        )
    try:
        if "instances" in document:
            return name, _rows(document, inputs), True
        if "inputs" in document:
            return name, _columns(document["inputs"], inputs), False
    except UnicodeEncodeError:
        raise invalid("JSON Parse error: The surrogate pair in string is invalid.") from None
    except RecursionError:
        raise invalid("JSON Parse error: nested too deep") from None
    raise invalid("Missing 'inputs' or 'instances' key")


def _parse(body):
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        # Bytes that are no UTF-8 reach the model as they are.
        document = json.loads(body.decode("utf-8", "surrogateescape").removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits, too many brackets
        raise invalid(f"JSON Parse error: {error}") from error
    if not isinstance(document, dict):
        raise invalid(f"JSON Value: {_show(document)} Is not object")
    # Halves of surrogates stand for such bytes, if there are any, and else are a mistake.
    is_text = b"\\u" in body and is_utf8(body)
    return _checked(document) if is_text else document


def _checked(document):
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise invalid("JSON Parse error: The surrogate pair in string is invalid.") from None
    return document


def _rows(document, inputs):
    """ "instances": a list of values or of objects, each a row."""
    rows = document["instances"]
    if not isinstance(rows, list):
        raise invalid(f"JSON Value: {_show(document)} Excepting 'instances' to be an list/array")
    if not rows:
        raise invalid(f"JSON Value: {_show(document)} No values in 'instances' array")
    if not isinstance(rows[0], dict) and len(inputs) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    are_objects = _is_named(rows[0])
    found = {}  # {input: (shape of a row, values of all rows)}
    for i, row in enumerate(rows):
        if _is_named(row) != are_objects:
            wanted = ("object", "list") if are_objects else ("value/list", "object")
            raise invalid(f"Expecting {wanted[0]} but got {wanted[1]} at item {i} of input list")
        for name, value in row.items() if are_objects else [(inputs[0], row)]:
            key = f" key: {name}" if are_objects else ""
            try:
                _add_row(found, name, value, inputs)
            except Refused as error:
                raise invalid(
                    f"Failed to process element: {i}{key} of 'instances' list. "
                    f"Error: {error.code}: {error.message}"
                ) from error
        if are_objects and sorted(row) != inputs:
            raise invalid(
                f"Failed to process element: {i} of 'instances' list. JSON object: {_show(row)} "
                f"must only have keys: {','.join(inputs)}"
            )
    return {
        name: Column(types_pb2.DT_STRING, (len(rows), *shape), values)
        for name, (shape, values) in found.items()
    }


def _add_row(found, name, value, inputs):
    if name not in inputs:
        raise invalid(f"JSON object: does not have named input: {name}")
    column = _tensor(value)
    shape, values = found.setdefault(name, (column.shape, []))
    if math.prod(shape) != len(column.values):
        raise invalid(f"Expecting tensor size: {math.prod(shape)} but got: {len(column.values)}")
    if shape != column.shape:
        raise invalid(f"Expecting shape {list(shape)} but got: {list(column.shape)}")
    values += column.values


def _columns(value, inputs):
    """ "inputs": the value of the one input, or an object of all of them."""
    if not _is_named(value):
        if len(inputs) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        return {inputs[0]: _tensor(value)}
    for name in inputs:
        if name not in value:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
    return {name: _tensor(value[name]) for name in inputs}


def _is_base64(value):
    return isinstance(value, dict) and list(value) == ["b64"] and isinstance(value["b64"], str)


def _is_named(value):
    return isinstance(value, dict) and not _is_base64(value)


def _tensor(value):
    """A string, or lists of strings in lists; the first of a list says how long the others are."""
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    values = []
    _fill(value, shape, 0, values)
    return Column(types_pb2.DT_STRING, tuple(shape), values)


def _fill(value, shape, level, values):
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {_show(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        values.append(_string(value))
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {shape[level]}"
        )
    for item in value:
        _fill(item, shape, level + 1, values)


def _string(value):
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if not isinstance(value, dict):
        kind = str(value) if isinstance(value, bool) else KINDS.get(type(value), "Number")
        raise invalid(f"JSON Value: {_show(value)} Type: {kind} is not of expected type: string")
    if not _is_base64(value):
        raise invalid(f"JSON Value: {_show(value)} not formatted correctly for base64 data")
    text = re.sub(r"[ \t\r\n]", "", value["b64"]).rstrip("=")  # the padding may be left out
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("Unable to base64 decode") from error


def _show(value, longest=200):
    text = ""
    for piece in json.JSONEncoder(indent=4).iterencode(value):
        text += piece
        if len(text) > longest:  # all of it may be much longer than what came
            return f"{text[:longest]}..."
    return text


def write_predictions(outputs, in_rows):
    """The answer's JSON as bytes; outputs is {name: numpy array}."""
    if not in_rows:
        named = {name: _json(values, name) for name, values in outputs.items()}
        text = _object(named) if len(named) > 1 else next(iter(named.values()))
        return _encode('{"outputs": ' + text + "}")
    sizes = {name: len(values) for name, values in outputs.items()}
    for name, size in sizes.items():
        if size != next(iter(sizes.values())):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {size}")
    rows = []
    for i in range(next(iter(sizes.values()))):
        named = {name: _json(values[i], name) for name, values in outputs.items()}
        rows.append(_object(named) if len(named) > 1 else next(iter(named.values())))
    return _encode('{"predictions": [' + ", ".join(rows) + "]}")


def _encode(text):
    return text.encode("utf-8", "surrogateescape")  # strings leave as the model wrote them


def _object(named):
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in named.items()) + "}"


def _json(values, name):
    if isinstance(values, np.ndarray):
        return "[" + ", ".join([_json(value, name) for value in values]) + "]"
    if isinstance(values, bytes) and name.endswith("_bytes"):
        return json.dumps({"b64": base64.b64encode(values).decode()})
    if isinstance(values, bytes):
        return json.dumps(values.decode("utf-8", "surrogateescape"), ensure_ascii=False)
    if isinstance(values, np.floating):
        return decimal(values)
    return json.dumps(values.item())


def decimal(value):
    """A number of numpy's as TF Serving writes it: short if that means it, and with a point."""
    if not np.isfinite(value):
        return "NaN" if np.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    text = f"{value:g}"
    if type(value)(text) != value:
        text = f"{value:.{9 if value.dtype.itemsize <= 4 else 17}g}"
    return text if "." in text or "e" in text else f"{text}.0"
