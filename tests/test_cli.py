"""The commands as a user types them, from a folder of words to pictures and scores."""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys

import keras
import pytest

from tests.tools import run_zoo, run_zoo_here
from tests.training.tools import SMALL, write_dictionary
from zoo.evaluation.metrics import evaluate

ROOT = pathlib.Path(__file__).parents[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with words/, runs/tiny and saved_models/tiny."""
    place = tmp_path_factory.mktemp("place")
    write_dictionary(place / "words")
    options = ["--data", "words", "--epochs", 4, "--num-results", 3, *SMALL]
    done = run_zoo("train", "pronounce", "--output", "runs/tiny", *options, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "train: 2000 examples" in done.stdout
    options = ["--licence", "CC0, made up"]
    done = run_zoo("export", "runs/tiny", "--output", "saved_models/tiny", *options, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "saved_models/tiny/1" in done.stdout
    assert "- licence: CC0, made up\n" in (place / "saved_models/tiny/1/README.md").read_text()
    words, answers = zip(
        *(line.split("\t") for line in (place / "words/dev.tsv").read_text().splitlines()),
        strict=True,
    )
    (place / "words.txt").write_text("\n".join(words) + "\n")
    (place / "answers.txt").write_text("\n".join(answers) + "\n")
    return place


def zoo(place, *arguments, **kwargs):
    done = run_zoo(*arguments, cwd=place, **kwargs)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # nothing of TensorFlow's starting up
    return done.stdout


@pytest.fixture
def zoo_here(monkeypatch, capsys):
    """As `zoo`, in this process."""

    def run(place, *arguments):
        done = run_zoo_here(monkeypatch, capsys, place, arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def lines_of(path):
    return path.read_text().splitlines()


def test_predict_prints_a_line_for_a_line(place, zoo_here):
    words = lines_of(place / "words.txt")
    answers = zoo_here(place, "predict", "saved_models/tiny", *words[:3]).splitlines()
    assert len(answers) == 3
    lines = "\n".join([*words[:3], "", *words[3:]])
    piped = zoo(place, "predict", "saved_models/tiny", input=lines).splitlines()
    assert piped[:3] == answers
    assert piped[3] == ""
    assert len(piped) == len(words) + 1
    # The newest version is meant, or the one that is named.
    assert zoo_here(place, "predict", "saved_models/tiny/1", words[0]).splitlines() == answers[:1]


def test_predict_n_best(place, zoo_here):
    word = lines_of(place / "words.txt")[0]
    best = zoo_here(place, "predict", "saved_models/tiny", word).strip()
    rows = zoo_here(place, "predict", "saved_models/tiny", word, "--n-best", "2").splitlines()
    inputs, scores, texts = zip(*(row.split("\t") for row in rows), strict=True)
    assert inputs == (word, word)
    assert texts[0] == best
    assert float(scores[0]) >= float(scores[1])
    row = json.loads(
        zoo_here(place, "predict", "saved_models/tiny", word, "--n-best", "2", "--json")
    )
    assert (row["input"], row["text"], row["texts"]) == (word, best, list(texts))
    assert row["scores"] == pytest.approx([float(score) for score in scores], abs=1e-3)


def test_evaluate_scores_what_predict_says(place, zoo_here):
    words, answers = lines_of(place / "words.txt"), lines_of(place / "answers.txt")
    said = zoo_here(place, "predict", "saved_models/tiny", *words).splitlines()
    arguments = ("evaluate", "saved_models/tiny", "--source", "words.txt", "--reference")
    scores = json.loads(zoo_here(place, *arguments, "answers.txt", "--metric", "wer", "per"))
    references = [[answer] for answer in answers]
    assert scores == evaluate(said, references, ["wer", "per"])
    # A wrong reference for one line, and beside it, in another file, what the model says.
    (place / "wrong.txt").write_text("\n".join(["X", *answers[1:]]) + "\n")
    with gzip.open(place / "more.txt.gz", "wt") as file:
        file.write("\n".join([said[0], *("" for _ in words[1:])]) + "\n")
    both = [f"X\t{said[0]}", *answers[1:]]
    (place / "both.txt").write_text("\n".join(both) + "\n")
    worse = json.loads(zoo_here(place, *arguments, "wrong.txt", "--metric", "wer"))
    better = json.loads(zoo_here(place, *arguments, "wrong.txt", "more.txt.gz"))  # by wer and per
    assert worse["wer"]["score"] == pytest.approx(better["wer"]["score"] + 100 / len(words))
    assert json.loads(zoo_here(place, *arguments, "both.txt")) == better
    # The run wrote the same score down.
    about = json.loads((place / "saved_models/tiny/1/zoo.json").read_text())
    assert about["scores"] == scores


def test_score_is_the_score_of_predict(place, zoo_here):
    word = lines_of(place / "words.txt")[0]
    rows = zoo_here(place, "predict", "saved_models/tiny", word, "--n-best", "3").splitlines()
    _, scores, texts = zip(*(row.split("\t") for row in rows), strict=True)
    (place / "source.txt").write_text(f"{word}\n" * 3)
    (place / "target.txt").write_text("\n".join(texts) + "\n")
    arguments = ("score", "saved_models/tiny", "--source", "source.txt", "--target", "target.txt")
    rows = [row.split("\t") for row in zoo_here(place, *arguments).splitlines()]
    assert [float(row[0]) for row in rows] == pytest.approx([float(s) for s in scores], abs=2e-4)
    assert [row[1] for row in rows] == list(texts)
    pairs = [row[2] for row in rows]
    rows = [json.loads(row) for row in zoo_here(place, *arguments, "--json").splitlines()]
    for row, text, looked in zip(rows, texts, pairs, strict=True):
        places = [pair.split("-") for pair in looked.split()]
        assert [int(j) for _, j in places] == list(range(len(text.split())))
        for i, j in places:
            weights = row["alignments"][int(j)]
            assert weights[int(i)] >= max(weights) - 1e-3
        assert row["target_tokens"] == text.split()
        assert row["source_tokens"] == list(word)
        assert [sum(weights) for weights in row["alignments"]] == pytest.approx(
            [1.0] * len(text.split()), abs=1e-2
        )


def test_plot_draws(place, zoo_here):
    word = lines_of(place / "words.txt")[0]
    arguments = ("plot", "saved_models/tiny", word, "--output", "heat.png")
    assert zoo_here(place, *arguments) == "heat.png\n"
    assert (place / "heat.png").read_bytes().startswith(b"\x89PNG")


def test_list_shows_recipes_and_models(place):
    rows = zoo(place, "list").splitlines()
    score = json.loads((place / "saved_models/tiny/1/zoo.json").read_text())["scores"]["wer"]
    assert any(row.split()[0] == "pronounce" for row in rows)
    assert any(row.split()[0] == "tiny" and f"wer {score['score']:.2f}" in row for row in rows)


def test_a_model_is_trained_on(place):
    """--init-from begins where the SavedModel is, not where a new model would."""
    options = ["--data", "words", "--epochs", 1, "--init-from", "saved_models/tiny"]
    options += ["--batch-tokens", 256, "--warmup-steps", 1, "--beam-width", 4]
    zoo(place, "train", "pronounce", "--output", "runs/more", *options)
    # What describes the model is that of the SavedModel, not the recipe's default.
    about = json.loads((place / "runs/more/run.json").read_text())
    assert about["config"]["units"] == 24
    assert about["went_on_from"] == "tiny/1"
    # Another search may be wanted; what is not said of it is as it was.
    search = json.loads((place / "runs/more/pipeline.json").read_text())["search"]
    assert (search["beam_width"], search["num_results"]) == (4, 3)
    first, more = (
        [json.loads(line)["loss"] for line in lines_of(place / "runs" / name / "metrics.jsonl")]
        for name in ("tiny", "more")
    )
    assert more[0] < (first[0] + first[-1]) / 2


def test_info_tells_the_versions():
    done = run_zoo("info")
    assert done.returncode == 0
    assert f"keras {keras.__version__}" in done.stdout.splitlines()


@pytest.mark.parametrize("command", [["--help"], ["predict", "--help"], ["serve", "--queue", "-1"]])
def test_help_and_mistakes_do_not_wait_for_tensorflow(command, monkeypatch):
    """It takes seconds. Python itself says what has been imported."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    imported = {line.split("|")[-1].strip() for line in run_zoo(*command).stderr.splitlines()}
    assert "zoo.commands" in imported
    assert not {"tensorflow", "keras"} & imported


MISTAKES = {
    "command": (["dance"], 2, "dance"),
    "option": (["predict", "saved_models/tiny", "--n-bets", "3"], 2, "--n-bets, 3. Perhaps you"),
    "three dashes": (["predict", "saved_models/tiny", "---n-best"], 2, "options: ---n-best. "),
    "no option": (["export", "runs/tiny"], 2, "Missing from zoo export: --output"),
    "number": (
        ["train", "pronounce", "--output", "runs/x", "--units", "abc"],
        2,
        "--units: invalid",
    ),
    "dash": (
        ["train", "language-model", "--outptu", "runs/x"],
        2,
        "Unrecognized options: --outptu",
    ),
    "recipe": (["train", "dance", "--output", "runs/x"], 2, "There is no recipe dance"),
    "value": (["train", "pronounce", "--output", "runs/x", "--epochs", "0"], 2, "epochs"),
    "model": (["predict", "saved_models/none", "word"], 1, "saved_models/none is no SavedModel"),
    "n-best": (["predict", "saved_models/tiny", "word", "--n-best", "9"], 2, "must be 1 to 3"),
    "no best": (["predict", "saved_models/tiny", "word", "--n-best", "0"], 2, "must be 1 to 3"),
    "units": (["train", "pronounce", "--output", "runs/x", "--units", "0"], 2, "units=0"),
    "width": (["train", "pronounce", "--output", "runs/x", "--num-results", "9"], 2, "which is 5"),
    "length": (
        ["train", "pronounce", "--output", "runs/x", "--max-length", "1"],
        1,
        "max_length=1",
    ),
    "tfds": (["train", "pronounce", "--output", "runs/x", "--data", "tfds:nope"], 1, "tfds:nope"),
    "start": (
        ["train", "pronounce", "--output", "runs/x", "--init-from", "saved_models/none"],
        1,
        "saved_models/none is no SavedModel",
    ),
    "other model": (
        [
            *("train", "pronounce", "--output", "runs/x", "--data", "words"),
            *("--init-from", "saved_models/tiny", "--units", "256"),  # what a new one would have
        ],
        1,
        "`units` is 24 in saved_models/tiny, whose model is trained on. Received: units=256",
    ),
    "dropout": (["train", "pronounce", "--output", "runs/x", "--dropout", "1.5"], 2, "dropout=1.5"),
    "draw": (["predict", "saved_models/tiny", "word", "--top-p", "2"], 2, "top_p=2"),
    "no dev": (
        ["train", "pronounce", "--output", "runs/x", "--data", "trainonly"],
        1,
        "trainonly should hold files for validation too, named validation or valid or val or dev",
    ),
    "several answers": (
        ["score", "saved_models/tiny", "--source", "words.txt", "--target", "several.txt"],
        1,
        "several between tabs on line 1",
    ),
    "into a version": (
        ["export", "runs/tiny", "--output", "saved_models/tiny/1"],
        1,
        "is a version itself",
    ),
    "folder for a file": (
        ["score", "saved_models/tiny", "--source", "words", "--target", "words.txt"],
        1,
        "words: Is a directory",
    ),
    "damaged run": (["export", "broken", "--output", "saved_models/x"], 1, "run.json is damaged"),
    "run of nothing": (["train", "pronounce", "--output", "bare"], 1, "it has no 'recipe'"),
    "model of nothing": (["predict", "others/bare", "word"], 1, "it has no 'pipeline'"),
    "damaged file": (
        ["score", "saved_models/tiny", "--source", "cut.gz", "--target", "words.txt"],
        1,
        "cut.gz is damaged",
    ),
    "run": (["export", "runs/none", "--output", "saved_models/x"], 1, "runs/none holds no run"),
    "data": (["train", "pronounce", "--output", "runs/x", "--data", "none"], 1, "Received: none"),
    "file": (
        ["evaluate", "saved_models/tiny", "--source", "none.txt", "--reference", "answers.txt"],
        1,
        "none.txt",
    ),
    "lines": (
        ["evaluate", "saved_models/tiny", "--source", "words.txt", "--reference", "three.txt"],
        1,
        "three.txt must have as many lines as words.txt. Received: 3 and 60",
    ),
    "empty": (
        ["score", "saved_models/tiny", "--source", "empty.txt", "--target", "words.txt"],
        1,
        "empty.txt is empty",
    ),
    "words": (
        ["plot", "saved_models/tiny", "word", "--output", "heat.png", "--words"],
        2,
        "`--words` needs pieces of words, which saved_models/tiny/1 does not read",
    ),
    "perplexity": (
        [
            *("evaluate", "saved_models/tiny", "--source", "words.txt"),
            *("--reference", "answers.txt", "--metric", "perplexity"),
        ],
        2,
        "saved_models/tiny/1 is no language model: it has no perplexity",
    ),
    "language": (
        [
            *("evaluate", "saved_models/tiny", "--source", "words.txt"),
            *("--reference", "answers.txt", "--comparable", "--language", "phonemes"),
        ],
        2,
        "as in --language de. Received: phonemes",
    ),
    "ending": (
        ["plot", "saved_models/tiny", "word", "--output", "heat.doc"],
        2,
        "heat.doc",
    ),
    "no folder": (
        ["plot", "saved_models/tiny", "word", "--output", "none/heat.png"],
        1,
        "There is no folder none for none/heat.png",
    ),
    "itself": (
        ["plot", "saved_models/tiny", "own.png", "--output", "./own.png"],
        2,
        "must not be the picture that is read",
    ),
    "no input": (
        ["predict", "saved_models/tiny", "--input", "none.txt", "--output", "said.txt"],
        1,
        "none.txt: No such file",
    ),
    "nowhere": (
        ["predict", "saved_models/tiny", "word", "--output", "none/said.txt"],
        1,
        "There is no folder none for none/said.txt",
    ),
    "other letters": (
        ["predict", "saved_models/tiny", "--input", "wide.txt", "--output", "said.txt"],
        1,
        "wide.txt is UTF-16",
    ),
    "server": (
        ["predict", "tiny", "word", "--server", "http://[::1"],
        2,
        "Received: http://[::1",
    ),
    "damaged data": (
        ["train", "pronounce", "--output", "runs/x", "--data", "cutdata"],
        1,
        "train.tsv.gz is damaged",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_a_line(place, mistake, monkeypatch, capsys):
    (place / "three.txt").write_text("A\nB\nC\n")
    (place / "empty.txt").write_text("")
    (place / "cut.gz").write_bytes(gzip.compress(b"word\n" * 999)[:-12])
    (place / "several.txt").write_text("A\tB\n" * 60)
    (place / "trainonly").mkdir(exist_ok=True)
    (place / "trainonly" / "train.tsv").write_text("a\tA\n")
    (place / "own.png").write_bytes(b"")
    (place / "wide.txt").write_text("word\n", "utf-16")
    (place / "cutdata").mkdir(exist_ok=True)
    (place / "cutdata" / "train.tsv.gz").write_bytes(gzip.compress(b"a\tA\n" * 999)[:-12])
    (place / "cutdata" / "dev.tsv").write_text("a\tA\n")
    (place / "broken").mkdir(exist_ok=True)
    (place / "broken" / "run.json").write_text('{"recipe": ')
    (place / "bare").mkdir(exist_ok=True)
    (place / "bare" / "run.json").write_text("{}")
    bare = place / "others" / "bare" / "1"
    if mistake == "model of nothing":
        shutil.copytree(place / "saved_models" / "tiny" / "1", bare)
        (bare / "zoo.json").write_text("{}")
    arguments, code, message = MISTAKES[mistake]
    if mistake in ("option", "model"):
        done = run_zoo(*arguments, cwd=place)
    else:
        done = run_zoo_here(monkeypatch, capsys, place, arguments)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("zoo: ")
    assert not (place / "runs/x").exists()
    assert not list(place.glob("said.txt*"))


def test_one_damaged_model_hides_no_other(place, tmp_path, monkeypatch, capsys):
    for name, text in {"cut": '{"scores": ', "odd": '{"scores": {"wer": 21.9}}'}.items():
        (tmp_path / "saved_models" / name / "1").mkdir(parents=True)
        (tmp_path / "saved_models" / name / "1" / "zoo.json").write_text(text)
    shutil.copytree(place / "saved_models/tiny", tmp_path / "saved_models/tiny")
    done = run_zoo_here(monkeypatch, capsys, tmp_path, ["list"])
    assert done.returncode == 1
    assert done.stderr == "zoo: Export these again: cut, odd\n"
    told = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "damaged: " in told["cut"]
    assert "damaged: " in told["odd"]
    assert "wer" in told["tiny"]


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("zoo info > /dev/full", 1, "zoo: [Errno 28] No space left on device\n"),
        ("zoo predict --help > /dev/full", 1, "zoo: [Errno 28] No space left on device\n"),
        ("zoo info | true", 0, ""),
        ("zoo info <&- >&-", 0, ""),
        ("zoo dance 2>&-", 2, ""),
        ("zoo predict saved_models/tiny <&-", 0, ""),
    ],
)
def test_streams_that_are_full_or_closed(place, command, code, told):
    binaries = pathlib.Path(sys.executable).parent
    surroundings = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    surroundings.pop("PYTHONUNBUFFERED", None)  # nothing is kept back then
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=place, env=surroundings, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (code, told, "")


def test_a_recipe_runs_by_itself(place, zoo_here):
    recipe = [sys.executable, ROOT / "recipes" / "pronounce.py"]
    options = ["--data", "words", "--epochs", 1, "--mixed-precision", "bfloat16", *SMALL]
    done = subprocess.run(
        [*map(str, [*recipe, "train", "--output", "runs/alone", *options])],
        cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "best: epoch 1" in done.stdout
    # What is exported of it computes in float32.
    zoo_here(place, "export", "runs/alone", "--output", "saved_models/alone")
    assert (
        "bfloat16"
        not in (place / "saved_models/alone/1/zoo.json").read_text().split('"pipeline"')[1]
    )


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("[!_]*.py")), ids=str)
def test_a_recipe_is_short(recipe):
    assert len(recipe.read_text().splitlines()) < 150


def test_bytes_that_are_no_text_are_answered(place, zoo_here):
    text = os.fsdecode(b"a\xffb")  # as they come from the shell
    said = zoo_here(place, "predict", "saved_models/tiny", text, "--json")
    assert json.loads(said)["input"] == "a\ufffdb"


def test_reading_less_than_all_is_no_error(place):
    words = " ".join(lines_of(place / "words.txt"))
    command = f"zoo predict saved_models/tiny {words} | head -1"
    binaries = pathlib.Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; PATH={binaries}:$PATH; {command}"],
        cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
