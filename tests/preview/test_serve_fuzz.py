"""No request makes the server fail."""

from tests.preview.fuzz import fuzz


def test_random_requests_are_answered(server):
    seen = fuzz(server, 300)
    assert sum(seen.values()) >= 300
    assert {200, 400, 404, "OK", "INVALID_ARGUMENT"} <= set(seen)  # all kinds have come
