"""A server of one SavedModel by TF Serving's protocol, which misbehaves on command."""

import concurrent.futures
import http.server
import json
import socket
import threading
import time
from base64 import b64decode

import grpc
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2
from tensorflow_serving.apis import prediction_service_pb2_grpc as service

from zoo.serving import SavedModel

RESOURCES = [f"/v1/models/tiny{which}" for which in ("", "/versions/1", "/labels/stable")]
# What a request can meet, by gRPC and by REST; "drop" ends the connection, "hang" takes a second.
FAULTS = {
    "unavailable": (grpc.StatusCode.UNAVAILABLE, 503),
    "full": (grpc.StatusCode.RESOURCE_EXHAUSTED, 429),
    "invalid": (grpc.StatusCode.INVALID_ARGUMENT, 400),
    "broken": (grpc.StatusCode.INTERNAL, 500),
    "drop": (grpc.StatusCode.UNAVAILABLE, None),
}


class UnrulyServer(service.PredictionServiceServicer):
    """`faults` is a list of what the next requests meet; `requests` counts what came."""

    def __init__(self, path):
        self.model = SavedModel(path)
        saved = (self.model.path / "saved_model.pb").read_bytes()
        graph = saved_model_pb2.SavedModel.FromString(saved).meta_graphs[0]
        self.signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=graph.signature_def)
        self.faults, self.requests = [], 0
        self.grpc = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        service.add_PredictionServiceServicer_to_server(self, self.grpc)
        self.grpc_port = self.grpc.add_insecure_port("127.0.0.1:0")
        self.rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.rest.unruly, self.rest_port = self, self.rest.server_port
        self.grpc.start()
        threading.Thread(target=self.rest.serve_forever, daemon=True).start()

    def run(self, signature, columns):
        self.requests += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault == "hang":
            time.sleep(1)
        elif fault or signature not in self.model.loaded.signatures:
            raise RuntimeError(fault or "invalid")
        return self.model(signature, **columns)

    def Predict(self, request, context):
        self.check(request.model_spec, context)
        columns = {name: list(tensor.string_val) for name, tensor in request.inputs.items()}
        try:
            outputs = self.run(request.model_spec.signature_name, columns)
        except RuntimeError as fault:
            context.abort(FAULTS[str(fault)][0], f"told to be {fault}\nand more")
        tensors = {name: tf.make_tensor_proto(values) for name, values in outputs.items()}
        return predict_pb2.PredictResponse(outputs=tensors)

    def GetModelMetadata(self, request, context):
        self.check(request.model_spec, context)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.version.value = 1
        response.metadata["signature_def"].Pack(self.signatures)
        return response

    def check(self, spec, context):
        wanted = (spec.name, spec.version.value or 1, spec.version_label or "stable")
        if wanted != ("tiny", 1, "stable"):
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found: {spec.name}")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def do_GET(self):
        metadata = {"signature_def": json_format.MessageToDict(self.server.unruly.signatures)}
        self.answer(200, {"model_spec": {"version": "1"}, "metadata": metadata})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(body, object_hook=lambda d: b64decode(d["b64"]) if "b64" in d else d)
        resource = self.path.removesuffix(":predict")
        if resource not in RESOURCES:
            return self.answer(404, {"error": f"Servable not found: {resource}"})
        try:
            outputs = self.server.unruly.run(body["signature_name"], body["inputs"])
        except RuntimeError as fault:
            if str(fault) == "drop":
                return self.connection.shutdown(socket.SHUT_RDWR)
            return self.answer(FAULTS[str(fault)][1], {"error": f"told to be {fault}\nand more"})
        outputs = {name: values.tolist() for name, values in outputs.items()}
        only = next(iter(outputs.values()))  # which TF Serving does not name
        return self.answer(200, {"outputs": outputs if len(outputs) > 1 else only})

    def answer(self, status, data):
        as_it_is = ("utf-8", "surrogateescape")
        text = json.dumps(data, default=lambda b: b.decode(*as_it_is), ensure_ascii=False)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode(*as_it_is))))
        self.end_headers()
        self.wfile.write(text.encode(*as_it_is))

    def log_message(self, *_): ...
