"""What a server of models and a proxy before one have in common; no TensorFlow in here."""

import asyncio
import json
import re

from starlette.responses import Response

from zoo.preview.refused import Refused

# Of TF Serving's http_rest_api_util.cc.
VERSION = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
PREDICT = re.compile(
    rf"/v1/models/(?P<name>[^/:]+){VERSION}:(?P<method>classify|regress|predict)", re.I
)
ABOUT = re.compile(rf"/v1/models(?:/(?P<name>[^/:]+))?{VERSION}(?P<metadata>/metadata)?", re.I)

READING_TAKES = 30  # seconds; whoever sends half a request holds nobody up


def error_response(code, message):
    """An error as TF Serving's REST says it."""
    body = json.dumps({"error": message})
    return Response(body, code, media_type="application/json")


async def read_body(request, most):
    """The body of a request that is not too large; what is too much is read away and not kept."""
    chunks, size = [], 0
    try:
        async with asyncio.timeout(READING_TAKES):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= most:
                    chunks.append(chunk)
                elif size > 16 * most:
                    break
    except TimeoutError:
        raise Refused(
            "DEADLINE_EXCEEDED", f"The request did not arrive within {READING_TAKES} s"
        ) from None
    if size > most:
        raise Refused(
            "RESOURCE_EXHAUSTED", f"A request must have at most {most} bytes", http_code=413
        )
    return b"".join(chunks)
