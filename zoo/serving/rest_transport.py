import base64
import contextlib
import http.client
import json
import math
import socket
import threading
import time
import urllib.parse
import weakref

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2

from zoo.address import address
from zoo.errors import first_line
from zoo.serving.strings import to_bytes
from zoo.serving.transport import Metadata, Temporary

# Too many requests; a proxy whose server is away; unavailable.
TEMPORARY = (429, 502, 503)


class RestTransport:
    """Requests by HTTP, in columns ("inputs" to "outputs"); each thread keeps its connection."""

    def __init__(self, host, port, model, version, label, timeout):
        self.host, self.port, self.timeout = host, port, timeout
        self.server = f"http://{address(host, port)}"
        self.resource = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self.resource += f"/versions/{version}"
        if label is not None:
            self.resource += f"/labels/{urllib.parse.quote(label, safe='')}"
        self._local = threading.local()
        self._connections = weakref.WeakSet()  # a thread's ends with it
        self._outputs = {}

    def predict(self, signature, columns):
        """The outputs of a signature: lists of bytes to numpy arrays, by name."""
        # What is a file goes as TF Serving gives files back.
        inputs = {
            name: list(map(_to_b64 if name.endswith("_bytes") else _to_json, values))
            for name, values in columns.items()
        }
        body = json.dumps({"signature_name": signature, "inputs": inputs}, ensure_ascii=False)
        answer = self._request("outputs", "POST", f"{self.resource}:predict", body.encode())
        answer = answer["outputs"]
        # JSON tells neither types nor what is in an empty list, and a single output has no name.
        if signature not in self._outputs:
            self._outputs[signature] = self.metadata().signatures[signature].outputs
        outputs = self._outputs[signature]
        if len(outputs) == 1:
            answer = {next(iter(outputs)): answer}
        return {name: _to_array(values, outputs[name]) for name, values in answer.items()}

    def metadata(self):
        """What the server says of the model."""
        answer = self._request("metadata", "GET", f"{self.resource}/metadata")
        signatures = json_format.ParseDict(
            answer["metadata"]["signature_def"],
            get_model_metadata_pb2.SignatureDefMap(),
            ignore_unknown_fields=True,
        )
        return Metadata(str(answer["model_spec"]["version"]), signatures.signature_def)

    def close(self):
        """Ends the connections, and what is under way on them."""
        for connection in list(self._connections):
            if connection.sock is not None:
                with contextlib.suppress(OSError):  # which closing alone leaves waiting
                    connection.sock.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _request(self, wanted, method, path, body=None):
        """The JSON that a server answers, in which something is wanted."""
        status, text = self._send(method, path, body)
        try:
            # Bytes that are no UTF-8 come as they are.
            answer = json.loads(text.decode("utf-8", "surrogateescape"))
        except ValueError:
            answer = None
        answer = answer if isinstance(answer, dict) else {}
        if status == 200 and wanted in answer:
            return answer
        said = answer.get("error") or text.decode("utf-8", "replace")
        reason = f"{status}: {first_line(said)[:500]}"
        if status in TEMPORARY:
            raise Temporary(reason)
        if status == 504:  # its own limit, which may be less than ours
            raise TimeoutError(f"{self.server} answered {reason}. Send fewer texts at a time")
        kind = ValueError if 400 <= status < 500 else OSError
        raise kind(f"{self.server} answered {reason}")

    def _send(self, method, path, body):
        """The status and the bytes of an answer."""
        connection = self._connection()
        connection.ends = time.monotonic() + self.timeout
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError as error:
            connection.close()
            reason = (
                error.strerror or f"took longer than {self.timeout:g} s"
            )  # the system's, or ours
            raise TimeoutError(f"{self.server}: {reason}") from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            is_dropped = isinstance(error, OSError)  # it stopped, perhaps
            if isinstance(error, http.client.BadStatusLine) and not is_dropped:
                raise OSError(f"{self.server} speaks no HTTP. Is it the port of gRPC?") from error
            reason = (is_dropped and error.strerror) or str(error) or type(error).__name__
            raise Temporary(reason) from error

    def _connection(self):
        """This thread's connection."""
        if not hasattr(self._local, "connection"):
            self._local.connection = Connection(self.host, self.port)
            self._connections.add(self._local.connection)
        return self._local.connection


class Connection(http.client.HTTPConnection):
    """A connection whose requests end at the time `ends`, from connecting to the last byte."""

    ends = math.inf

    def connect(self):
        """Tries the host's addresses, one after the other."""
        places = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for i, (*kind, _, place) in enumerate(places, 1):
            self.sock = _Socket(self, *kind)
            try:
                self.sock.connect(place)
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return
            except OSError:
                self.close()
                if i == len(places):
                    raise


class _Socket(socket.socket):
    """Its operations share the time of a request; the time-out of a socket is each one's own."""

    def __init__(self, connection, *kind):
        super().__init__(*kind)
        self._connection = connection

    def connect(self, place):
        self._limit()
        super().connect(place)

    def sendall(self, *arguments):
        self._limit()
        super().sendall(*arguments)

    def recv_into(self, *arguments):
        self._limit()
        return super().recv_into(*arguments)

    def _limit(self):
        left = self._connection.ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)


def _to_json(value):
    """A string as TF Serving's JSON has it: as it is, or where it is no UTF-8 in base64."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return _to_b64(value)


def _to_b64(value):
    return {"b64": base64.b64encode(value).decode("ascii")}


def _from_json(value):
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else to_bytes([value])[0]


def _to_array(values, about):
    """Nested lists as the array of the type and the rank that the signature tells."""
    dtype = tf.as_dtype(about.dtype)
    is_string = dtype == tf.string
    array = np.array(values, object if is_string else dtype.as_numpy_dtype)
    if array.size == 0:
        array = array.reshape(
            *array.shape, *(max(dim.size, 0) for dim in about.tensor_shape.dim[array.ndim :])
        )
    return np.frompyfunc(_from_json, 1, 1)(array) if is_string else array
