"""What REST refuses, with the code and the words of TF Serving."""


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
