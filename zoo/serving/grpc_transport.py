import grpc
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, model_pb2, predict_pb2
from tensorflow_serving.apis.prediction_service_pb2_grpc import PredictionServiceStub

from zoo.address import address
from zoo.errors import first_line
from zoo.serving.transport import Metadata, Temporary

OPTIONS = [
    ("grpc.max_send_message_length", -1),  # how much is too much says the server
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_retries", 0),  # the client's own are told and limited
    # A channel that lost its server must not wait for longer than the client does.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]
# CANCELLED is what a server says to requests that it drops as it stops.
TEMPORARY = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "CANCELLED")
REJECTED = (
    *("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("PERMISSION_DENIED", "UNAUTHENTICATED"),
)


class GrpcTransport:
    """Requests by gRPC, with the stubs of tensorflow-serving-api."""

    def __init__(self, host, port, model, version, label, timeout):
        self.server = f"grpc://{address(host, port)}"
        self.timeout = timeout
        self.spec = model_pb2.ModelSpec(name=model, version_label=label)
        if version is not None:
            self.spec.version.value = version
        self.channel = grpc.insecure_channel(address(host, port), OPTIONS)
        self.stub = PredictionServiceStub(self.channel)

    def predict(self, signature, columns):
        """The outputs of a signature: lists of bytes to numpy arrays, by name."""
        request = predict_pb2.PredictRequest(model_spec=self.spec)
        request.model_spec.signature_name = signature
        for name, values in columns.items():
            tensor = tf.make_tensor_proto(values, tf.string, [len(values)])
            request.inputs[name].CopyFrom(tensor)
        outputs = self._call(self.stub.Predict, request).outputs
        return {name: tf.make_ndarray(tensor) for name, tensor in outputs.items()}

    def metadata(self):
        """What the server says of the model."""
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=self.spec, metadata_field=["signature_def"]
        )
        response = self._call(self.stub.GetModelMetadata, request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        return Metadata(str(response.model_spec.version.value), signatures.signature_def)

    def close(self):
        """Ends the connection, and what is under way on it."""
        self.channel.close()

    def _call(self, method, request):
        try:
            return method(request, timeout=self.timeout)
        except grpc.RpcError as error:
            code, details = error.code().name, first_line(error.details() or "")
            if code == "DEADLINE_EXCEEDED":
                # Its own limit may be less than ours.
                raise TimeoutError(
                    f"{self.server} took too long (here {self.timeout:g} s are the most): "
                    f"{details}. Send fewer texts at a time"
                ) from error
            if "Failed parsing HTTP/2" in details:  # UNAVAILABLE for gRPC, but for good
                raise OSError(f"{self.server} speaks no gRPC. Is it the port of REST?") from error
            is_too_large = "larger than max" in details  # and will be so again
            if code in TEMPORARY and not is_too_large:
                raise Temporary(f"{code}: {details}") from error
            kind = ValueError if code in REJECTED or is_too_large else OSError
            raise kind(f"{self.server} answered {code}: {details}") from error
