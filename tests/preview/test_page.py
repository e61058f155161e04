"""The page in a browser: what a visitor types, sees, and reaches by keyboard or on a phone."""

import contextlib
import http.server
import json
import pathlib
import random
import threading

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.preview.server import running
from zoo.evaluation.words import merge_words

CHROMIUM = pathlib.Path("/usr/bin/chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
PATIENCE = 60_000  # milliseconds, for a machine with other work


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM.exists(), "these tests need Debian's chromium: `make chromium` installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened(browser, url, **options):
    """The page, which must neither complain nor load anything from elsewhere."""
    page = browser.new_page(**options)
    page.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    complaints, addresses = [], []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: complaints.append(line.text))
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(url)
    yield page
    page.close()
    assert all(address.startswith(url) for address in addresses)
    assert [c for c in complaints if "Failed to load resource" not in c] == []


def answer_of(page, text, model="tiny"):
    if page.locator("#model").is_visible():
        page.get_by_label("Model").select_option(model)
    page.get_by_label("Text").fill(text)
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("#answer")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#target .word").first).to_be_visible()


@pytest.fixture(scope="module")
def page(browser, server):
    with opened(browser, f"{server.url}/") as page:
        yield page


def test_it_shows_the_n_best_with_scores(page, server):
    page.get_by_label("Model").select_option("tiny")
    expect(page.locator("#version")).to_have_text("version 2")
    answer_of(page, "fabled")
    _, answer = server.ask("/v1/models/tiny:predict", {"inputs": ["fabled"]})
    rows = page.get_by_role("table").first.get_by_role("row").all()[1:]
    shown = [row.get_by_role("cell").all_inner_texts() for row in rows]
    assert [row[1] for row in shown] == answer["outputs"]["texts"][0]
    scores = [float(row[0].replace("−", "-")) for row in shown]
    assert scores == pytest.approx(answer["outputs"]["scores"][0], abs=1e-3)
    words = page.locator("#target .word").all_inner_texts()
    assert words == answer["outputs"]["text"][0].split()


def aligned(server, text, model="tiny"):
    request = {"signature_name": "align", "inputs": [text]}
    return server.ask(f"/v1/models/{model}:predict", request)[1]["outputs"]


def lit(page):
    """The weights that the letters of the text are lit by."""
    script = "words => words.map(w => parseFloat(w.style.getPropertyValue('--weight')))"
    return page.locator("#source .word").evaluate_all(script)


def test_a_word_lights_up_where_the_model_looked(page, server):
    answer_of(page, "facade")
    weights = aligned(server, "facade")["alignments"][0]
    words = page.locator("#target .word")
    assert words.count() == len(weights)
    colours = []
    for i, row in enumerate(weights):
        words.nth(i).hover()
        assert lit(page) == pytest.approx(row)
        best = page.locator("#source .word").nth(max(range(len(row)), key=row.__getitem__))
        colours.append(best.evaluate("word => getComputedStyle(word).backgroundColor"))
        assert f"{round(100 * max(row))} %" in page.locator("#weights").inner_text()
    assert "rgba(0, 0, 0, 0)" not in colours
    assert page.locator("#source").inner_text() == "facade"


def test_the_map_has_a_cell_for_each_pair(page, server):
    answer_of(page, "decade")
    answer = aligned(server, "decade")
    table = page.get_by_role("table", name="How much each word of the answer")
    assert table.get_by_role("columnheader").all_inner_texts() == list("decade")
    assert table.get_by_role("rowheader").all_inner_texts() == answer["target_tokens"][0]
    cells = table.locator("tbody td")
    script = "cells => cells.map(c => parseFloat(c.style.getPropertyValue('--weight')))"
    flat = [weight for row in answer["alignments"][0] for weight in row]
    assert cells.evaluate_all(script) == pytest.approx(flat)
    said = [int(text.removesuffix("%")) for text in cells.all_text_contents()]
    assert said == pytest.approx([100 * weight for weight in flat], abs=0.51)


def test_it_works_by_keyboard_alone(browser, server):
    with opened(browser, f"{server.url}/") as page:
        page.get_by_label("Model").select_option("tiny")
        page.get_by_label("Text").focus()
        page.keyboard.type("fabled")
        page.keyboard.press("Shift+Enter")  # a line more
        page.keyboard.press("Backspace")
        page.keyboard.press("Enter")
        expect(page.locator("#target .word").first).to_be_visible()
        page.keyboard.press("Tab")  # the button
        page.keyboard.press("Tab")
        rows = aligned(server, "fabled")["alignments"][0]
        assert len(rows) > 1
        assert lit(page) == pytest.approx(rows[0])
        page.keyboard.press("ArrowRight")
        assert lit(page) == pytest.approx(rows[1])
        page.keyboard.press("End")
        page.keyboard.press("ArrowRight")
        assert lit(page) == pytest.approx(rows[-1])
        page.keyboard.press("Home")
        assert lit(page) == pytest.approx(rows[0])
        focused = page.locator("#target .word").first
        assert focused.evaluate("word => getComputedStyle(word).outlineStyle") == "solid"
        page.keyboard.press("Tab")  # one stop, whatever there is of words
        assert page.evaluate("document.activeElement.className") == "scroll"
        for place in ("#message", "#weights"):
            assert page.locator(place).get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(browser, server, scheme):
    options = {"viewport": {"width": 360, "height": 640}, "has_touch": True}
    with opened(browser, f"{server.url}/", color_scheme=scheme, **options) as page:
        answer_of(page, "abcdefghijklmnopqrst" * 30)  # read up to its 20th letter
        expect(page.locator("#map")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.locator("#target .word").first.tap()
        assert max(lit(page)) > 0
        # What is written can be read: contrast as WCAG 2.2 computes it.
        for place in ("h2", "#weights", "#target .on", "button[type=submit]", "#best td"):
            assert page.locator(place).first.evaluate(CONTRAST) >= 4.5, place


CONTRAST = """element => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map((x) => {
      const c = x / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  let behind = element;
  while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)")
    behind = behind.parentElement;
  const both = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
  const [a, b] = both.map(light).sort();
  return (b + 0.05) / (a + 0.05);
}"""


def test_another_model_answers_when_it_is_chosen(page):
    answer_of(page, "schadenfreude", "pronounce_en")
    sounds = ["SH", "AE", "D", "AH", "N", "F", "R", "OY", "D"]
    expect(page.locator("#target .word")).to_have_text(sounds)
    page.get_by_label("Model").select_option("tiny")
    expect(page.locator("#answer")).to_be_hidden()


def test_an_error_is_shown_and_the_next_answer_comes(page):
    page.get_by_label("Text").fill("a" * 20_001)
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("status")).to_contain_text("at most 20000 bytes")
    expect(page.locator("#answer")).to_be_hidden()
    answer_of(page, "cab")
    expect(page.get_by_role("status")).to_have_text("")


def test_pieces_of_words_are_put_together_as_in_python(page):
    rng, pieces = random.Random(3), ["▁a", "▁", "b", "▁cd", "e", "."]
    cases = []
    for _ in range(200):
        source, target = (rng.choices(pieces, k=rng.randint(1, 6)) for _ in range(2))
        weights = [[rng.random() for _ in source] for _ in target]
        cases.append([source, target, weights])
    cases.append([["a", "b"], ["x"], [[0.5, 0.5]]])  # no marks: nothing is put together
    script = """async (cases) => {
      const { mergeWords } = await import("/words.js");
      return cases.map((case_) => mergeWords(...case_));
    }"""
    merged = page.evaluate(script, cases)
    for case, words in zip(cases, merged, strict=True):
        source, target, weights = merge_words(*case)
        assert (words["source"], words["target"]) == (source, target)
        for row, expected in zip(words["weights"], weights, strict=True):
            assert row == pytest.approx(expected)


@contextlib.contextmanager
def upstream(answers):
    """A server of REST alone that gives prepared answers, as a TF Serving of translations would."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer({"model_version_status": [{"version": "3", "state": "AVAILABLE"}]})

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer({"outputs": answers[request["signature_name"]]})

        def answer(self, answer):
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as started:
        threading.Thread(target=started.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{started.server_port}"
        started.shutdown()


SENTENCE = {
    "serving_default": {
        "text": ["<b>a</b> red bicycle."],
        "score": [-1.0],
        "texts": [["<b>a</b> red bicycle.", ""]],
        "scores": [[-1.0, -1e9]],
    },
    "align": {
        "source_tokens": [["▁ein", "▁rotes", "▁Fahr", "rad", ".", ""]],
        "target_tokens": [["▁<b>a</b>", "▁red", "▁bi", "cycle", ".", ""]],
        "alignments": [
            [
                [0.9, 0.1, 0, 0, 0, 0],
                [0.1, 0.7, 0.1, 0.1, 0, 0],
                [0, 0, 0.8, 0.2, 0, 0],
                [0, 0, 0.1, 0.7, 0.2, 0],
                [0, 0, 0, 0, 1, 0],
                [0, 0, 0, 0, 0, 0],
            ]
        ],
    },
}


def test_in_front_of_another_server_words_are_whole(browser):
    with (
        upstream(SENTENCE) as url,
        running("--proxy", url) as proxy,
        opened(browser, f"{proxy.url}/") as page,
    ):
        page.get_by_label("Model").fill("translate")  # TF Serving does not tell its models
        page.get_by_label("Text").fill("ein rotes Fahrrad.")
        expect(page.locator("#version")).to_have_text("version 3")
        page.keyboard.press("Enter")
        expect(page.locator("#target .word")).to_have_text(["<b>a</b>", "red", "bicycle."])
        assert page.locator("#target").inner_text() == "<b>a</b> red bicycle."  # no markup
        assert page.locator("b").count() == 0
        page.locator("#target .word").nth(2).hover()
        assert page.locator("#source .word").all_inner_texts() == ["ein", "rotes", "Fahrrad."]
        assert lit(page) == pytest.approx([0, 0, 1])
        expect(page.locator("#best")).to_be_hidden()  # there is but one
