import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2

from zoo.errors import first_line
from zoo.serving.check.requests import strings

SCRIPT = pathlib.Path(__file__).parent / "session.py"
ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


class Failure(Exception):
    """What was asked of the process failed; the message says in a line how."""


class Process:
    """session.py in a process of its own, which may fail, hang or crash.

    It is started where there is none, also after it has crashed or was stopped because it hung.

    Arguments:
        folder: path, the version that it loads.
        python: path of the Python whose tensorflow it loads with.
        timeout: float, the seconds in which it has to answer.
    """

    def __init__(self, folder, python=None, timeout=120.0):
        self.folder = folder
        self.python = python or sys.executable
        self.timeout = timeout
        self.tensorflow = None  # its version, once started
        self._child = None
        self._is_loaded = False

    def ops(self):
        """The names of all ops that are registered."""
        registered = op_def_pb2.OpList.FromString(self._call("ops"))
        return {op.name for op in registered.op}

    def load(self):
        """Loads the SavedModel."""
        self._call("load", str(self.folder))
        self._is_loaded = True

    def run(self, feeds, fetches):
        """Runs the graph.

        Arguments:
            feeds: dict of tensor name to array; strings are arrays of bytes objects.
            fetches: list of tensor names.

        Returns an array for each of fetches.
        """
        if not self._is_loaded:
            self.load()
        feeds = {name: _to_wire(array) for name, array in feeds.items()}
        return [_from_wire(*tensor) for tensor in self._call("run", feeds, fetches)]

    @property
    def pid(self):
        """The number of the process, or None."""
        return self._child.pid if self._child else None

    def close(self):
        """Ends the process."""
        if self._child:
            self._connection.close()
            self._child.kill()
            self._child.wait()
            self._stderr.close()
            self._child, self._is_loaded = None, False

    def _start(self):
        ours, theirs = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        try:
            self._child = subprocess.Popen(
                [self.python, str(SCRIPT), str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                stdout=self._stderr, stderr=self._stderr, env={**os.environ, **ENVIRONMENT},
            )  # fmt: skip
        finally:
            theirs.close()
        self._connection = Connection(ours.detach())
        self.tensorflow = self._answer()

    def _call(self, name, *arguments):
        if not self._child:
            self._start()
        with contextlib.suppress(OSError):  # it has died meanwhile; `_answer` tells how
            self._connection.send((name, arguments))
        return self._answer()

    def _answer(self):
        try:
            if not self._connection.poll(self.timeout):
                self.close()
                raise Failure(f"no answer within {self.timeout:g} s")
            is_well, value = self._connection.recv()
        except (EOFError, OSError) as error:
            raise Failure(self._last_words()) from error
        if not is_well:
            raise Failure(one_line(value))
        return value

    def _last_words(self):
        """How the process ended, and closes it."""
        code = self._child.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._stderr.seek(0)
        lines = self._stderr.read().decode("utf-8", "replace").splitlines()
        fatal = [line for line in lines if "Check failed" in line or "Error" in line] or lines
        self.close()
        return f"the process crashed ({how}){': ' + one_line(fatal[-1]) if fatal else ''}"


def one_line(message, length=300):
    """The first line of TensorFlow's message, of limited length."""
    line = first_line(message)
    return line if len(line) <= length else line[:length] + " ..."


def _to_wire(array):
    if array.dtype == object:
        return tf.string.as_datatype_enum, array.shape, array.ravel().tolist()
    return tf.as_dtype(array.dtype).as_datatype_enum, array.shape, array.tobytes()


def _from_wire(dtype, shape, data):
    if dtype == tf.string.as_datatype_enum:
        return strings(data).reshape(shape)
    return np.frombuffer(data, tf.as_dtype(dtype).as_numpy_dtype).reshape(shape)
