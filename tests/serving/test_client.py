"""Clients of a real server that speaks TF Serving's protocol, and of one that misbehaves."""

import contextlib
import http.server
import signal
import socket
import subprocess
import threading
import time

import pytest

from tests.serving.tools import tiny_pipeline
from tests.serving.unruly_server import UnrulyServer
from tests.tools import ZOO, run_zoo_here
from zoo.serving import SavedModel, connect, export

KINDS = ("grpc", "http")
TEXTS = ["bad", "deck", "", 'ünknown "quoted"\n', "z" * 300, "日本"]
BROKEN = b"a\xff\xfeb"  # no UTF-8


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_models") / "tiny"
    export(tiny_pipeline(min_length=3), path)
    return path


@pytest.fixture(scope="module")
def running(path):
    server = UnrulyServer(path)
    yield server
    server.grpc.stop(None)


@pytest.fixture
def server(running):
    running.faults, running.requests = [], 0
    return running


def address(server, kind):
    return f"{kind}://127.0.0.1:{server.grpc_port if kind == 'grpc' else server.rest_port}"


def assert_same(answer, expected):
    assert sorted(answer) == sorted(expected)
    for name in expected:
        assert answer[name].dtype == expected[name].dtype, name
        assert answer[name].shape == expected[name].shape, name
        assert answer[name].tolist() == expected[name].tolist(), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_client_answers_as_the_saved_model_does(server, kind):
    model = server.model
    with connect(address(server, kind), "tiny") as client:
        expected = model("serving_default", text=TEXTS)
        assert_same(client.predict(TEXTS), expected)
        assert_same(client("align", text=TEXTS), model("align", text=TEXTS))
        # A signature with two inputs and, which REST does not name, one output.
        pairs = {"text": ["bad", "deck"], "target": ["B AA D", "ʃ"]}
        assert_same(client("score", **pairs), model("score", **pairs))
        assert_same(client.predict([]), model("serving_default", text=[]))
        for name, values in client("align", text=[]).items():
            assert (len(values), values.ndim) == (0, 3 if name == "alignments" else 2)
        assert_same(client.predict([BROKEN]), model("serving_default", text=[BROKEN]))
        assert client.num_results == 3
        assert client.name == model.name == "tiny/1"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [{"version": 1}, {"label": "stable"}], ids=str)
def test_a_version_or_a_label_can_be_named(server, kind, wanted):
    with connect(address(server, kind), "tiny", **wanted) as client:
        assert client.predict(["bad"])["texts"].shape == (1, 3)
    others = {"version": 2} if "version" in wanted else {"label": "canary"}
    with (
        connect(address(server, kind), "tiny", **others) as client,
        pytest.raises(ValueError, match="Servable not found"),
    ):
        client.predict(["bad"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["unavailable", "full", "drop"])
def test_what_is_temporary_is_tried_again(server, kind, fault):
    reports = []
    with connect(address(server, kind), "tiny", report=reports.append) as client:
        server.faults = [fault] * 4
        assert_same(client.predict(["bad"]), server.model("serving_default", text=["bad"]))
        assert not server.faults
        assert len(reports) == 1
        assert reports[0].startswith(address(server, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("fault", "error"), [("invalid", ValueError), ("broken", OSError)])
def test_what_is_wrong_is_told_and_not_tried_again(server, kind, fault, error):
    server.faults = [fault]
    with connect(address(server, kind), "tiny") as client:
        with pytest.raises(error) as raised:
            client.predict(["bad"])
        assert str(raised.value).startswith(f"{address(server, kind)} answered ")
        assert str(raised.value).endswith(f": told to be {fault}")  # its first line
        assert server.requests == 1
        with pytest.raises(ValueError, match="told to be invalid"):
            client("dance", text=["bad"])
    with (
        connect(address(server, kind), "none") as client,
        pytest.raises(ValueError, match="Servable not found"),
    ):
        client.predict(["bad"])


@pytest.mark.parametrize("kind", KINDS)
def test_trying_ends(server, kind):
    began = time.monotonic()
    with connect(address(server, kind), "tiny", retry_for=0.5) as client:
        server.faults = ["unavailable"] * 999
        with pytest.raises(ConnectionError, match="was away or full for 0.5 s: .*told to be una"):
            client.predict(["bad"])
    assert 3 <= server.requests < 100
    with socket.socket() as free:  # bound, but nobody listens
        free.bind(("127.0.0.1", 0))
        place = f"{kind}://127.0.0.1:{free.getsockname()[1]}"
        with (
            connect(place, "tiny", retry_for=0.5) as client,
            pytest.raises(ConnectionError, match=f"{place} was away or full for 0.5 s: .*refused"),
        ):
            client.predict(["bad"])
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_takes_too_long_ends(server, kind):
    server.faults = ["hang"]
    with (
        connect(address(server, kind), "tiny", timeout=0.3) as client,
        pytest.raises(TimeoutError, match="(: took longer than 0.3 s|took too long .here 0.3 s)"),
    ):
        client.predict(["bad"])
    assert server.requests == 1


def test_a_server_that_answers_byte_by_byte_takes_too_long(server):
    """The time of a request is that of all its bytes together."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Trickle) as slow:
        threading.Thread(target=slow.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{slow.server_port}"
        for Trickle.slow in ("head", "body"):
            with (
                connect(place, "tiny", timeout=0.5) as client,
                pytest.raises(TimeoutError, match=f"{place}: took longer than 0.5 s"),
            ):
                client.predict(["bad"])
        slow.shutdown()


class Trickle(http.server.BaseHTTPRequestHandler):
    slow = None

    def do_POST(self):
        answer = {"head": b"HTTP/1.1 200 OK\r\nX: ", "body": b"HTTP/1.1 200 OK\r\n\r\n{"}
        self.wfile.write(answer[self.slow])
        with contextlib.suppress(ConnectionError):  # the client has gone
            for _ in range(30):
                time.sleep(0.1)
                self.wfile.write(b" ")

    def log_message(self, *_): ...


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_cannot_be_reached_in_time_is_not_tried_again(kind):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as line:
        place, waiting = full.getsockname(), True
        while waiting:  # nobody takes the calls: soon one more is not even put into the line
            call = line.enter_context(socket.socket())
            call.settimeout(0.5)
            try:
                call.connect(place)
            except TimeoutError:
                waiting = False
        address = f"{kind}://127.0.0.1:{place[1]}"
        began = time.monotonic()
        with (
            connect(address, "tiny", timeout=0.3, retry_for=100) as client,
            pytest.raises(TimeoutError, match=address),
        ):
            client.predict(["bad"])
        assert time.monotonic() - began < 60


def test_another_kind_of_server_is_told():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hello) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{other.server_port}"
        with (
            connect(place, "tiny") as client,
            pytest.raises(OSError, match=f"{place} answered 200: hello"),
        ):
            client.predict(["bad"])
        other.shutdown()


class Hello(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello\n")


@pytest.mark.parametrize("kind", KINDS)
def test_the_port_of_the_other_protocol_is_told(server, kind):
    other = KINDS[1 - KINDS.index(kind)]
    place = address(server, other).replace(other, kind)
    with (
        connect(place, "tiny", retry_for=100) as client,
        pytest.raises(OSError, match=f"{place} speaks no .*. Is it the port of (REST|gRPC)?"),
    ):
        client.predict(["bad"])


@pytest.mark.parametrize(
    "wrong", ["localhost:8500", "ftp://host", "grpc://", "http://host:port", "http://host/model"]
)
def test_a_wrong_address_is_told(wrong):
    with pytest.raises(ValueError, match=f"Received: {wrong}"):
        connect(wrong, "tiny")


def test_nothing_is_lost_where_a_server_is_killed_and_comes_again(path):
    """`zoo serve`, killed while four clients of each protocol ask it without a pause."""
    ports = []
    for _ in KINDS:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(str(free.getsockname()[1]))
    command = [ZOO, "serve", path, "--grpc-port", ports[0], "--rest-port", ports[1]]

    def start():
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        while not (line := process.stdout.readline()).startswith("page"):
            assert line, "it did not start"
        return process

    model = SavedModel(path)
    words = ["bad", "deck", "ab", "café"]
    expected = {word: model("serving_default", text=[word])["texts"].tolist() for word in words}
    places = [f"{kind}://127.0.0.1:{port}" for kind, port in zip(KINDS, ports, strict=True)] * 4
    reports, answered, wrong, stop = [], [0] * len(places), [], threading.Event()

    def ask(number):
        with connect(places[number], "tiny", retry_for=200, report=reports.append) as client:
            while not stop.is_set():
                word = words[(number + answered[number]) % len(words)]
                try:
                    answer = client.predict([word])["texts"].tolist()
                    if answer != expected[word]:
                        wrong.append((places[number], word, answer))
                except Exception as error:
                    wrong.append((places[number], word, error))
                answered[number] += 1

    def wait_for_more():
        before = list(answered)
        while any(now < then + 5 for now, then in zip(answered, before, strict=True)):
            time.sleep(0.05)

    process = start()
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(places))]
    try:
        for thread in threads:
            thread.start()
        wait_for_more()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = start()
        wait_for_more()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        process.kill()
        process.wait()
    assert not wrong
    # It was away for all of them.
    assert sorted(report.split(": ")[0] for report in reports) == sorted(places)


def test_predict_prints_the_same_from_a_server(server, path, monkeypatch, capsys):
    def run(*arguments):
        return run_zoo_here(monkeypatch, capsys, path.parent, ["predict", *arguments])

    texts = ["bad", "deck", "a\udcffb"]  # the shell's way for bytes that are no text
    servers = [address(server, kind) for kind in KINDS]
    for options in ([], ["--n-best", "2"], ["--json"]):
        here = run("tiny", *texts, *options)
        assert here.returncode == 0
        assert len(here.stdout.splitlines()) >= 3
        for place in servers:
            there = run("tiny/1", *texts, "--server", place, *options)
            assert (there.returncode, there.stdout) == (0, here.stdout)
    for place in servers:
        done = run("tiny", "bad", "--n-best", "9", "--server", place)
        assert done.returncode == 2
        assert "must be 1 to 3" in done.stderr
