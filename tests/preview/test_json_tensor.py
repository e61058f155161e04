"""Numbers and names in JSON as TF Serving's json_tensor.cc writes them."""

import json
import tracemalloc

import numpy as np
import pytest
from tensorflow.core.protobuf import meta_graph_pb2

from zoo.preview.json_tensor import decimal, read_predict, write_predictions
from zoo.preview.refused import Refused

# What the source's rules give: %g if that is the number, else all digits; and a point.
DECIMALS = {
    np.float32(0.1): "0.1",
    np.float32(2): "2.0",
    np.float32(-0.0): "-0.0",
    np.float32(1 / 3): "0.333333343",
    np.float32(-1e9): "-1e+09",
    np.float32(16777217): "16777216.0",
    np.float64(1 / 3): "0.33333333333333331",
    np.float32("inf"): "Infinity",
    np.float32("-inf"): "-Infinity",
    np.float32("nan"): "NaN",
}


@pytest.mark.parametrize("number", DECIMALS, ids=repr)
def test_decimals(number):
    assert decimal(number) == DECIMALS[number]


def test_every_float_comes_back():
    bits = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint32)
    numbers = bits.view(np.float32)
    written = np.array([float(decimal(x)) for x in numbers]).astype("float32")
    np.testing.assert_array_equal(written, numbers)


def test_outputs_that_end_in_bytes_are_base64():
    outputs = {
        "sound_bytes": np.array([b"\xff\x00", b""], object),
        "count": np.array([[1, 2], [3, 4]], "int64"),
    }
    columns = json.loads(write_predictions(outputs, in_rows=False))
    assert columns == {
        "outputs": {"sound_bytes": [{"b64": "/wA="}, {"b64": ""}], "count": [[1, 2], [3, 4]]}
    }
    rows = json.loads(write_predictions(outputs, in_rows=True))
    assert rows["predictions"][0] == {"sound_bytes": {"b64": "/wA="}, "count": [1, 2]}
    del outputs["count"]
    rows = json.loads(write_predictions(outputs, in_rows=True))
    assert rows == {"predictions": [{"b64": "/wA="}, {"b64": ""}]}


def test_strings_leave_as_they_are():
    answer = write_predictions({"text": np.array([b"\xc3\xa9\xff\n"], object)}, in_rows=True)
    assert answer == b'{"predictions": ["\xc3\xa9\xff\\n"]}'


def test_bytes_that_are_no_text_are_read_as_they_are():
    signature = meta_graph_pb2.SignatureDef()
    signature.inputs["text"].name = "text:0"
    bodies = [
        b'{"inputs": ["a\xff\\u00e9"]}',
        b'{"instances": ["a\xff\xc3\xa9"]}',
        b'{"inputs": [{"b64": "Yf/DqQ"}]}',  # without its padding, which may be left out
    ]
    for body in bodies:
        _, columns, _ = read_predict(body, {"serving_default": signature})
        assert columns["text"].values == [b"a\xff\xc3\xa9"]


def test_a_small_request_is_told_of_in_little_memory():
    """Which is shown with spaces in front of each value, as many as it is deep."""
    body = b"[" * 800 + b",".join([b"1"] * 20_000) + b"]" * 800
    tracemalloc.start()
    with pytest.raises(Refused, match="Is not object"):
        read_predict(body, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e6  # all of it would be 66 MB
