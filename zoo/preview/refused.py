HTTP_CODES = {  # of TF Serving's http_server.cc
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
# A gRPC status travels in headers, which hold 8 KB; there a letter may take 12 bytes.
LONGEST, LONGEST_UNLESS_ASCII = 1000, 250


class Refused(Exception):
    """A request is not served; the code is the name of a gRPC status.

    `http_code` is what REST says in its place; it follows from the code unless it is given.
    """

    def __init__(self, code, message, http_code=None):
        message = message.encode("utf-8", "replace").decode("utf-8")  # no halves of surrogates
        longest = LONGEST if message.isascii() else LONGEST_UNLESS_ASCII
        if len(message) > longest:
            message = f"{message[:longest]}..."
        super().__init__(message)
        self.code = code
        self.message = message
        self.http_code = http_code or HTTP_CODES.get(code, 500)


def invalid(message):
    """A request that is wrong in itself."""
    return Refused("INVALID_ARGUMENT", message)
