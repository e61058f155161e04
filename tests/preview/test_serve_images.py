"""A model of images on `zoo serve`: REST, gRPC, clients, and the page."""

import base64

import numpy as np
import pytest
import tensorflow as tf
from playwright.sync_api import expect

from tests.preview.server import running
from tests.preview.test_page import browser, opened  # noqa: F401  a fixture
from tests.serving.tools import tiny_image_pipeline
from tests.tools import close
from zoo.data import draw_scene
from zoo.serving import SavedModel, connect, export, predict_lines

SCENES = [tf.io.encode_png(draw_scene(i)[0]).numpy() for i in range(3)]
NOISE = np.random.default_rng(0).integers(0, 256, (100, 90, 3), "uint8")
LARGE = tf.io.encode_png(NOISE).numpy()  # more bytes than a text may have
IMAGES = [*SCENES, LARGE, b"", b"\xff\xd8 no image"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "pictures"
    export(tiny_image_pipeline(), folder, examples=SCENES)
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with running(folder) as server:
        yield server


def test_each_way_to_ask_has_the_answers_of_the_model(folder, server, tmp_path):
    assert len(LARGE) > 20_000
    expected = SavedModel(folder)("serving_default", image_bytes=IMAGES)
    texts = [text.decode() for text in expected["text"]]
    assert all(texts[:4])
    assert len({*texts[:4]}) > 1
    assert texts[4:] == ["", ""]
    rows = [{"b64": base64.b64encode(image).decode()} for image in IMAGES]
    path = "/v1/models/pictures:predict"
    _, columns = server.ask(path, {"inputs": rows})
    assert columns["outputs"]["text"] == texts
    _, named = server.ask(path, {"inputs": {"image_bytes": rows}})
    assert named == columns
    _, in_rows = server.ask(path, {"instances": rows})
    assert [row["text"] for row in in_rows["predictions"]] == texts
    for address in (server.url, f"grpc://{server.grpc}"):
        with connect(address, "pictures") as client:
            answer = client.predict(image_bytes=IMAGES)
            assert answer["texts"].tolist() == expected["texts"].tolist()
            close(answer["scores"], expected["scores"], 1e-4)
            looked = client("align", image_bytes=IMAGES[:1])
            assert looked["alignments"].shape[2] == 16
            # Lines are names of files.
            (tmp_path / "0.png").write_bytes(IMAGES[0])
            ((line, best, _),) = predict_lines(client, [str(tmp_path / "0.png")])
            assert (line, best[0]) == (str(tmp_path / "0.png"), texts[0])


def test_the_page_takes_a_file(folder, server, browser, tmp_path):  # noqa: F811
    (tmp_path / "scene.png").write_bytes(SCENES[0])
    (tmp_path / "none.png").write_bytes(b"no image")
    expected = SavedModel(folder)("serving_default", image_bytes=SCENES[:1])
    with opened(browser, f"{server.url}/") as page:
        expect(page.get_by_label("Picture", exact=True)).to_be_visible()
        expect(page.get_by_label("Text")).to_be_hidden()
        page.get_by_role("button", name="Answer").click()
        expect(page.locator("#message")).to_have_text("Choose a picture.")
        page.get_by_label("Picture", exact=True).set_input_files(tmp_path / "scene.png")
        page.get_by_role("button", name="Answer").click()
        expect(page.locator("#target .word").first).to_be_visible()
        words = page.locator("#target .word").all_inner_texts()
        assert words == expected["text"][0].decode().split()
        canvas = page.locator("#picture")
        expect(canvas).to_be_visible()
        drawn = [canvas.screenshot()]
        for i in range(2):
            page.locator("#target .word").nth(i).hover()
            drawn.append(canvas.screenshot())
        assert drawn[0] != drawn[1]
        expect(page.locator("#weights")).to_contain_text(f"{words[1]} looked at row ")
        expect(page.locator("#map-part")).to_be_hidden()
        page.get_by_label("Picture", exact=True).set_input_files(tmp_path / "none.png")
        page.get_by_role("button", name="Answer").click()
        expect(page.locator("#message")).to_have_text("The model answers nothing.")
        expect(canvas).to_be_hidden()
