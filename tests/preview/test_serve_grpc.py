"""gRPC as the stubs of tensorflow-serving-api speak it."""

import grpc
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import get_model_metadata_pb2 as metadata_pb2
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from tests.preview.conftest import PRONOUNCE
from tests.preview.server import is_documented, predict_request
from tests.tools import close, run_zoo_here
from zoo.serving import SavedModel

WORDS = [b"cab", b"", "é".encode(), b"\xff\x00", b"fabled"]


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.grpc) as channel:
        yield channel


@pytest.fixture(scope="module")
def stub(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def models(tiny):
    return {version: SavedModel(tiny / str(version)) for version in (1, 2)}


@pytest.mark.parametrize("signature", ["", "serving_default", "align", "score"])
def test_predict_is_what_the_model_answers(stub, models, signature):
    columns = {"text": WORDS}
    if signature == "score":
        columns["target"] = [b"B AA"] * 5
    for version in (None, 1):
        answer = stub.Predict(predict_request("tiny", signature, version, **columns), 120)
        assert answer.model_spec.name == "tiny"
        assert answer.model_spec.version.value == (version or 2)
        assert answer.model_spec.signature_name == (signature or "serving_default")
        expected = models[version or 2](signature or "serving_default", **columns)
        assert set(answer.outputs) == set(expected)
        for name, values in expected.items():
            got = tf.make_ndarray(answer.outputs[name])
            if values.dtype == object:
                assert got.tolist() == values.tolist()
            else:
                assert got.dtype == values.dtype
                close(got, values, 1e-4)
    # Clients in other languages read the values one by one.
    assert len(answer.outputs[name].float_val or answer.outputs[name].string_val) == values.size


def test_it_says_what_zoo_predict_prints(stub, monkeypatch, capsys):
    words = ["schadenfreude", "kombucha", "gremblewick"]
    arguments = ["predict", PRONOUNCE, *words, "--n-best", 2]
    printed = run_zoo_here(monkeypatch, capsys, PRONOUNCE, arguments).stdout.splitlines()
    outputs = stub.Predict(predict_request("pronounce_en", text=words), 120).outputs
    texts, scores = (tf.make_ndarray(outputs[name]) for name in ("texts", "scores"))
    assert printed == [
        f"{word}\t{scores[i, j]:.4f}\t{texts[i, j].decode()}"
        for i, word in enumerate(words)
        for j in range(2)
    ]


def test_outputs_are_filtered(stub):
    request = predict_request("tiny", text=WORDS)
    request.output_filter.extend(["score", "text"])
    assert set(stub.Predict(request, 120).outputs) == {"score", "text"}


def test_an_empty_batch_has_an_empty_answer(stub):
    outputs = stub.Predict(predict_request("tiny", text=[]), 120).outputs
    assert [dim.size for dim in outputs["texts"].tensor_shape.dim] == [0, 3]


def test_metadata(stub):
    request = metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "tiny"
    answer = stub.GetModelMetadata(request, 60)
    assert answer.model_spec.version.value == 2
    signatures = metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(signatures)
    assert set(signatures.signature_def["score"].inputs) == {"text", "target"}


def test_status(channel):
    stub = model_service_pb2_grpc.ModelServiceStub(channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "tiny"
    statuses = stub.GetModelStatus(request, 60).model_version_status
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert [(s.version, s.state, s.status.error_code) for s in statuses] == [
        (1, available, 0),
        (2, available, 0),
    ]
    request.model_spec.version.value = 9
    with pytest.raises(grpc.RpcError) as error:
        stub.GetModelStatus(request, 60)
    assert error.value.code() == grpc.StatusCode.NOT_FOUND
    assert error.value.details() == "Could not find version 9 of model tiny"


def no_spec():
    request = predict_request("", text=["cab"])
    request.ClearField("model_spec")
    return request


def labelled():
    request = predict_request("tiny", text=["cab"])
    request.model_spec.version_label = "canary"
    return request


def filtered(*names):
    request = predict_request("tiny", text=["cab"])
    request.output_filter.extend(names)
    return request


def large_in_few_bytes():
    """One value that stands for 10^12."""
    tensor = tf.make_tensor_proto(["cab"])
    tensor.tensor_shape.dim[0].size = 10**12
    return predict_request("tiny", text=tensor)


ERRORS = {
    "no spec": (no_spec, "INVALID_ARGUMENT", "Missing ModelSpec"),
    "no name": (
        lambda: predict_request("", text=["cab"]),
        "INVALID_ARGUMENT",
        "ModelSpec has no name specified.",
    ),
    "no model": (
        lambda: predict_request("none", text=["cab"]),
        "NOT_FOUND",
        "Servable not found for request: Latest(none)",
    ),
    "no version": (
        lambda: predict_request("tiny", "", 7, text=["cab"]),
        "NOT_FOUND",
        "Servable not found for request: Specific(tiny, 7)",
    ),
    "label": (labelled, "INVALID_ARGUMENT", "Unrecognized servable version label: canary"),
    "signature": (
        lambda: predict_request("tiny", "dance", text=["cab"]),
        "FAILED_PRECONDITION",
        'Serving signature key "dance" not found.',
    ),
    "no inputs": (
        lambda: predict_request("tiny", "__saved_model_init_op"),
        "FAILED_PRECONDITION",
        'Serving signature key "__saved_model_init_op" not found.',
    ),
    "dtype": (
        lambda: predict_request("tiny", text=tf.make_tensor_proto([1.0])),
        "INVALID_ARGUMENT",
        "Expects arg[0] to be string but float",
    ),
    "input": (
        lambda: predict_request("tiny", word=["cab"]),
        "INVALID_ARGUMENT",
        "Sent extra: {word}. Missing but required: {text}.",
    ),
    "inputs": (
        lambda: predict_request("tiny", "score", text=["cab"]),
        "INVALID_ARGUMENT",
        "input size does not match signature: 1!=2 len({text}) != len({target,text}). "
        "Sent extra: {}. Missing but required: {target}.",
    ),
    "rank": (
        lambda: predict_request("tiny", text=tf.make_tensor_proto([["cab"]])),
        "INVALID_ARGUMENT",
        'Input "text" must be a list of strings. Received: shape [1, 1]',
    ),
    "scalar": (
        lambda: predict_request("tiny", text=tf.make_tensor_proto("cab")),
        "INVALID_ARGUMENT",
        "Received: shape []",
    ),
    "lengths": (
        lambda: predict_request("tiny", "score", text=["a", "b"], target=["B"]),
        "INVALID_ARGUMENT",
        "must have equal 0th-dimension size",
    ),
    "batch": (
        lambda: predict_request("tiny", text=["a"] * 257),
        "INVALID_ARGUMENT",
        "Task size 257 is larger than maximum input batch size 256",
    ),
    "text": (
        lambda: predict_request("tiny", text=["a" * 20_001]),
        "INVALID_ARGUMENT",
        "Received: 20001",
    ),
    "bytes": (
        lambda: predict_request("tiny", text=["a" * 10**7]),
        "RESOURCE_EXHAUSTED",
        "larger than max",
    ),
    "few bytes": (large_in_few_bytes, "INVALID_ARGUMENT", "must have 1000000000000 values"),
    "no tensor": (
        lambda: predict_request("tiny", text=tensor_pb2.TensorProto()),
        "INVALID_ARGUMENT",
        "tensor parsing error: text",
    ),
    "filter": (
        lambda: filtered("text", "dance"),
        "INVALID_ARGUMENT",
        "output tensor alias not found in signature: dance Outputs expected to be in the set "
        "{score,scores,text,texts}.",
    ),
    "filters": (
        lambda: filtered("text", "text"),
        "INVALID_ARGUMENT",
        "duplicate output tensor alias: text",
    ),
}


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_has_the_status_of_tf_serving(stub, error):
    make, code, message = ERRORS[error]
    with pytest.raises(grpc.RpcError) as got:
        stub.Predict(make(), 120)
    assert got.value.code() == grpc.StatusCode[code], got.value.details()
    assert message in got.value.details()
    assert error == "bytes" or is_documented(got.value.details(), code)
    stub.Predict(predict_request("tiny", text=["cab"]), 120)  # it goes on


def test_metadata_of_other_fields_is_refused(stub):
    request = metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "tiny"
    for fields, message in (([], "at least one metadata_field"), (["x"], "field x is not")):
        request.metadata_field[:] = fields
        with pytest.raises(grpc.RpcError, match=message) as error:
            stub.GetModelMetadata(request, 60)
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
