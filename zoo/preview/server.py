import asyncio
import contextlib
import os
import signal
import sys

import uvicorn

from zoo.address import address
from zoo.preview.ports import bind, unavailable, url_of
from zoo.preview.proxy import make_proxy_app

MOST_CONNECTIONS = 512  # each may hold a request that has not entered the queue yet


def serve_models(paths, limits, queue, host, rest_port, grpc_port):
    """Serves SavedModels by REST and gRPC, and the page, until a signal ends it.

    Arguments:
        paths: SavedModels, or versions of them.
        limits: tuple, the fields of `Limits`.
        queue: tuple, the arguments of `WorkQueue`.
        host, rest_port, grpc_port: where to listen.
    """
    # Here, since a proxy has no models.
    from zoo.preview.grpc_services import make_grpc_server
    from zoo.preview.models import Limits, Models
    from zoo.preview.rest import make_app
    from zoo.preview.work_queue import WorkQueue
    from zoo.training.trainer import use_all_cores

    async def main():
        work_queue, served = WorkQueue(*queue), Models()
        # Nobody is listened to before every model answers, as in TF Serving's server.cc. The ports
        # are taken all the same: that one of them is not to be had is told before loading.
        with (
            bind(host, rest_port, "--rest-port") as rest_socket,
            bind(host, grpc_port, "--grpc-port") as grpc_socket,
        ):
            served.load(paths, Limits(*limits))
            port = grpc_socket.getsockname()[1]
            grpc_socket.close()  # gRPC makes its own
            grpc_server = make_grpc_server(
                served, work_queue, address(host, port), Limits(*limits).request_bytes
            )
            app = make_app(served, work_queue, Limits(*limits).request_bytes)
            url = url_of(host, rest_socket)
            ready = [f"{url}/v1/models/{name}:predict" for name in served.versions]
            ready = ["REST  " + line for line in ready]
            ready += [f"gRPC  {address(host, port)}", f"page  {url}/"]
            await run(app, rest_socket, grpc_server, ready, lambda: work_queue.count)

    use_all_cores()
    asyncio.run(main())


def serve_proxy(upstream, names, host, rest_port, request_bytes, timeout):
    """Serves the page in front of another server's REST, until a signal ends it."""

    async def main():
        with bind(host, rest_port, "--rest-port") as rest_socket:
            app = make_proxy_app(upstream, names, request_bytes, timeout)
            ready = [f"page  {url_of(host, rest_socket)}/  in front of {upstream}"]
            await run(app, rest_socket, None, ready)

    asyncio.run(main())


class _Rest(uvicorn.Server):
    """Uvicorn that leaves the signals to `run`, which has two servers to end."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


async def run(app, rest_socket, grpc_server, ready, count=lambda: 0):
    """Serves until SIGTERM or SIGINT, then finishes what was accepted; a second signal ends it.

    Arguments:
        app: ASGI application, for `rest_socket`.
        rest_socket: a bound socket.
        grpc_server: of grpc.aio, with its port; or None.
        ready: lines to print when both listen.
        count: how many requests are waiting or computed.
    """
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
    )
    rest = _Rest(config)
    ended = asyncio.Event()

    def end():
        if ended.is_set():  # whoever asks twice does not want to wait
            print(f"zoo: stopped, {count()} requests are not answered", file=sys.stderr, flush=True)
            os._exit(1)
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    if grpc_server is not None:
        await grpc_server.start()
    serving = asyncio.create_task(rest.serve(sockets=[rest_socket]))
    while not rest.started and not serving.done():
        await asyncio.sleep(0.01)
    if serving.done():  # it cannot listen: another process was quicker
        try:
            await serving
        except OSError as error:
            place = address(*rest_socket.getsockname()[:2])
            raise unavailable(place, "--rest-port", error.strerror) from error
    print("\n".join(ready), flush=True)
    await ended.wait()
    print(f"zoo: stopping, after {count()} more answers", file=sys.stderr, flush=True)
    rest.should_exit = True
    endings = [serving] if grpc_server is None else [serving, grpc_server.stop(grace=600)]
    await asyncio.gather(*endings)
    print("zoo: stopped", file=sys.stderr)
