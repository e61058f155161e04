import os
import pathlib
from typing import NamedTuple

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from zoo.errors import UsageError, first_line
from zoo.preview.refused import Refused, invalid
from zoo.serving.saved_model import DAMAGE, SavedModel, find_version, is_version, read_graph
from zoo.serving.warm_up import DEFAULT, WARM_UP, read_warm_up


class Column(NamedTuple):
    """An input of a request: a TensorFlow data type, a shape, and the values in one list."""

    dtype: int
    shape: tuple
    values: list


class Limits(NamedTuple):
    """How large a request may be."""

    request_bytes: int = 4 * 2**20
    text_bytes: int = 20_000
    batch: int = 256


class ServedModel:
    """One version of a model, with its signatures as TF Serving reads them."""

    def __init__(self, folder, limits):
        self.model, self.limits = SavedModel(folder), limits
        self.name, self.version = folder.parent.name, int(folder.name)
        self.signatures = dict(read_graph(folder).signature_def)

    def warm_up(self):
        """Answers the warm-up requests, as TF Serving does before it takes others."""
        file = self.model.path / WARM_UP
        if not file.exists():
            return
        try:
            for request in read_warm_up(self.model.path):
                inputs = {k: tf.make_ndarray(v).tolist() for k, v in request.inputs.items()}
                self.model(request.model_spec.signature_name or DEFAULT, **inputs)
        except (*DAMAGE, TypeError, DecodeError) as error:
            raise ValueError(
                f"{file}: a warm-up request cannot be answered: {first_line(error)}"
            ) from error

    def answer(self, signature_name, columns, wanted=()):
        """Runs a signature on {input: Column}; gives {output: numpy array}, the wanted or all."""
        signature_name = signature_name or DEFAULT
        # The signatures of the file have one more, which starts the model and answers nothing.
        if signature_name not in self.model.loaded.signatures:
            raise Refused(
                "FAILED_PRECONDITION", f'Serving signature key "{signature_name}" not found.'
            )
        signature = self.signatures[signature_name]
        self._check_inputs(signature, columns)
        outputs = sorted(signature.outputs)
        for i, name in enumerate(wanted):
            if name not in outputs:
                expected = ",".join(outputs)
                raise invalid(
                    f"output tensor alias not found in signature: {name} "
                    f"Outputs expected to be in the set {{{expected}}}."
                )
            if name in wanted[:i]:
                raise invalid(f"duplicate output tensor alias: {name}")
        try:
            answer = self.model(signature_name, **{k: c.values for k, c in columns.items()})
        except tf.errors.OpError as error:
            names = {v: k for k, v in vars(tf.errors).items() if isinstance(v, int)}
            raise Refused(names[error.error_code], error.message) from error
        return {name: answer[name] for name in wanted or outputs}

    def _check_inputs(self, signature, columns):
        expected, given = set(signature.inputs), set(columns)
        if expected != given:
            names = [",".join(sorted(x)) for x in (given, expected, given - expected)]
            missing = ",".join(sorted(expected - given))
            raise invalid(
                f"input size does not match signature: {len(given)}!={len(expected)} "
                f"len({{{names[0]}}}) != len({{{names[1]}}}). Sent extra: {{{names[2]}}}. "
                f"Missing but required: {{{missing}}}."
            )
        for i, (name, column) in enumerate(sorted(columns.items())):
            wanted = signature.inputs[name]
            if column.dtype != wanted.dtype:
                types = [tf.dtypes.as_dtype(t).name for t in (wanted.dtype, column.dtype)]
                raise invalid(f"Expects arg[{i}] to be {types[0]} but {types[1]} is provided")
            if len(column.shape) != 1:  # all inputs of the zoo's SavedModels are (batch,)
                raise invalid(
                    f'Input "{name}" must be a list of strings. Received: shape '
                    f"{list(column.shape)}"
                )
            longest = max(map(len, column.values), default=0)
            if column.shape[0] > self.limits.batch:
                raise invalid(
                    f"Task size {column.shape[0]} is larger than maximum input batch size "
                    f"{self.limits.batch}"
                )
            is_file = name.endswith("_bytes")  # whose limit is that of a request
            if longest > self.limits.text_bytes and not is_file:
                raise invalid(
                    f'Input "{name}" must have at most {self.limits.text_bytes} bytes a text. '
                    f"Received: {longest}"
                )
        if len({column.shape for column in columns.values()}) > 1:
            raise invalid("Batching Run() input tensors must have equal 0th-dimension size")


class Models:
    """All that is served, by name and version."""

    def __init__(self):
        self.versions = {}  # {name: {version: ServedModel}}

    def load(self, paths, limits):
        """Loads SavedModels and warms them up."""
        # A link is served under its own name.
        folders = [pathlib.Path(os.path.abspath(find_version(path))) for path in paths]
        for folder in folders:
            if not is_version(folder.name):
                raise ValueError(
                    f"{folder} is not named by a number, which TF Serving takes for a version"
                )
        ids = [(folder.parent.name, folder.name) for folder in folders]
        if len(set(ids)) < len(ids):
            raise UsageError(
                f"`zoo serve` needs models of different names or versions. Received: {list(paths)}"
            )
        for folder in folders:
            model = ServedModel(folder, limits)
            model.warm_up()
            self.versions.setdefault(model.name, {})[model.version] = model

    def find(self, spec):
        """The model that a ModelSpec means, the newest version if it says none."""
        if not spec.name:
            raise invalid("ModelSpec has no name specified.")
        choice = spec.WhichOneof("version_choice")
        if choice == "version_label":  # none are configured here
            raise invalid(f"Unrecognized servable version label: {spec.version_label}")
        versions = self.versions.get(spec.name, {})
        if choice is None and versions:
            return versions[max(versions)]
        if choice == "version" and spec.version.value in versions:
            return versions[spec.version.value]
        asked = f"Specific({spec.name}, {spec.version.value})" if choice else f"Latest({spec.name})"
        raise Refused("NOT_FOUND", f"Servable not found for request: {asked}")

    def status(self, spec):
        """A GetModelStatusResponse; a label is not looked at."""
        versions = sorted(self.versions.get(spec.name, {}))
        if not versions:
            raise Refused("NOT_FOUND", f"Could not find any versions of model {spec.name}")
        if spec.HasField("version"):
            if spec.version.value not in versions:
                raise Refused(
                    "NOT_FOUND",
                    f"Could not find version {spec.version.value} of model {spec.name}",
                )
            versions = [spec.version.value]
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in versions:
            status = response.model_version_status.add(version=version)
            status.state = get_model_status_pb2.ModelVersionStatus.AVAILABLE
            status.status.SetInParent()  # OK
        return response

    def metadata(self, spec, fields):
        """A GetModelMetadataResponse, with the signatures."""
        if not fields:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in fields:
            if field != "signature_def":
                raise invalid(f"Metadata field {field} is not supported")
        model = self.find(spec)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name = model.name
        response.model_spec.version.value = model.version
        signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=model.signatures)
        response.metadata["signature_def"].Pack(signatures)
        return response
