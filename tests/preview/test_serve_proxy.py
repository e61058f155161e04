"""The page in front of another server: its answers pass, and its failures are told."""

import pathlib
import socket

import pytest

from tests.preview.server import running


@pytest.fixture(scope="module")
def proxy(server):
    with running("--proxy", server.url, "--models", "tiny", "--timeout", 1) as proxy:
        yield proxy


def test_the_protocol_passes(proxy, server):
    body = {"inputs": ["cab", "é"]}
    for path, sent in (
        ("/v1/models/tiny:predict", body),
        ("/v1/models/tiny/versions/1:predict", body),
        ("/v1/models/t%69ny:predict", body),
        ("/v1/models/tiny", None),
        ("/v1/models/tiny/metadata", None),
        ("/v1/models/none", None),
        ("/v1/models/tiny:predict", b"{"),
    ):
        assert proxy.ask(path, sent) == server.ask(path, sent)
    assert proxy.ask("/elsewhere")[0] == 404


def test_it_starts_at_once(proxy):
    """TensorFlow takes seconds and half a gigabyte, and a proxy computes nothing."""
    libraries = pathlib.Path(f"/proc/{proxy.process.pid}/maps").read_text()
    assert "libpython" in libraries or "lib-dynload" in libraries
    assert "tensorflow" not in libraries
    assert proxy.memory() < 150


def test_a_server_that_is_not_there_is_told():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes calls and says nothing
        url = "http://{}:{}".format(*silent.getsockname())
        with running("--proxy", url, "--timeout", 0.5) as proxy:
            code, answer = proxy.ask("/v1/models/x")
            assert (code, answer) == (504, {"error": f"{url} did not answer within 0.5 s"})
            silent.close()
            code, answer = proxy.ask("/v1/models/x")
            assert code == 502
            assert answer["error"].startswith(f"{url} cannot be reached: ")
            assert "zoo: stopped" in proxy.stop()
