"""Every example in a docstring, in README.md and in docs/ runs."""

import contextlib
import inspect
import io
import pathlib
import re

import keras
import pytest

import zoo
from zoo.models import kinds

MODULES = [kinds]  # more of zoo, which speaks of TensorFlow
if keras.backend.backend() == "tensorflow":
    import zoo.data
    import zoo.image
    import zoo.serving
    import zoo.text
    from zoo.evaluation import alignment, heat_map, image_map, metrics, text_reader, words
    from zoo.training import attention_losses, fit, progress, run, settings, trainer, warmup

    MODULES += [zoo.data, zoo.image, zoo.serving, zoo.text]
    MODULES += [alignment, heat_map, image_map, metrics, text_reader, words]
    MODULES += [attention_losses, fit, progress, run, settings, trainer, warmup]

# Public names whose documentation shows how they are used.
EXAMPLES = [name for name in vars(zoo) if name[0].isupper() and name != "SearchResult"]
EXAMPLES += ["CharacterTokenizer", "SymbolTokenizer", "SentencePieceTokenizer", "Batches"]
EXAMPLES += ["InflectionTokenizer", "ImageReader", "draw_scene", "load_captions", "write_images"]
EXAMPLES += [
    "load_examples",
    "load_inflections",
    "load_commands",
    "recurrent",
    "transformer",
    "evaluate",
    "plot_heat_map",
    "plot_image_map",
    "merge_words",
    "links_of",
    "symmetrize",
    "alignment_error_rate",
    "parse_links",
    "CoverageLoss",
    "GuidedAlignment",
    "Pipeline",
    "LanguageModelPipeline",
    "Sampled",
    "TextReader",
    "Windows",
    "load_text",
    "Settings",
    "Warmup",
    "connect",
    "predict_lines",
]

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SLOW = {"lecture.md", "training.md"}  # they have many trainings
PUBLIC = {
    value
    for module in (zoo, *MODULES)
    for value in vars(module).values()
    if inspect.isclass(value) or inspect.isfunction(value)
    if value.__module__.startswith("zoo.") and not value.__name__.startswith("_")
}


def blocks(text):
    return [code for code, _ in blocks_with_output(text)]


def blocks_with_output(text):
    """Pairs: the code of a block, and the ```text behind it, which it says that it prints."""
    block = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?"
    return re.findall(block, inspect.cleandoc(text) + "\n", re.S | re.M)


@pytest.mark.parametrize("public", sorted(PUBLIC, key=str), ids=lambda public: public.__name__)
def test_docstrings(public):
    name, doc = public.__name__, public.__doc__
    assert doc, f"{name} has no docstring"
    for code in blocks(doc):
        exec(compile(code, name, "exec"), {"__name__": "example"})
    if name in EXAMPLES:
        assert blocks(doc), f"{name} has no example"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=pytest.mark.slow if page.name in SLOW else ())
        for page in PAGES
    ],
)
def test_pages(page, tmp_path, monkeypatch):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("pages speak of TensorFlow")
    monkeypatch.setenv("FIGURES", str(tmp_path))
    names = {"__name__": "example"}  # a page reads from top to bottom
    text = page.read_text()
    for i, (code, expected) in enumerate(blocks_with_output(text)):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, page.name, "exec"), names)
        if expected:
            assert printed.getvalue() == expected
        if page.name == "README.md" and i == 0:  # what the page says that it prints
            assert names["result"].tokens[0, 0].numpy().tolist() == [8, 7, 6, 5, 4, 3, 2, 2]
    if page.name == "lecture.md":  # its blocks draw its pictures, all of them and no others
        drawn = {path.name for path in tmp_path.iterdir()}
        committed = {path.name for path in (ROOT / "docs" / "lecture").iterdir()}
        assert drawn
        assert drawn == committed == set(re.findall(r"\]\(lecture/(.*?)\)", text))
