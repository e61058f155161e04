"""Attention-based sequence-to-sequence models for Keras 3 and TensorFlow."""

from zoo.startup import is_command

if not is_command():  # which loads it where it needs it: TensorFlow takes seconds to start
    from zoo.library import *  # noqa: F403

__version__ = "0.1.0"


def load(path):
    """The Keras side of a SavedModel, its weights read from the SavedModel itself.

    Arguments:
        path: saved_models/NAME, which means its newest version, or a version's folder.

    Returns a `zoo.serving.Pipeline`: `pipeline.model`, `pipeline.source_tokenizer`,
    `pipeline.target_tokenizer`, and `pipeline(["text"], beam_width=10)`.
    """
    from zoo.serving import load  # here, because it speaks of TensorFlow on any backend

    return load(path)
