"""Small SavedModels, without faults and for faults to be planted in, and what a check finds."""

import contextlib
import re

import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from zoo.serving import check_saved_model

TEXT = tf.TensorSpec((None,), tf.string, name="text")
WORDS = ["cab", "a", "decade"]


def valid(text):
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")


def good(text):
    """Splits a text into words and counts, without faults."""
    words = tf_text.WhitespaceTokenizer().tokenize(valid(text))
    lengths = tf.strings.length(valid(text), "UTF8_CHAR")
    score = tf.sqrt(tf.cast(lengths, tf.float32))
    return {"text": tf.strings.upper(valid(text)), "words": words.to_tensor(), "score": score}


def save(folder, function, warm_up=(WORDS[:1], WORDS), module=None):
    """A SavedModel with one signature and warm-up requests of so many texts."""
    module = module or tf.Module()
    module.function = tf.function(function, input_signature=[TEXT])
    signatures = {"serving_default": module.function}
    tf.saved_model.save(module, str(folder), signatures=signatures)
    if warm_up:
        write_warm_up(folder, [{"text": texts} for texts in warm_up])
    return folder


def write_warm_up(folder, requests, signature="serving_default"):
    (folder / "assets.extra").mkdir(exist_ok=True)
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    with tf.io.TFRecordWriter(str(file)) as writer:
        for columns in requests:
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = signature
            for name, values in columns.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(values))
            writer.write(log.SerializeToString())


@contextlib.contextmanager
def edited(folder):
    """The graph of a SavedModel, written back."""
    file = folder / "saved_model.pb"
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    yield saved.meta_graphs[0]
    file.write_bytes(saved.SerializeToString())


def faults(folder, **kwargs):
    """The findings of a check: [(group, text)]."""
    lines = list(check_saved_model(folder, **kwargs))
    found = [(line.group, line.text) for line in lines if not line.is_good]
    assert all("\n" not in text for _, text in found)
    return found


def assert_only(found, group, *patterns):
    """What was planted is found, and nothing else is."""
    assert [name for name, _ in found] == [group] * len(patterns), found
    for (_, text), pattern in zip(found, patterns, strict=True):
        assert re.search(pattern, text), text
