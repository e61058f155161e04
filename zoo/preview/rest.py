import json
import logging
import urllib.parse

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route
from tensorflow_serving.apis import get_model_metadata_pb2, model_pb2

from zoo.preview import json_tensor
from zoo.preview.http import ABOUT, PREDICT, error_response, read_body
from zoo.preview.page_files import page_routes
from zoo.preview.refused import Refused, invalid


def make_app(models, queue, request_bytes):
    """The page and the REST protocol of TF Serving, as an ASGI application."""

    async def api(request):
        path = request.scope["raw_path"].decode("latin-1")
        try:
            if not path.lower().startswith("/v1/"):
                raise Refused("NOT_FOUND", f"Not Found: {request.method} {path}")
            body = await read_body(request, request_bytes)
            predict = PREDICT.fullmatch(path) if request.method == "POST" else None
            if predict:
                return await _predict(predict, body)
            about = ABOUT.fullmatch(path) if request.method == "GET" else None
            if about:
                return _about(about)
            raise invalid(f"Malformed request: {request.method} {path}")
        except Refused as error:
            return error_response(error.http_code, error.message)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception:
            logging.getLogger("zoo").exception("a request failed")
            return error_response(500, "The server failed; its log says how")

    async def _predict(match, body):
        method = match["method"].lower()
        model = models.find(_spec(match))
        if method != "predict":
            raise invalid(
                f"Expected {'classification' if method == 'classify' else 'regression'} signature "
                f"method_name to be tensorflow/serving/{method}. Was: tensorflow/serving/predict"
            )
        return await queue.run(_answer, model, body)

    def _about(match):
        spec = _spec(match)
        if not spec.name:
            raise invalid("Missing model name in request.")
        if not match["metadata"]:
            answer = _to_dict(models.status(spec))
        else:
            found = models.metadata(spec, ["signature_def"])
            signatures = get_model_metadata_pb2.SignatureDefMap()
            found.metadata["signature_def"].Unpack(signatures)
            answer = {
                "model_spec": _to_dict(found.model_spec),
                "metadata": {"signature_def": _to_dict(signatures)},
            }
        return Response(json.dumps(answer, indent=1), media_type="application/json")

    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    routes = [*page_routes(sorted(models.versions)), Route("/{path:path}", api, methods=methods)]
    return Starlette(routes=routes)


def _answer(model, body):
    name, columns, in_rows = json_tensor.read_predict(body, model.signatures)
    outputs = model.answer(name, columns)
    answer = json_tensor.write_predictions(outputs, in_rows)
    return Response(answer, media_type="application/json")


def _spec(match):
    spec = model_pb2.ModelSpec(name=urllib.parse.unquote(match["name"] or ""))
    if match["version"] is not None:
        try:
            spec.version.value = int(match["version"])
        except ValueError:
            raise invalid(f"Failed to convert version: {match['version']} to numeric.") from None
    if match["label"] is not None:
        spec.version_label = urllib.parse.unquote(match["label"])
    return spec


def _to_dict(message):
    options = {"preserving_proto_field_name": True, "always_print_fields_with_no_presence": True}
    return json_format.MessageToDict(message, **options)
