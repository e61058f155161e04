import signal
import socket
import sys
import time
from typing import Annotated, Literal

import tyro

from zoo.address import is_address
from zoo.errors import UsageError, first_line
from zoo.startup import ctrl_c_ends


def data_service(
    role: Annotated[Literal["dispatcher", "worker"], tyro.conf.Positional],
    /,
    *,
    port: int = 0,
    dispatcher: str | None = None,
    host: str | None = None,
    folder: str | None = None,
):
    """Makes batches for `zoo train --data-service`: one dispatcher, and workers on any machines.

    Args:
        role: The dispatcher hands out work, workers do it.
        port: Port to listen at; 0 takes a free one.
        dispatcher: HOST:PORT of a worker's dispatcher.
        host: Name under which trainings find a worker; by default this machine's name.
        folder: Where the dispatcher writes down what it does; started again, it goes on there.
    """
    if not 0 <= port <= 65535:
        raise UsageError(f"`--port` must be 0 to 65535. Received: {port}")
    if role == "dispatcher" and (dispatcher or host):
        raise UsageError("`--dispatcher` and `--host` are a worker's; the dispatcher has --port")
    if role == "worker" and (folder or not is_address(dispatcher or "")):
        raise UsageError(
            "A worker needs --dispatcher HOST:PORT, and has no --folder. "
            f"Received: --dispatcher {dispatcher}, --folder {folder}"
        )
    if role == "worker":
        _tell_waiting(dispatcher)
    with ctrl_c_ends():  # a worker waits for its dispatcher, without end
        port, server = _start(role, port, dispatcher, host or socket.gethostname(), folder)
    received = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: received.append(number))
    print(f"{role} at {host or socket.gethostname()}:{port}", flush=True)
    while not received:  # (its own `join` hears no signal)
        time.sleep(0.2)
    del server  # which ends it
    sys.exit(128 + received[0])


def _tell_waiting(dispatcher):
    """Says so where the dispatcher is not there, or not yet."""
    name, _, port = dispatcher.rpartition(":")
    try:
        socket.create_connection((name, int(port)), timeout=10).close()
    except OSError as error:
        reason = error.strerror or error
        print(f"worker waits for a dispatcher at {dispatcher}: {reason}", flush=True)


def _start(role, port, dispatcher, host, folder):
    """The port of a server, and the server."""
    import tensorflow as tf
    import tensorflow.data.experimental as data

    try:
        if role == "dispatcher":
            config = data.service.DispatcherConfig(
                port, work_dir=folder, fault_tolerant_mode=bool(folder)
            )
            server = data.service.DispatchServer(config)
            return server.target.rpartition(":")[2], server
        config = data.service.WorkerConfig(
            dispatcher,
            worker_address=f"{host}:{port or '%port%'}",
            port=port,
            heartbeat_interval_ms=5000,
            dispatcher_timeout_ms=60_000,
        )
        server = data.service.WorkerServer(config)
        return server._address.rpartition(":")[2], server
    except tf.errors.OpError as error:
        raise ValueError(f"The {role} cannot start: {first_line(error)}") from error
    except RuntimeError as error:
        raise ValueError(
            f"The {role} cannot start at port {port}: {first_line(error)}. Choose another "
            "`--port`, or stop what uses it"
        ) from error
