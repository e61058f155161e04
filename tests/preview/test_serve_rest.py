"""REST as TF Serving speaks it: what is asked stands in the parameters, and what must come out."""

import base64
import json

import pytest

from tests.preview.conftest import PRONOUNCE
from tests.preview.rest_errors import CAB, ERRORS, PREDICT
from tests.preview.server import is_documented
from tests.tools import run_zoo_here
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


def test_it_says_what_zoo_predict_prints(server, monkeypatch, capsys):
    words = ["schadenfreude", "kombucha", "gremblewick", "", "don't"]
    arguments = ["predict", PRONOUNCE, *words, "--n-best", 3]
    printed = run_zoo_here(monkeypatch, capsys, PRONOUNCE, arguments)
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
