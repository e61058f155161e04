import json
import pathlib

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops of tokenizers

from zoo.serving.pipeline import Pipeline

ABOUT = "zoo.json"
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
    return sorted(int(f.parent.name) for f in folders if f.parent.name.isdigit())


def read_about(path):
    """What zoo.json says of a SavedModel: recipe, config, data, scores, pipeline."""
    file = find_version(path) / ABOUT
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged: {error}") from error


class SavedModel:
    """A SavedModel as TF Serving runs it: its signatures, and nothing of Keras.

    Arguments:
        path: saved_models/NAME, which means its newest version, or a version's folder.

    Example:

    ```py
    model = SavedModel("saved_models/pronounce_en")
    print(model("serving_default", text=["schadenfreude"])["text"][0].numpy().decode())
    ```
    """

    def __init__(self, path):
        self.path = find_version(path)
        try:
            self.loaded = tf.saved_model.load(str(self.path))
        except DAMAGE as error:
            reason = str(error).splitlines()[0]
            raise ValueError(f"{self.path} cannot be loaded: {reason}") from error
        self.about = read_about(self.path)

    def __call__(self, signature, batch_size=64, **columns):
        """Runs a signature on lists of strings, a batch at a time; yields dicts of numpy arrays."""
        function = self.loaded.signatures[signature]
        rows = len(next(iter(columns.values())))
        for i in range(0, rows, batch_size):
            batch = {k: tf.constant(v[i : i + batch_size], tf.string) for k, v in columns.items()}
            yield {name: tensor.numpy() for name, tensor in function(**batch).items()}


def load(path):
    """The Keras side of a SavedModel: a `Pipeline`, its weights read from the SavedModel itself.

    Arguments:
        path: saved_models/NAME, which means its newest version, or a version's folder.

    Example:

    ```py
    import zoo

    pipeline = zoo.load("saved_models/pronounce_en")
    pipeline.model.summary()
    print(pipeline(["schadenfreude"], beam_width=10)["texts"])
    ```
    """
    path = find_version(path)
    pipeline = Pipeline.from_config(read_about(path)["pipeline"])
    try:
        reader = tf.train.load_checkpoint(str(path / "variables" / "variables"))
        for i, variable in enumerate(pipeline.model.weights):
            variable.assign(reader.get_tensor(f"weights/{i}/.ATTRIBUTES/VARIABLE_VALUE"))
    except DAMAGE as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} has damaged or other variables: {reason}") from error
    return pipeline
