import contextlib
import logging

import grpc
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from zoo.preview.models import Column
from zoo.preview.ports import unavailable
from zoo.preview.refused import Refused, invalid
from zoo.serving.warm_up import DEFAULT

MOST_CALLS = 512  # each holds a request that may not have entered the queue yet


def make_grpc_server(models, queue, address, request_bytes):
    """A server of TF Serving's PredictionService and ModelService, which has its port."""
    options = {
        "grpc.max_receive_message_length": request_bytes,
        "grpc.max_send_message_length": -1,
        "grpc.so_reuseport": 0,  # a port is taken, or it is not
    }
    server = grpc.aio.server(options=list(options.items()), maximum_concurrent_rpcs=MOST_CALLS)
    services = PredictionService(models, queue), ModelService(models)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(services[0], server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(services[1], server)
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise unavailable(address, "--grpc-port", "it is taken") from error
    return server


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata."""

    def __init__(self, models, queue):
        self.models, self.queue = models, queue

    async def Predict(self, request, context):
        async with _statuses(context):
            _need_spec(request)
            model = self.models.find(request.model_spec)
            return await self.queue.run(_predict, model, request)

    async def GetModelMetadata(self, request, context):
        async with _statuses(context):
            _need_spec(request)
            return self.models.metadata(request.model_spec, request.metadata_field)


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus."""

    def __init__(self, models):
        self.models = models

    async def GetModelStatus(self, request, context):
        async with _statuses(context):
            _need_spec(request)
            return self.models.status(request.model_spec)


@contextlib.asynccontextmanager
async def _statuses(context):
    """Ends the call with the status of what was refused."""
    try:
        yield
    except Refused as error:
        await context.abort(grpc.StatusCode[error.code], error.message)
    except Exception:
        logging.getLogger("zoo").exception("a request failed")
        await context.abort(grpc.StatusCode.INTERNAL, "The server failed; its log says how")


def _need_spec(request):
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")


def _predict(model, request):
    signature_name = request.model_spec.signature_name or DEFAULT
    columns = {name: _column(name, tensor) for name, tensor in request.inputs.items()}
    outputs = model.answer(signature_name, columns, list(request.output_filter))
    response = predict_pb2.PredictResponse()
    response.model_spec.name = model.name
    response.model_spec.version.value = model.version
    response.model_spec.signature_name = signature_name
    for name, values in outputs.items():
        response.outputs[name].CopyFrom(_tensor(values))
    return response


def _column(name, tensor):
    """A tensor of a request; only strings are unpacked, for no model takes others."""
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if tensor.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise invalid(f"tensor parsing error: {name}")
    if tensor.dtype not in types_pb2.DataType.values() or not tensor.dtype:
        raise invalid(f"tensor parsing error: {name}")
    if tensor.dtype != types_pb2.DT_STRING or len(shape) != 1:
        return Column(tensor.dtype, shape, [])
    # The last value may stand for all that follow: a short message may be a large tensor.
    values = list(tensor.string_val)
    if shape[0] != len(values):
        if tensor.tensor_content or len(values) > shape[0]:
            raise invalid(f"tensor parsing error: {name}")
        raise invalid(f'Input "{name}" must have {shape[0]} values. Received: {len(values)}')
    return Column(tensor.dtype, shape, values)


def _tensor(values):
    """A tensor with its values one by one, which is how TF Serving sends them."""
    dtype = tf.as_dtype(values.dtype if values.dtype != object else tf.string)
    tensor = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum)
    tensor.tensor_shape.SetInParent()
    for size in values.shape:
        tensor.tensor_shape.dim.add(size=size)
    fields = {tf.string: "string_val", tf.float32: "float_val", tf.int64: "int64_val"}
    fields |= {tf.float64: "double_val", tf.bool: "bool_val", tf.int32: "int_val"}
    getattr(tensor, fields[dtype]).extend(values.ravel().tolist())
    return tensor
