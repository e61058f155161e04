"""Random requests to a server that must answer each of them, and not with a failure of its own.

python -m tests.preview.fuzz 20000
"""

import json
import pathlib
import sys

import grpc
import httpx2
import hypothesis
import tensorflow as tf
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from tests.preview.server import predict_request, running

SETTINGS = {
    "database": None,
    "deadline": None,
    "suppress_health_check": list(hypothesis.HealthCheck),
}
SIGNATURES = ["serving_default", "align", "score", "", "__saved_model_init_op"]

short = st.text(max_size=8) | st.text("abcdefé", max_size=30)
strings = short | st.builds(lambda x: {"b64": x}, st.text("abcdABCD0129+/=%", max_size=8))
columns = st.lists(strings, max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | strings,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["text", "target", "b64"]) | short, inner, max_size=3)
    ),
    max_leaves=8,
)
pairs = st.fixed_dictionaries({"text": strings, "target": strings})
good = st.one_of(
    st.fixed_dictionaries({"inputs": st.lists(short, max_size=4)}),
    st.fixed_dictionaries({"instances": st.lists(short, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"signature_name": st.just("align"), "inputs": columns}),
    st.fixed_dictionaries(
        {"signature_name": st.just("score"), "instances": st.lists(pairs, min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries(
        {"signature_name": st.sampled_from(SIGNATURES)},
        optional={"inputs": columns | pairs, "instances": columns | st.lists(pairs, max_size=3)},
    ),
)
bad = st.dictionaries(
    st.sampled_from(["inputs", "instances", "signature_name"]) | short, json_values, max_size=3
)


@st.composite
def bodies(draw):
    """JSON that is right, nearly right or anything, whole or damaged; or any bytes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=60))
    text = json.dumps(draw(good | bad), ensure_ascii=draw(st.booleans()))
    body = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at, length = draw(st.integers(0, len(body))), draw(st.integers(0, 4))
        body = body[:at] + draw(st.binary(max_size=4)) + body[at + length :]
    return body


paths = st.sampled_from(["/v1/models/tiny:predict"] * 6) | st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["/v1/models/tiny", "/V1/models/tiny", "/v1/models", "/v1", "/"]),
    st.sampled_from(["", "/versions/1", "/versions/9", "/labels/x", "/versions/-1", "/%ff%00"]),
    st.sampled_from(["", "/metadata", ":predict", ":classify", ":regress", ":x", "/"]),
    st.sampled_from(["", "?x=1", "//", ":"]),
)
methods = st.sampled_from(["POST"] * 8 + ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])

tensors = st.builds(lambda values: tf.make_tensor_proto(values, tf.string, [len(values)]),
                    st.lists(st.binary(max_size=20), max_size=4))  # fmt: skip
odd_tensors = st.builds(
    lambda dtype, dims, values, content, unknown: tensor_pb2.TensorProto(
        dtype=dtype,
        tensor_shape={"dim": [{"size": size} for size in dims], "unknown_rank": unknown},
        string_val=values,
        tensor_content=content,
    ),
    st.sampled_from(types_pb2.DataType.values()) | st.integers(0, 200),
    st.lists(st.integers(-2, 5) | st.just(2**40), max_size=3),
    st.lists(st.binary(max_size=5), max_size=3),
    st.binary(max_size=5),
    st.booleans(),
)


@st.composite
def predict_requests(draw):
    if draw(st.booleans()):
        signature = draw(st.sampled_from(["", "serving_default", "align"]))
        return predict_request("tiny", signature, text=draw(st.lists(st.binary(max_size=20))))
    request = predict_pb2.PredictRequest()
    request.model_spec.name = draw(st.sampled_from(["tiny"] * 8 + ["", "none"]))
    request.model_spec.signature_name = draw(st.sampled_from([*SIGNATURES, "x"]))
    if draw(st.integers(0, 9)) == 0:
        request.model_spec.version.value = draw(st.integers(-1, 3))
    names = st.sampled_from(["text", "target", "text", "x"])
    for name, tensor in draw(st.dictionaries(names, tensors | odd_tensors, max_size=2)).items():
        request.inputs[name].CopyFrom(tensor)
    request.output_filter.extend(
        draw(st.lists(st.sampled_from(["text", "score", "x"]), max_size=2))
    )
    return request


def fuzz(server, examples):
    """Sends so many requests, three of four by REST; fails at the first wrong answer."""
    seen = {}

    def count(code):
        seen[code] = seen.get(code, 0) + 1

    with httpx2.Client(timeout=60, verify=False) as client:

        @hypothesis.settings(max_examples=examples * 3 // 4, **SETTINGS)
        @hypothesis.given(methods, paths, bodies())
        def rest(method, path, body):
            answer = client.request(method, server.url + path, content=body)
            count(answer.status_code)
            if answer.headers["Content-Type"] == "application/json" and method != "HEAD":
                is_error = set(answer.json()) == {"error"}
                assert is_error == (answer.status_code != 200)
            assert answer.status_code in (200, 400, 404, 405), answer.text

        rest()

    with grpc.insecure_channel(server.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

        @hypothesis.settings(max_examples=examples - examples * 3 // 4, **SETTINGS)
        @hypothesis.given(predict_requests())
        def by_grpc(request):
            try:
                stub.Predict(request, 60)
                count("OK")
            except grpc.RpcError as error:
                if error.code().name not in (
                    "INVALID_ARGUMENT",
                    "NOT_FOUND",
                    "FAILED_PRECONDITION",
                ):
                    raise
                count(error.code().name)

        by_grpc()
    assert server.process.poll() is None
    return seen


if __name__ == "__main__":
    import tempfile

    from tests.serving.tools import tiny_pipeline
    from zoo.serving import export

    with tempfile.TemporaryDirectory() as folder:
        export(tiny_pipeline(), pathlib.Path(folder, "tiny"), examples=["cab"])
        with running(pathlib.Path(folder, "tiny")) as started:
            print(fuzz(started, int(sys.argv[1])))
            print(started.stop().splitlines()[-1])
