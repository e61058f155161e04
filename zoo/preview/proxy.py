import httpx2
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from zoo.preview.http import ABOUT, PREDICT, error_response, read_body
from zoo.preview.page_files import page_routes
from zoo.preview.refused import Refused


def make_proxy_app(upstream, names, request_bytes, timeout):
    """The page, and /v1/ of another server behind it, as an ASGI application."""
    client = httpx2.AsyncClient(timeout=timeout, trust_env=False)

    async def forward(request):
        path = request.scope["raw_path"].decode("latin-1")
        try:
            if not (PREDICT.fullmatch(path) or ABOUT.fullmatch(path)) or "/.." in path:
                raise Refused("NOT_FOUND", f"Not Found: {request.method} {path}")
            body = await read_body(request, request_bytes)
            headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
            answer = await client.request(
                request.method, upstream + path, content=body, headers=headers
            )
        except Refused as error:
            return error_response(error.http_code, error.message)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except httpx2.TimeoutException:
            return error_response(504, f"{upstream} did not answer within {timeout:g} s")
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            return error_response(502, f"{upstream} cannot be reached: {reason}")
        # What is no JSON is not the page's affair, least of all in its own origin.
        headers = {
            "Content-Type": answer.headers.get("Content-Type", "application/json"),
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        return Response(answer.content, answer.status_code, headers=headers)

    methods = ["GET", "POST"]
    routes = [*page_routes(names), Route("/{path:path}", forward, methods=methods)]
    return Starlette(routes=routes)
