"""The server from its start to its end: what it refuses, what it finishes, what it says."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import pytest
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.preview.load import load
from tests.preview.server import is_documented, predict_request, running
from tests.tools import ZOO
from zoo.cli import main
from zoo.preview.refused import Refused
from zoo.preview.work_queue import WorkQueue


def slow_request(server, body):
    """A POST whose body has not arrived, which the server has begun to read."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(
        b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n"
        + b"Content-Length: %d\r\n\r\n" % len(body)
    )
    assert connection.recv(100).startswith(b"HTTP/1.1 100")
    return connection


def wait_until_refused(address):
    """Until a server takes no new connections."""
    for _ in range(600):
        try:
            socket.create_connection(address, timeout=10).close()
        except OSError:
            return
        time.sleep(0.1)
    pytest.fail("the server takes connections while it stops")


def test_what_was_accepted_is_answered_before_the_end(tiny):
    body = json.dumps({"inputs": ["cab"]}).encode()
    with running(tiny) as server, grpc.insecure_channel(server.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        rest = slow_request(server, body)
        request = predict_request("tiny", "align", text=["fabled facade decade"] * 256)
        calls = [stub.Predict.future(request, 120) for _ in range(6)]
        calls[0].result()  # they come on one connection, one after the other
        server.process.send_signal(signal.SIGTERM)
        wait_until_refused(rest.getpeername())
        rest.sendall(body)
        with rest.makefile("rb") as answer:
            assert b'"outputs"' in answer.read()
        for call in calls:
            assert call.result().outputs["target_tokens"].tensor_shape.dim[0].size == 256
        _, errors = server.process.communicate(timeout=60)
    assert server.process.returncode == 0
    assert "zoo: stopping, after " in errors
    assert errors.splitlines()[-1] == "zoo: stopped"


def test_a_second_signal_ends_it_at_once():
    with running("--proxy", "http://127.0.0.1:1") as server:
        connection = slow_request(server, b"{}")  # whose body never comes
        server.process.send_signal(signal.SIGINT)
        wait_until_refused(connection.getpeername())
        assert server.process.poll() is None
        assert "zoo: stopped, 0 requests are not answered" in server.stop(signal.SIGINT)
    assert server.process.returncode == 1


def test_more_connections_than_it_holds_are_turned_away():
    """Each may hold half a request; who comes later is told, and may come again."""
    with running("--proxy", "http://127.0.0.1:1") as server, contextlib.ExitStack() as stack:
        place = server.url.removeprefix("http://").split(":")
        for _ in range(512):
            stack.enter_context(socket.create_connection(place, timeout=60))
        answer = server.client.get(f"{server.url}/")
        assert (answer.status_code, answer.text) == (503, "Service Unavailable")
        assert is_documented(answer.text, "503")
        stack.close()
        deadline = time.monotonic() + 60
        while server.client.get(f"{server.url}/").status_code == 503:
            assert time.monotonic() < deadline
            time.sleep(0.01)  # until it has heard that the others are gone


def test_beyond_the_queue_requests_are_refused():
    async def check():
        queue, go = WorkQueue(workers=2, waiting=1, timeout=60), threading.Event()
        accepted = [asyncio.create_task(queue.run(go.wait)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(
            Refused, match="The queue is full: 2 requests are computed, 1 wait"
        ) as e:
            await queue.run(go.wait)
        assert (e.value.code, e.value.http_code) == ("RESOURCE_EXHAUSTED", 429)
        go.set()
        assert await asyncio.gather(*accepted) == [True] * 3
        assert await queue.run(str, 7) == "7"

    asyncio.run(check())


def test_after_the_time_out_a_request_is_given_up():
    async def check():
        queue, go, done = WorkQueue(workers=1, waiting=1, timeout=0.05), threading.Event(), []
        first = asyncio.create_task(queue.run(go.wait))
        await asyncio.sleep(0)
        for task in (first, queue.run(done.append, 1)):
            with pytest.raises(Refused, match="No answer within 0.05 s") as error:
                await task
            assert (error.value.code, error.value.http_code) == ("DEADLINE_EXCEEDED", 504)
        assert queue.count == 1  # one is computed, one has left the line
        go.set()
        while queue.count:
            await asyncio.sleep(0.001)
        assert await queue.run(str, 7) == "7"
        assert done == []

    asyncio.run(check())


def test_under_load_each_client_has_its_own_answers(tiny):
    """32 clients before a short line: announced back-pressure, and no error but that."""
    with running(tiny, "--workers", 2, "--queue", 8) as server:
        report = load(server, "tiny", clients=32, seconds=6)
    assert report["errors"] == []
    assert report["answers"] > 10  # thousands on a machine that does nothing else
    assert report["refused"] > 0


def run_here(monkeypatch, capsys, arguments):
    monkeypatch.setattr(sys, "argv", ["zoo", "serve", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    return subprocess.CompletedProcess(arguments, stop.value.code, *capsys.readouterr())


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_nobody_is_listened_to_before_the_models_answer(tiny, tmp_path):
    folder = shutil.copytree(tiny / "1", tmp_path / "slow" / "1")
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    file.unlink()
    os.mkfifo(file)  # whose reader waits for a writer
    ports = free_port(), free_port()
    arguments = [ZOO, "serve", folder, "--rest-port", ports[0], "--grpc-port", ports[1]]
    process = subprocess.Popen(list(map(str, arguments)), stderr=subprocess.PIPE, text=True)
    try:
        while True:
            try:
                writer = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
                break
            except OSError:  # it has no reader yet
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.01)
        process.send_signal(signal.SIGSTOP)  # who listens is called all the same
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=10)
        os.close(writer)
    finally:
        process.kill()
        process.communicate()


def test_a_warm_up_that_fails_is_told(tiny, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(tiny / "1", tmp_path / "broken" / "1")
    file = folder / "assets.extra" / "tf_serving_warmup_requests"
    file.write_bytes(file.read_bytes()[:-3])
    done = run_here(monkeypatch, capsys, [folder, "--rest-port", 0, "--grpc-port", 0])
    assert done.returncode == 1
    assert f"{file}: a warm-up request cannot be answered" in done.stderr
    assert done.stderr.count("\n") == 1


MISTAKES = {
    "nothing": ([], 2, "`zoo serve` needs SavedModels, or --proxy"),
    "both": (["MODEL", "--proxy", "http://x"], 2, "and not both"),
    "no URL": (["--proxy", "localhost:8501"], 2, "must be like http://localhost:8501"),
    "no port of a URL": (["--proxy", "http://x:y"], 2, "must be like http://localhost:8501"),
    "itself": (["--proxy", "http://localhost:8501"], 2, "must be another server than this one"),
    "names": (["MODEL", "--models", "tiny"], 2, "`--models` names the models of a --proxy"),
    "no model": (["saved_models/none", "--rest-port", 0, "--grpc-port", 0], 1, "is no SavedModel"),
    "twice": (
        ["MODEL", "MODEL", "--rest-port", 0, "--grpc-port", 0],
        2,
        "needs models of different names or versions",
    ),
    "REST port": (
        ["MODEL", "--rest-port", "TAKEN", "--grpc-port", 0],
        1,
        "cannot be served: Address already in use. Choose another `--rest-port`",
    ),
    "gRPC port": (
        ["MODEL", "--rest-port", 0, "--grpc-port", "TAKEN"],
        1,
        "Choose another `--grpc-port`, or stop what uses it",
    ),
    "no port": (["MODEL", "--rest-port", 70000], 2, "`--rest-port` must be 0 to 65535"),
    "no host": (["MODEL", "--host", "8.8.8.8"], 1, "8.8.8.8:8501 cannot be served: Cannot assign"),
    "one port": (["MODEL", "--rest-port", 8500], 2, "must be two ports. Received: 8500 for both"),
    "workers": (["MODEL", "--workers", 0], 2, "`--workers` must be positive. Received: 0"),
    "queue": (["MODEL", "--queue", -1], 2, "`--queue` must be"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_a_line(mistake, tiny, monkeypatch, capsys):
    arguments, code, message = MISTAKES[mistake]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        values = {"MODEL": tiny, "TAKEN": taken.getsockname()[1]}
        done = run_here(monkeypatch, capsys, [values.get(x, x) for x in arguments])
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("zoo: ")
    assert done.stderr.count("\n") == 1


def test_without_the_extra_it_says_what_to_install(tiny, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "zoo.preview.server", raising=False)
    done = run_here(monkeypatch, capsys, [tiny])
    assert done.returncode == 1
    assert "`zoo serve` needs uvicorn: pip install 'keras-zoo[serve]'" in done.stderr
    assert done.stderr.count("\n") == 1
