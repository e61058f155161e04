import base64
import hashlib
import json
import pathlib
import re

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of tokenizers
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from zoo.errors import first_line
from zoo.serving.pipelines import deserialize
from zoo.serving.strings import to_bytes

ABOUT = "zoo.json"
GRAPH = "saved_model.pb"
LARGEST_VERSION = 2**63 - 1
# What TensorFlow raises at missing, cut off or changed files.
DAMAGE = (OSError, ValueError, LookupError, RuntimeError, tf.errors.OpError)


def find_version(path):
    """The version folder that a path means: itself, or the newest one in saved_models/NAME."""
    path = pathlib.Path(path)
    if (path / ABOUT).exists():
        return path
    found = versions(path)
    if not found:
        raise FileNotFoundError(
            f"{path} is no SavedModel of the zoo: it has neither {ABOUT} nor a folder like 1/ with "
            "one. `zoo export RUN --output saved_models/NAME` makes one, `zoo list` shows them"
        )
    return path / str(found[-1])


def versions(path):
    """The numbers of the versions in saved_models/NAME, oldest first."""
    folders = pathlib.Path(path).glob(f"*/{ABOUT}")
    return sorted(int(f.parent.name) for f in folders if is_version(f.parent.name))


def read_about(path, **wanted):
    """What zoo.json says of a SavedModel: recipe, config, data, scores, pipeline."""
    return read_json(find_version(path) / ABOUT, **wanted)


def read_json(file, **wanted):
    """The object in a file of JSON, bytes written as TF Serving does, or an error that names it.

    It must have what is wanted, values of these types by their keys.
    """
    try:
        value = json.loads(file.read_text(encoding="utf-8"), object_hook=_bytes)
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{file} is damaged: it is no object")
    for key, kind in wanted.items():
        if not isinstance(value.get(key), kind):
            raise ValueError(f"{file} is damaged: it has no {key!r}")
    return value


def _bytes(value):
    return base64.b64decode(value["b64"]) if list(value) == ["b64"] else value


def is_version(name):
    """Whether TF Serving takes a folder of this name for a version."""
    return name.isascii() and name.isdecimal() and int(name) <= LARGEST_VERSION


def read_graph(folder):
    """The MetaGraphDef with the tag `serve`, or ValueError."""
    file = folder / GRAPH
    if not file.exists():
        raise ValueError(f"{GRAPH} is missing: export again")
    try:
        saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{GRAPH} is damaged ({error}): copy or export it again") from error
    for graph in saved.meta_graphs:
        if list(graph.meta_info_def.tags) == ["serve"]:
            return graph
    tags = [list(graph.meta_info_def.tags) for graph in saved.meta_graphs]
    raise ValueError(f"no graph has the tag 'serve', but {tags}: save it with tf.saved_model.save")


def is_language_model(about):
    """Whether a SavedModel, by its zoo.json, goes on with a text instead of answering it."""
    return about.get("pipeline", {}).get("class") == "LanguageModelPipeline"


def identity(path):
    """The folder of a SavedModel's version, its name as NAME/VERSION, and a fingerprint."""
    path = find_version(path)
    # Tells apart what has the same name: an index has a checksum of each weight.
    files = (path / ABOUT, path / "variables" / "variables.index")
    fingerprint = hashlib.sha256(b"".join(f.read_bytes() for f in files)).hexdigest()[:16]
    return path, "/".join(path.resolve().parts[-2:]), fingerprint


class SavedModel:
    """A SavedModel as TF Serving runs it: its signatures, and nothing of Keras.

    Arguments:
        path: saved_models/NAME, which means its newest version, or a version's folder.

    Example:

    ```python
    from zoo.serving import SavedModel

    model = SavedModel("saved_models/pronounce_en")
    print(model("serving_default", text=["schadenfreude"])["text"][0].decode())
    ```
    """

    def __init__(self, path):
        self.path = find_version(path)
        try:
            self.loaded = tf.saved_model.load(str(self.path))
        except DAMAGE as error:
            reason = first_line(error)
            raise ValueError(f"{self.path} cannot be loaded: {reason}") from error
        _, self.name, self.fingerprint = identity(self.path)
        self.about = read_about(self.path, pipeline=dict)
        decode = self.loaded.signatures["serving_default"]
        self.num_results = decode.structured_outputs["texts"].shape[1]
        # "text" or "image_bytes"
        self.input_name = next(iter(decode.structured_input_signature[1]), "text")

    def __call__(self, signature, **columns):
        """Runs a signature on one batch, lists of strings, and gives a dict of numpy arrays."""
        if signature not in self.loaded.signatures:
            known = ", ".join(sorted(self.loaded.signatures))
            raise ValueError(f"{self.path} has no signature {signature}, but {known}")
        columns = {k: tf.constant(to_bytes(v), tf.string) for k, v in columns.items()}
        answer = self.loaded.signatures[signature](**columns)
        return {name: tensor.numpy() for name, tensor in answer.items()}


def load(path):
    """The Keras side of a SavedModel: a `Pipeline`, its weights read from the SavedModel itself.

    Arguments:
        path: saved_models/NAME, which means its newest version, or a version's folder.

    Example:

    ```python
    import zoo

    pipeline = zoo.load("saved_models/pronounce_en")
    print(pipeline.model.count_params(), pipeline(["schadenfreude"], beam_width=10)["texts"])
    ```
    """
    path = find_version(path)
    about = read_about(path, pipeline=dict)
    try:
        pipeline = deserialize(about["pipeline"])
        weights = describe_weights(pipeline.model)
        if weights != about["weights"]:
            changed = [
                pair for pair in zip(about["weights"], weights, strict=False) if len({*pair}) > 1
            ]
            hint = f"{changed[0][0]} became {changed[0][1]}" if changed else "their number differs"
            raise ValueError(f"its weights are not those of the model that zoo.json tells: {hint}")
        reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
        for i, variable in enumerate(pipeline.model.weights):
            variable.assign(reader.get_tensor(f"weights/{i}/.ATTRIBUTES/VARIABLE_VALUE"))
    except (*DAMAGE, TypeError, AttributeError) as error:
        reason = first_line(error)
        raise ValueError(f"{path} cannot be loaded: {reason}") from error
    return pipeline


def describe_weights(model):
    """The shape of each weight, and the end of its name without the number that Keras gives it."""
    names = ["/".join(weight.path.split("/")[-2:]) for weight in model.weights]
    names = [re.sub(r"_[0-9]+(?=/|$)", "", name) for name in names]
    return [f"{name} {list(w.shape)}" for name, w in zip(names, model.weights, strict=True)]
