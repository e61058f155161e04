import os
import urllib.parse
from typing import Annotated

import tyro

from zoo.errors import UsageError
from zoo.startup import load_library


def serve(
    saved_models: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SAVED_MODEL")
    ] = (),
    /,
    *,
    host: str = "127.0.0.1",
    rest_port: int = 8501,
    grpc_port: int = 8500,
    proxy: str | None = None,
    models: tuple[str, ...] = (),
    workers: int = 2,
    queue: int = 64,
    timeout: float = 30.0,
    max_request_bytes: int = 4 * 2**20,
    max_text_bytes: int = 20_000,
    max_batch: int = 256,
):
    """Serves models as TF Serving would, for development, with a page to try them.

    Args:
        saved_models: saved_models/NAME, or versions' folders.
        host: Address to listen at; 0.0.0.0 is all of them, for others to use.
        rest_port: Port of REST and of the page; 0 takes a free one.
        grpc_port: Port of gRPC; 0 takes a free one.
        proxy: URL of a running TF Serving's REST; serves the page alone, in front of it.
        models: With --proxy, the names of its models, which TF Serving does not tell.
        workers: Requests computed at a time.
        queue: Requests that may wait; more are refused (429, RESOURCE_EXHAUSTED).
        timeout: Seconds after which a request is given up (504, DEADLINE_EXCEEDED).
        max_request_bytes: Size of a request (413, RESOURCE_EXHAUSTED).
        max_text_bytes: Size of a text in a request, but not of a file (400, INVALID_ARGUMENT).
        max_batch: Texts in a request (400, INVALID_ARGUMENT).
    """
    sizes = {
        "workers": workers,
        "queue": queue + 1,  # none may wait
        "timeout": timeout,
        "max_request_bytes": max_request_bytes,
        "max_text_bytes": max_text_bytes,
        "max_batch": max_batch,
    }
    for name, value in sizes.items():
        if not value > 0:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"`{option}` must be positive. Received: {value - (name == 'queue')}")
    for option, port in (("--rest-port", rest_port), ("--grpc-port", grpc_port)):
        if not 0 <= port <= 65535:
            raise UsageError(f"`{option}` must be 0 to 65535. Received: {port}")
    if rest_port == grpc_port != 0:
        raise UsageError(
            f"`--rest-port` and `--grpc-port` must be two ports. Received: {rest_port} for both"
        )
    if bool(saved_models) == bool(proxy):
        raise UsageError(
            "`zoo serve` needs SavedModels, or --proxy and a server's URL, and not both. "
            f"Received: {len(saved_models)} SavedModels, --proxy {proxy}"
        )
    upstream = _address(proxy) if proxy else None
    if proxy and not upstream:
        raise UsageError(f"`--proxy` must be like http://localhost:8501. Received: {proxy}")
    if upstream in [(name, rest_port) for name in ("localhost", "127.0.0.1", "::1", host)]:
        raise UsageError(
            f"`--proxy` must be another server than this one. Received: {proxy}, which will be the "
            "page itself. Name another `--rest-port`"
        )
    if models and not proxy:
        raise UsageError("`--models` names the models of a --proxy; SavedModels have their names")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from zoo.preview.server import serve_models, serve_proxy
    except ModuleNotFoundError as error:
        raise ValueError(
            f"`zoo serve` needs {error.name}: pip install 'keras-zoo[serve]', or "
            "pip install -e '.[serve]' in a checkout"
        ) from error
    if proxy:
        serve_proxy(proxy.rstrip("/"), models, host, rest_port, max_request_bytes, timeout)
    else:
        limits = (max_request_bytes, max_text_bytes, max_batch)
        line = (workers, queue, timeout)
        load_library()
        serve_models(saved_models, limits, line, host, rest_port, grpc_port)


def _address(url):
    """The host and the port of a server's URL, or None if it is none."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        return None
    return (parts.hostname, port) if parts.hostname else None
