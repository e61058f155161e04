import socket

from zoo.address import address


def bind(host, port, option):
    """A socket that does not listen yet: who calls before the start is refused."""
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"`--host` must be an address of this machine: {host}: {reason}") from error
    try:
        bound = socket.socket(family, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
    except OSError as error:
        raise unavailable(f"{host}:{port}", option, error.strerror) from error
    return bound


def unavailable(place, option, reason):
    """The error that a port is not to be had."""
    return OSError(
        f"{place} cannot be served: {reason}. Choose another `{option}`, or stop what uses it"
    )


def url_of(host, bound):
    """The address of a bound socket for a browser."""
    return f"http://{address(host, bound.getsockname()[1])}"
