"""REST as TF Serving speaks it: what is asked stands in the parameters, and what must come out."""

import base64
import json

import pytest

from tests.serving.conftest import PRONOUNCE
from tests.serving.server import is_documented
from tests.tools import run_zoo
from zoo.serving import SavedModel

WORDS = ["cab", "a", "decade", "", "bead", "fabled", "é", "facade", "bad\tdeed"]
NOISE = b"ab\xff\x00d"


def b64(value):
    return {"b64": base64.b64encode(value).decode()}


@pytest.fixture(scope="module")
def model(tiny):
    return SavedModel(tiny / "2")


def test_rows_and_columns_are_what_the_model_answers(server, model):
    answer = model("serving_default", text=WORDS)
    expected = {
        k: json.loads(json.dumps(v.tolist(), default=bytes.decode)) for k, v in answer.items()
    }
    for inputs in (WORDS, {"text": WORDS}, {"text": [b64(w.encode()) for w in WORDS]}):
        code, columns = server.ask("/v1/models/tiny:predict", {"inputs": inputs})
        assert (code, list(columns)) == (200, ["outputs"])
        assert columns["outputs"]["texts"] == expected["texts"]
        assert columns["outputs"]["score"] == pytest.approx(expected["score"], abs=1e-4)
    for instances in (WORDS, [{"text": w} for w in WORDS], [b64(w.encode()) for w in WORDS]):
        code, rows = server.ask("/v1/models/tiny:predict", {"instances": instances})
        assert (code, list(rows)) == (200, ["predictions"])
        assert len(rows["predictions"]) == len(WORDS)
        for i, row in enumerate(rows["predictions"]):
            assert row == {name: values[i] for name, values in columns["outputs"].items()}


def test_it_says_what_zoo_predict_prints(server):
    words = ["schadenfreude", "kombucha", "gremblewick", "", "don't"]
    printed = run_zoo("predict", PRONOUNCE, *words, "--n-best", 3)
    _, answer = server.ask("/v1/models/pronounce_en:predict", {"inputs": words})
    lines = [
        f"{word}\t{score:.4f}\t{text}"
        for word, texts, scores in zip(
            words, answer["outputs"]["texts"], answer["outputs"]["scores"], strict=True
        )
        for text, score in list(zip(texts, scores, strict=True))[:3]
        if score > -1e9
    ]
    assert printed.stdout.splitlines() == lines
    assert lines[0].endswith("SH AE D AH N F R OY D")


def test_a_signature_of_one_output_gives_plain_values(server, model):
    pairs = {"text": ["cab", "bead"], "target": ["K AA B", "B"]}
    request = {"signature_name": "score", "inputs": pairs}
    _, columns = server.ask("/v1/models/tiny:predict", request)
    expected = model("score", **pairs)["log_prob"].tolist()
    assert columns == {"outputs": pytest.approx(expected, abs=1e-4)}
    rows = [{"text": t, "target": o} for t, o in zip(*pairs.values(), strict=True)]
    _, answer = server.ask(
        "/v1/models/tiny:predict", {**request, "inputs": None} | {"instances": rows}
    )
    assert answer["error"].startswith("JSON Value")  # both keys
    request = {"signature_name": "score", "instances": rows}
    _, answer = server.ask("/v1/models/tiny:predict", request)
    assert answer == {"predictions": columns["outputs"]}


def test_bytes_that_are_no_text_reach_the_model(server, model):
    expected = model("align", text=[NOISE])["source_tokens"][0].tolist()
    for body in (
        {"signature_name": "align", "inputs": [b64(NOISE)]},
        b'{"signature_name": "align", "inputs": ["ab\xff\\u0000d"]}',
    ):
        _, answer = server.ask("/v1/models/tiny:predict", body)
        tokens = answer["outputs"]["source_tokens"][0]
        assert [token.encode() for token in tokens] == expected


def test_an_empty_batch_has_an_empty_answer(server):
    code, answer = server.ask("/v1/models/tiny:predict", {"inputs": []})
    assert code == 200
    assert answer["outputs"] == {"score": [], "scores": [], "text": [], "texts": []}
    code, answer = server.ask("/v1/models/tiny:predict", {"signature_name": "align", "inputs": []})
    assert code == 200
    assert set(map(str, answer["outputs"].values())) == {"[]"}


def test_the_newest_version_answers_or_the_one_that_is_named(server, tiny):
    answers = []
    for version in (1, 2):
        expected = SavedModel(tiny / str(version))("serving_default", text=WORDS)["text"].tolist()
        path = f"/V1/Models/tiny/versions/{version}:predict"  # case does not matter, but in names
        _, answer = server.ask(path, {"inputs": WORDS})
        assert answer["outputs"]["text"] == [text.decode() for text in expected]
        answers.append(answer)
    assert answers[0] != answers[1]
    assert server.ask("/v1/models/t%69ny:predict", {"inputs": WORDS})[1] == answers[1]


def test_status(server):
    ok = {"state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    first, second = ({"version": version, **ok} for version in ("1", "2"))
    code, answer = server.ask("/v1/models/tiny")
    assert (code, answer) == (200, {"model_version_status": [first, second]})
    assert server.ask("/v1/models/tiny/versions/1")[1] == {"model_version_status": [first]}


def test_metadata(server):
    code, answer = server.ask("/v1/models/tiny/metadata")
    assert code == 200
    assert answer["model_spec"] == {
        "name": "tiny",
        "signature_name": "",
        "version": "2",
    }
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert {"align", "score", "serving_default"} <= set(signatures)
    assert signatures["score"]["method_name"] == "tensorflow/serving/predict"
    text = signatures["score"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}


def deep(levels):
    return b'{"inputs": ' + b"[" * levels + b"]" * levels + b"}"


PREDICT, CAB = "/v1/models/tiny:predict", {"inputs": ["cab"]}
TEN_MEGABYTES = {"inputs": ["a" * 10**7]}
# path, body (None: GET), code, what the error begins with or contains
ERRORS = {
    "no model": (
        "/v1/models/none:predict",
        CAB,
        404,
        "Servable not found for request: Latest(none)",
    ),
    "no version": (
        "/v1/models/tiny/versions/7:predict",
        CAB,
        404,
        "Servable not found for request: Specific(tiny, 7)",
    ),
    "no label": (
        "/v1/models/tiny/labels/canary:predict",
        CAB,
        400,
        "Unrecognized servable version label: canary",
    ),
    "large version": (
        f"/v1/models/tiny/versions/{10**30}:predict",
        CAB,
        400,
        f"Failed to convert version: {10**30} to numeric.",
    ),
    "classify": (
        "/v1/models/tiny:classify",
        {"examples": [{}]},
        400,
        "Expected classification signature method_name to be tensorflow/serving/classify. "
        "Was: tensorflow/serving/predict",
    ),
    "verb": ("/v1/models/tiny:dance", CAB, 400, "Malformed request: POST /v1/models/tiny:dance"),
    "get": (PREDICT, None, 400, "Malformed request: GET /v1/models/tiny:predict"),
    "post": ("/v1/models/tiny", CAB, 400, "Malformed request: POST /v1/models/tiny"),
    "elsewhere": ("/v2/models/tiny", None, 404, "Not Found"),
    "no status": ("/v1/models/none", None, 404, "Could not find any versions of model none"),
    "no status of a version": (
        "/v1/models/tiny/versions/7",
        None,
        404,
        "Could not find version 7 of model tiny",
    ),
    "no name": ("/v1/models", None, 400, "Missing model name in request."),
    "no metadata": (
        "/v1/models/none/metadata",
        None,
        404,
        "Servable not found for request: Latest(none)",
    ),
    "no body": (PREDICT, b"", 400, "JSON Parse error: The document is empty"),
    "malformed": (PREDICT, b'{"inputs": ["cab"', 400, "JSON Parse error: "),
    "deep": (PREDICT, deep(100_000), 400, "JSON Parse error: "),
    "deep in numpy": (PREDICT, deep(200), 400, 'Input "text" must be a list of strings'),
    "many digits": (PREDICT, b'{"inputs": ' + b"9" * 5000 + b"}", 400, "JSON Parse error: "),
    "surrogate": (PREDICT, b'{"inputs": ["\\ud800"]}', 400, "surrogate pair in string is invalid"),
    "no object": (PREDICT, b"[1]", 400, "Is not object"),
    "no key": (PREDICT, {"input": ["cab"]}, 400, "Missing 'inputs' or 'instances' key"),
    "both keys": (
        PREDICT,
        {"inputs": ["cab"], "instances": ["cab"]},
        400,
        "expecting only one of 'inputs' or 'instances' keys to exist",
    ),
    "no rows": (PREDICT, {"instances": []}, 400, "No values in 'instances' array"),
    "rows no list": (
        PREDICT,
        {"instances": "cab"},
        400,
        "Excepting 'instances' to be an list/array",
    ),
    "signature": (
        PREDICT,
        {"signature_name": "dance", "inputs": ["cab"]},
        400,
        'Serving signature name: "dance" not found in signature def',
    ),
    "no inputs": (
        PREDICT,
        {"signature_name": "__saved_model_init_op", "inputs": []},
        400,
        "Failed to get input map for signature: __saved_model_init_op",
    ),
    "signature no string": (
        PREDICT,
        {"signature_name": 1, "inputs": ["cab"]},
        400,
        "'signature_name' key must be a string value.",
    ),
    "number": (
        PREDICT,
        {"inputs": [1.5]},
        400,
        "JSON Value: 1.5 Type: Number is not of expected type: string",
    ),
    "bool": (PREDICT, {"inputs": [True]}, 400, "Type: True is not of expected type: string"),
    "null": (PREDICT, {"instances": [None]}, 400, "Type: Null is not of expected type: string"),
    "row number": (
        PREDICT,
        {"instances": ["cab", 3]},
        400,
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: 3",
    ),
    "base64": (PREDICT, {"inputs": [{"b64": "%%%"}]}, 400, "Unable to base64 decode"),
    "base64 length": (PREDICT, {"inputs": [{"b64": "abcde"}]}, 400, "Unable to base64 decode"),
    "base64 number": (
        PREDICT,
        {"inputs": [{"b64": 3}]},
        400,
        "not formatted correctly for base64 data",
    ),
    "scalar": (PREDICT, {"inputs": "cab"}, 400, 'Input "text" must be a list of strings'),
    "matrix": (PREDICT, {"inputs": [["cab"]]}, 400, 'Input "text" must be a list of strings'),
    "ragged": (
        PREDICT,
        {"inputs": [["a", "b"], ["c"]]},
        400,
        "Encountered list at unexpected size",
    ),
    "levels": (PREDICT, {"inputs": ["a", ["b"]]}, 400, "Encountered list at unexpected level: 1"),
    "level": (
        PREDICT,
        {"inputs": [["a"], "b"]},
        400,
        "found at incorrect level: 2 in the JSON DOM",
    ),
    "missing": (
        PREDICT,
        {"signature_name": "score", "inputs": {"text": ["cab"]}},
        400,
        "Missing named input: target in 'inputs' object.",
    ),
    "plain": (
        PREDICT,
        {"signature_name": "score", "inputs": ["cab"]},
        400,
        "inputs is a plain value/list, but expecting an object as multiple input tensors",
    ),
    "plain row": (
        PREDICT,
        {"signature_name": "score", "instances": ["cab"]},
        400,
        "instances is a plain list, but expecting list of objects",
    ),
    "row keys": (
        PREDICT,
        {"signature_name": "score", "instances": [{"text": "cab"}]},
        400,
        "must only have keys: target,text",
    ),
    "row key": (
        PREDICT,
        {"instances": [{"word": "cab"}]},
        400,
        "JSON object: does not have named input: word",
    ),
    "mixed rows": (
        PREDICT,
        {"instances": [{"text": "cab"}, "cab"]},
        400,
        "Expecting object but got list at item 1 of input list",
    ),
    "row sizes": (
        PREDICT,
        {"instances": [["a"], ["b", "c"]]},
        400,
        "Expecting tensor size: 1 but got",
    ),
    "lengths": (
        PREDICT,
        {"signature_name": "score", "inputs": {"text": ["a", "b"], "target": ["B"]}},
        400,
        "Batching Run() input tensors must have equal 0th-dimension size",
    ),
    "batch": (
        PREDICT,
        {"inputs": ["a"] * 257},
        400,
        "Task size 257 is larger than maximum input batch size 256",
    ),
    "long text": (PREDICT, {"inputs": ["a" * 20_001]}, 400, "Received: 20001"),
    "ten megabytes": (PREDICT, TEN_MEGABYTES, 413, "A request must have at most 4194304 bytes"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_is_told_as_tf_serving_does(server, error):
    path, body, code, message = ERRORS[error]
    got, answer = server.ask(path, body)
    assert (got, list(answer)) == (code, ["error"]), answer
    assert message in answer["error"]
    assert is_documented(answer["error"], str(code))
    assert server.ask(PREDICT, CAB)[0] == 200  # it goes on


def test_other_methods_are_malformed(server):
    code, answer = server.ask("/v1/models/tiny", method="DELETE")
    assert (code, answer) == (400, {"error": "Malformed request: DELETE /v1/models/tiny"})
