"""What the files of deploy/ have to look like, where no package knows it."""

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
    wrappers_pb2,
)

# What of the Compose Specification is used here; what is misspelt is not in it.
STRINGS = {"type": "array", "items": {"type": "string"}}
DURATION = {"type": "string", "pattern": "^([0-9]+(us|ms|s|m|h))+$"}


def closed(required=(), **properties):
    """The schema of an object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


LIMITS = closed(cpus={"type": "string", "pattern": r"^\d+(\.\d+)?$"},
                memory={"type": "string", "pattern": r"^\d+[bkKmMgG]$"})  # fmt: skip
SERVICE = closed(
    ["image"],
    image={"type": "string", "pattern": r"^[\w./-]+:[\w.-]+$"},
    entrypoint={"type": "string"},
    command=STRINGS,
    ports={"type": "array", "items": {"type": "string", "pattern": r"^[\d.]+:\d+:\d+$"}},
    volumes={"type": "array", "items": {"type": "string", "pattern": r"^\.\.?/[^:]*:/[^:]+:ro$"}},
    healthcheck=closed(
        ["test"], test=STRINGS, interval=DURATION, timeout=DURATION,
        start_period=DURATION, retries={"type": "integer"},
    ),
    init={"type": "boolean"},
    restart={"enum": ["no", "always", "on-failure", "unless-stopped"]},
    cap_drop=STRINGS,
    security_opt=STRINGS,
    deploy=closed(resources=closed(limits=LIMITS, reservations=LIMITS)),
)  # fmt: skip
COMPOSE = closed(
    ["services"],
    name={"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
    services={"type": "object", "additionalProperties": SERVICE},
)


def message(name, fields):
    """A message class of fields, {name: (number, type or message)}; an array has a list of one."""
    field_types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{name}.proto", package="deploy", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for owner, own_fields in fields.items():
        descriptor = file.message_type.add(name=owner)
        for field, (number, kind) in own_fields.items():
            repeated, kind = isinstance(kind, list), kind[0] if isinstance(kind, list) else kind
            one = descriptor.field.add(name=field, number=number)
            one.label = field_types.LABEL_REPEATED if repeated else field_types.LABEL_OPTIONAL
            if isinstance(kind, str):
                one.type, one.type_name = field_types.TYPE_MESSAGE, kind
            else:
                one.type = kind
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"deploy.{name}"))


def batching(text):
    """batching.config, by the fields of session_bundle_config.proto."""
    number, string = ".google.protobuf.Int64Value", ".google.protobuf.StringValue"
    fields = {
        "max_batch_size": (1, number),
        "batch_timeout_micros": (2, number),
        "max_enqueued_batches": (3, number),
        "num_batch_threads": (4, number),
        "thread_pool_name": (5, string),
        "allowed_batch_sizes": (6, [descriptor_pb2.FieldDescriptorProto.TYPE_INT64]),
    }
    parameters = message("BatchingParameters", {"BatchingParameters": fields})
    return text_format.Parse(text, parameters())


def monitoring(text):
    """monitoring.config, by the fields of monitoring_config.proto."""
    types = descriptor_pb2.FieldDescriptorProto
    prometheus = {"enable": (1, types.TYPE_BOOL), "path": (2, types.TYPE_STRING)}
    whole = {"prometheus_config": (1, ".deploy.PrometheusConfig")}
    config = message(
        "MonitoringConfig", {"PrometheusConfig": prometheus, "MonitoringConfig": whole}
    )
    return text_format.Parse(text, config())
