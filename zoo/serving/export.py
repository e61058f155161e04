import json
import pathlib
import shutil
import tempfile

import keras
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

import zoo
from zoo.serving.card import card
from zoo.serving.saved_model import ABOUT, describe_weights, is_version
from zoo.serving.strings import to_bytes
from zoo.serving.warm_up import write_warm_up


def export(pipeline, output, about=None, examples=("",), float16=False):
    """Writes a pipeline as the next version of a SavedModel, whole or not at all.

    The functions of the pipeline become the signatures, such as serving_default, align and score,
    in graph mode, for CPU and GPU alike. Beside them stand zoo.json (all that `zoo.load` needs but
    the weights), a model card, and requests with which TF Serving warms up before it takes others.

    Arguments:
        pipeline: a `Pipeline`.
        output: path, saved_models/NAME.
        about: dict for zoo.json and the card: recipe, config, data, scores, training.
        examples: list of str, the texts of the warm-up requests, or of bytes, the images.
        float16: bool, whether weights take half the space on disk. The SavedModel computes in
            float32 all the same, and `zoo.load` gives float32 weights back.

    Returns the folder of the new version.

    Example:

    ```python
    import zoo
    from zoo.serving import export

    pipeline = zoo.load("saved_models/pronounce_en").with_search(beam_width=10)
    export(pipeline, "/tmp/saved_models/pronounce_en")
    ```
    """
    output = pathlib.Path(output)
    if (output / ABOUT).exists():
        raise ValueError(f"{output} is a version itself. Give the folder above it, {output.parent}")
    output.mkdir(parents=True, exist_ok=True)
    about = {
        "zoo": zoo.__version__,
        **(about or {}),
        "float16": float16,
        "weights": describe_weights(pipeline.model),
        "pipeline": pipeline.get_config(),
    }
    # TF Serving looks at folders with a number for a name: this one has none until it is whole.
    part = pathlib.Path(tempfile.mkdtemp(prefix=".part-", dir=output))
    try:
        part.chmod(0o755)
        module, signatures = _module(pipeline, float16)
        tf.saved_model.save(module, str(part), signatures=signatures)
        write_warm_up(part, _warm_up_requests(pipeline, signatures, examples))
        text = json.dumps(about, ensure_ascii=False, indent=1)
        (part / ABOUT).write_text(text + "\n", encoding="utf-8")
        folder = output / str(max([0, *_taken(output)]) + 1)
        text = card(about, output.name, folder.name, pipeline.input_name, pipeline.signatures)
        (part / "README.md").write_text(text, encoding="utf-8")
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def _taken(output):
    return [int(p.name) for p in output.iterdir() if is_version(p.name)]


def _module(pipeline, float16):
    """What is saved: weights and tokenizers, once each, and the functions on them."""
    module = tf.Module()
    variables = pipeline.model.weights
    module.weights = [_half(v) if float16 else v.value for v in variables]
    module.tokenizers = [pipeline.source_tokenizer, pipeline.target_tokenizer]

    def on_stored(function):
        """The function, with the stored weights in place of the model's."""

        def run(*columns):
            # Here, at the top of the graph, a weight is cast once a call and not once a step.
            pairs = [
                (variable, tf.cast(stored, variable.dtype))
                for variable, stored in zip(variables, module.weights, strict=True)
            ]
            with keras.StatelessScope(state_mapping=pairs):
                return function(*columns)

        return run if float16 else function

    signatures = {
        signature: tf.function(on_stored(function), autograph=False).get_concrete_function(
            *[tf.TensorSpec((None,), tf.string, name=name) for name in names]
        )
        for signature, (function, names) in pipeline.signatures.items()
    }
    return module, signatures


def _half(variable):
    """A weight of the model as a variable of half the size."""
    if variable.dtype != "float32":
        return variable.value
    largest, most = float(tf.reduce_max(tf.abs(variable.value))), float(tf.float16.max)
    if largest > most:
        raise ValueError(
            f"float16 ends at {most:g}. Received: a weight {variable.path} of {largest:g}. "
            "Export without float16"
        )
    return tf.Variable(tf.cast(variable.value, tf.float16))


def _warm_up_requests(pipeline, signatures, examples):
    """Requests for each signature, at batch sizes 1 and 8."""
    sources = to_bytes(list(examples or [""]))
    targets = signatures["serving_default"](tf.constant(sources))["text"].numpy().tolist()
    for size in (1, 8):
        rows = [i % len(sources) for i in range(size)]
        columns = {pipeline.input_name: [sources[i] for i in rows]}
        columns["target"] = [targets[i] for i in rows]
        for signature, (_, names) in pipeline.signatures.items():
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = signature
            for name in names:
                request.inputs[name].CopyFrom(tf.make_tensor_proto(columns[name]))
            yield request
