import html
import json
import pathlib

from starlette.responses import Response
from starlette.routing import Route

PAGE = pathlib.Path(__file__).parent / "page"
TYPES = {
    ".svg": "image/svg+xml",
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
}
# The page loads its own three files, and speaks with this server alone.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes(names):
    """Routes of the page, which is told the names of the models."""

    def route(path, file, text):
        async def get(request):
            return Response(text, media_type=TYPES[file.suffix], headers=HEADERS)

        return Route(path, get)

    routes = []
    for file in sorted(PAGE.iterdir()):
        text = file.read_text(encoding="utf-8")
        if file.name == "index.html":
            text = text.replace(
                'data-models="[]"', f'data-models="{html.escape(json.dumps(names))}"'
            )
        routes.append(route("/" if file.name == "index.html" else f"/{file.name}", file, text))
    return routes
