"""`zoo serve` in a process of its own, and what its clients send."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

import httpx2
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from tests.tools import ZOO


class Server:
    """A running `zoo serve`: its process, and where it listens."""

    def __init__(self, *arguments, **kwargs):
        command = [ZOO, "serve", *map(str, arguments), "--rest-port", "0"]
        if "--proxy" not in arguments:
            command += ["--grpc-port", "0"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.client = httpx2.Client(timeout=120, verify=False)  # certificates take long to read
        self.process = subprocess.Popen(command, **pipes, **kwargs)
        self.ready = ""
        while "page" not in self.ready:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            self.ready += line
        self.url = re.search(r"page  (\S+)/", self.ready)[1]
        found = re.search(r"gRPC  (\S+)", self.ready)
        self.grpc = found and found[1]

    def ask(self, path, body=None, **options):
        """(HTTP code, answer): GET, or POST of a body, as bytes or to be made JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        method = options.pop("method", "GET" if body is None else "POST")
        answer = self.client.request(method, self.url + path, content=body, **options)
        return answer.status_code, answer.json()

    def memory(self):
        """Resident megabytes."""
        with open(f"/proc/{self.process.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def stop(self, number=signal.SIGTERM):
        """Ends it as a user would; gives what it wrote to stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return errors


@contextlib.contextmanager
def running(*arguments, **kwargs):
    """A server for the time of a block."""
    server = Server(*arguments, **kwargs)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def predict_request(name, signature="", version=None, **columns):
    """A PredictRequest; a column is a list of strings or a TensorProto."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for key, values in columns.items():
        is_list = isinstance(values, list)
        request.inputs[key].CopyFrom(
            tf.make_tensor_proto(values, tf.string, [len(values)]) if is_list else values
        )
    return request


DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "serving.md"


def is_documented(message, code):
    """Whether the table of errors has a line with this message and this code."""
    table = DOCUMENT.read_text(encoding="utf-8").split("## Errors")[1].split("\n## ")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 7 and cells[4].startswith("`"):
            parts = map(re.escape, cells[4].strip("`").split("…"))
            if code in cells[1:3] and re.fullmatch(".*".join(parts), message, re.S):
                return True
    return False
