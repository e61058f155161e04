"""The table of trained models says what is in their folders."""

import json
import pathlib

from tests.serving.tools import tiny_pipeline
from zoo.serving import export, markdown_table
from zoo.serving.catalogue import short_signature

ROOT = pathlib.Path(__file__).parents[2]


def test_the_table_in_the_readme_is_up_to_date():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, _, rest = readme.partition("<!-- saved models -->\n")
    table, end, _ = rest.partition("\n<!-- end of saved models -->")
    assert end
    hint = "README.md should have what `zoo list --markdown` prints"
    assert table == markdown_table(ROOT / "saved_models"), hint


def test_a_row_for_each_model(tmp_path):
    training = {"time": "1:02:03 for all epochs, scoring included", "machine": "a toaster"}
    about = {
        "task": "Translation: a sentence in one language, the same in another.",
        "config": {"source": "en", "target": "de", "model": "transformer"},
        "scores": {
            "bleu": {"score": 41.123, "signature": "nrefs:1|case:mixed|tok:13a|version:2.6.0"},
            "chrf": {"score": 65.0, "signature": "nrefs:1|case:mixed|nc:6|space:no|version:2.6.0"},
        },
        "data": {"name": "multi30k:/home/me/multi30k"},
        "training": {"members": [training, {**training, "went_on_from": "old/2"}]},
    }
    folder = export(tiny_pipeline(), tmp_path / "models" / "two", about)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    (tmp_path / "models" / "bare" / "3").mkdir(parents=True)
    (tmp_path / "models" / "bare" / "3" / "zoo.json").write_text(json.dumps({}))
    (tmp_path / "models" / "notes").mkdir()
    head, line, bare, two = markdown_table(tmp_path / "models").splitlines()
    assert head.count("|") == line.count("|") == 8
    assert bare == "| [bare](models/bare/3) |  |  |  |  | 0.0 MB |  |"
    cells = [
        "[two](models/two/1)",
        "Translation",
        "multi30k en-de",
        "ensemble of 2",
        r"bleu 41.12 `#:1\|c:mixed\|tok:13a\|v:2.6.0`"
        r"<br>chrf 65.00 `#:1\|c:mixed\|nc:6\|s:no\|v:2.6.0`",
        f"{size / 1e6:.1f} MB",
        "1:02:03 on a toaster<br>1:02:03 on a toaster, from old/2 on",
    ]
    assert two == f"| {' | '.join(cells)} |"


def test_signatures_of_the_zoo_are_short():
    assert short_signature("wer|lines:9|refs:var|zoo:0.1.0") == "wer|lines:9|refs:var|zoo:0.1.0"
