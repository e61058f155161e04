import functools
import itertools
import random
import threading
import time
import urllib.parse

from zoo.errors import UsageError
from zoo.serving.grpc_transport import GrpcTransport
from zoo.serving.rest_transport import RestTransport
from zoo.serving.strings import to_bytes
from zoo.serving.transport import Temporary

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds


def connect(server, model, *, version=None, label=None, timeout=60.0, retry_for=60.0, report=None):
    """A client of a model on TF Serving, or on `zoo serve`, which speaks the same protocol.

    Arguments:
        server: str, grpc://HOST:PORT or http://HOST:PORT; the ports are 8500 and 8501 by default.
        model: str, the name under which the server has it.
        version: int, another version than the newest.
        label: str, the version that has this label, such as "canary"; gRPC and REST know it.
        timeout: float, seconds that one attempt may take.
        retry_for: float, seconds for which a request is tried again where a server refuses
            connections, drops them or says that it is full or unavailable. What it rejects, and
            what took too long, is not tried again.
        report: function of a line of text, called when a server begins to be away or full.

    Returns a `Client`. Nothing is sent before its first use.

    Example:

    ```python
    from zoo.serving import connect

    client = connect("grpc://localhost:8500", "pronounce_en")
    # client.predict(["schadenfreude"])["text"] is then array([b"SH AE D AH N F R OY D"])
    ```
    """
    try:
        parts = urllib.parse.urlsplit(server)
        is_server = parts.hostname and parts.netloc and parts.path in ("", "/") and not parts.query
        port = parts.port
    except ValueError:  # a port that is no number, a bracket that is open
        is_server = False
    kinds = {"grpc": (GrpcTransport, 8500), "http": (RestTransport, 8501)}
    if not is_server or parts.scheme not in kinds:
        raise UsageError(
            "A server is grpc://HOST:PORT or http://HOST:PORT, such as grpc://localhost:8500. "
            f"Received: {server}"
        )
    if version is not None and label is not None:
        raise ValueError(
            f"Name a version or a label, not both. Received: version={version}, label={label}"
        )
    kind, default_port = kinds[parts.scheme]
    transport = kind(parts.hostname, port or default_port, model, version, label, timeout)
    return Client(transport, model, retry_for, report)


class Client:
    """A model on a server: its signatures, called as those of a `SavedModel` are.

    `connect` makes one. Threads may share it.

    Call arguments:
        signature: str.
        **columns: lists of strings, one for each input of the signature.

    Returns a dict of numpy arrays, of bytes where they hold strings.
    """

    fingerprint = None  # of the weights, which a server does not tell

    def __init__(self, transport, model, retry_for=60.0, report=None):
        self.transport = transport
        self.server = transport.server
        self.model = model
        self.retry_for = retry_for
        self.report = report or (lambda text: None)
        self._is_away = False
        self._closed = threading.Event()

    def __call__(self, signature, **columns):
        columns = {name: to_bytes(values) for name, values in columns.items()}
        return self._insist(lambda: self.transport.predict(signature, columns))

    def predict(self, texts=None, **columns):
        """The answers to a list of texts: what the signature serving_default gives.

        A model of images takes `image_bytes=`, the contents of files.
        """
        return self("serving_default", **(columns or {"text": texts}))

    @property
    def path(self):
        """Where it is, for messages."""
        return f"{self.model} at {self.server}"

    @property
    def name(self):
        """The model and its version, as the server has it at this moment."""
        return f"{self.model}/{self._insist(self.transport.metadata).version}"

    @functools.cached_property
    def input_name(self):
        """What serving_default takes, "text" or "image_bytes"."""
        signatures = self._insist(self.transport.metadata).signatures
        return next(iter(signatures["serving_default"].inputs), "text")

    @property
    def num_results(self):
        """How many answers to a text there are."""
        signatures = self._insist(self.transport.metadata).signatures
        if "texts" not in signatures["serving_default"].outputs:
            raise ValueError(f"{self.path} is no model of the zoo: it has no output `texts`")
        return signatures["serving_default"].outputs["texts"].tensor_shape.dim[1].size

    def close(self):
        """Ends all connections, and what is under way."""
        self._closed.set()
        self.transport.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _insist(self, request):
        """Does a request, again and again while the server is away or full."""
        deadline = None
        for attempt in itertools.count():
            if attempt and self._closed.is_set():
                raise ConnectionError(f"{self.server}: the client is closed")
            try:
                answer = request()
                self._is_away = False
                return answer
            except Temporary as error:
                deadline = deadline or time.monotonic() + self.retry_for
                # Jitter: clients that were refused together do not come back together.
                pause = random.uniform(0, min(FIRST_PAUSE * 2 ** min(attempt, 9), LONGEST_PAUSE))
                if self._closed.is_set() or time.monotonic() + pause > deadline:
                    raise ConnectionError(
                        f"{self.server} was away or full for {self.retry_for:g} s: {error}"
                    ) from error
                # A line for all threads, and none for a kept connection that had grown too old.
                if attempt and not self._is_away:
                    self._is_away = True
                    self.report(f"{self.server}: {error}. Trying for {self.retry_for:g} s")
            self._closed.wait(pause)
