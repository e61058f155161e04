"""The process in which `zoo check` loads a SavedModel, alone."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.serving.planted import edited, save
from zoo.serving.check.process import Failure, Process


def test_tensors_of_all_kinds_come_back_as_they_were_sent(tmp_path):
    module = tf.Module()
    specs = {
        "strings": tf.TensorSpec((None, None), tf.string, name="strings"),
        "longs": tf.TensorSpec((None,), tf.int64, name="longs"),
        "floats": tf.TensorSpec((None, None), tf.float32, name="floats"),
        "bools": tf.TensorSpec((), tf.bool, name="bools"),
        "halves": tf.TensorSpec((None,), tf.bfloat16, name="halves"),
    }
    function = tf.function(lambda **x: {name: tf.identity(v) for name, v in x.items()})
    module.function = function.get_concrete_function(**specs)
    tf.saved_model.save(module, str(tmp_path / "1"), signatures=module.function)
    saved = saved_model_pb2.SavedModel.FromString((tmp_path / "1/saved_model.pb").read_bytes())
    signature = saved.meta_graphs[0].signature_def["serving_default"]
    values = {
        "strings": np.array([[b"", b"a\x00"], [b"x" * 100_000, b"\xff" * 23]], object),
        "longs": np.array([2**62, -1]),
        "floats": np.zeros((0, 3), "float32"),
        "bools": np.array(True),
        "halves": np.array([1.5, -2.0], tf.bfloat16.as_numpy_dtype),
    }
    process = Process(tmp_path / "1")
    feeds = {signature.inputs[name].name: value for name, value in values.items()}
    names = [signature.outputs[name].name for name in values]
    for (name, sent), came in zip(values.items(), process.run(feeds, names), strict=True):
        assert came.shape == sent.shape, name
        assert came.dtype == sent.dtype, name
        assert came.tolist() == sent.tolist(), name
    process.close()


def test_a_hang_and_a_crash_are_findings_and_the_process_goes_on(tmp_path):
    def hang(text):
        is_fatal = tf.reduce_any(text == "hang")
        return {"text": tf.while_loop(lambda _: is_fatal, lambda x: (x,), (text,))[0]}

    with edited(save(tmp_path / "1", hang)) as graph:
        signature = graph.signature_def["serving_default"]
    process = Process(tmp_path / "1")

    def ask(text):
        feeds = {signature.inputs["text"].name: np.array([text], object)}
        return process.run(feeds, [signature.outputs["text"].name])[0].tolist()

    assert ask(b"a") == [b"a"]
    process.timeout = 1.0
    with pytest.raises(Failure, match="no answer within 1 s"):
        ask(b"hang")
    process.timeout = 120.0
    assert ask(b"b") == [b"b"]
    os.kill(process.pid, signal.SIGSEGV)
    with pytest.raises(Failure, match=r"the process crashed \(SIGSEGV\)"):
        ask(b"c")
    assert ask(b"d") == [b"d"]
    process.close()
