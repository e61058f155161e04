"""What the subcommands of `zoo` do, apart from `train`, which a recipe does."""

import itertools
import json as json_format
import pathlib
import platform
import sys
import warnings
from importlib import metadata
from typing import Annotated, Literal

import numpy as np
import tyro

from zoo.errors import UsageError

Path = Annotated[str, tyro.conf.arg(metavar="PATH")]
SavedModelPath = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SAVED_MODEL")]
MetricName = Literal["wer", "accuracy", "per", "bleu", "chrf"]


def list_all(recipes, markdown=False):
    """Shows the recipes, and the SavedModels in ./saved_models with their scores."""
    from zoo.serving import catalogue, saved_model

    if markdown:
        print(catalogue.markdown_table("saved_models"))
        return
    print("recipes (zoo train NAME --output RUN)")
    for name, recipe in recipes.items():
        print(f"  {name:<20} {recipe.Config.__doc__.splitlines()[0]}")
    print("saved models (zoo predict saved_models/NAME TEXT)")
    models = catalogue.find_models("saved_models")
    for path in models:
        scores = saved_model.read_about(path).get("scores", {})
        listed = ", ".join(f"{name} {value['score']:.2f}" for name, value in scores.items())
        version = saved_model.find_version(path).name
        print(f"  {path.name:<20} version {version}: {listed or 'no scores'} (dev)")
    if not models:
        print("  none in ./saved_models")


def export(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    output: Path,
    beam_width: int | None = None,
    length_penalty: float | None = None,
    float16: bool = False,
):
    """Writes a run's best model as the next version of a SavedModel; of several runs an ensemble.

    Args:
        runs: Folders of runs. The models of several answer together, by the mean of their
            probabilities.
        output: saved_models/NAME.
        beam_width: Another beam than the run's recipe said.
        length_penalty: Another length penalty than the run's recipe said.
        float16: Weights take half the space on disk; computing is in float32 all the same.
    """
    from zoo.training.export_run import export_runs

    if not runs:
        raise UsageError("`zoo export` needs the folder of a run at least. Received: none")
    options = {"beam_width": beam_width, "length_penalty": length_penalty}
    options = {name: value for name, value in options.items() if value is not None}
    folder = export_runs(runs, output, options, float16, report=_tell)
    _tell("")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}  {size / 1e6:.1f} MB")
    print(f"zoo predict {output} TEXT")


def predict(
    saved_model: SavedModelPath,
    text: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    *,
    n_best: int = 1,
    json: bool = False,
):
    """Prints the answer to each text, line by line.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        text: Texts; without any, the lines of the standard input.
        n_best: Answers to each, best first, in columns: the text, the score, the answer.
        json: Prints a line of JSON for each text.
    """
    from zoo.layers.hypotheses import NONE
    from zoo.serving.pipeline import to_bytes

    model = _saved_model(saved_model)
    most = model.num_results
    if not 1 <= n_best <= most:
        raise UsageError(
            f"`--n-best` must be 1 to {most}, as many as {model.path} was exported with. "
            f"Received: {n_best}"
        )
    # Who types wants an answer to each line.
    size = 1 if not text and sys.stdin.isatty() else 64
    for lines in _batches(text or _standard_input(), size):
        result = model("serving_default", text=lines)
        lines = [line.decode("utf-8", "replace") for line in to_bytes(lines)]
        for line, texts, scores in zip(lines, result["texts"], result["scores"], strict=True):
            answers = [(t.decode(), float(s)) for t, s in zip(texts, scores, strict=True)][:n_best]
            answers = [answer for answer in answers if answer[1] > NONE]  # not the empty places
            if json:
                texts, scores = zip(*answers, strict=True)
                about = {"input": line, "text": texts[0], "score": scores[0]}
                _print_json({**about, "texts": texts, "scores": scores})
            elif n_best == 1:
                print(answers[0][0], flush=True)
            else:
                for answer, score in answers:
                    print(f"{line}\t{score:.4f}\t{answer}", flush=True)


def evaluate(
    saved_model: SavedModelPath,
    /,
    *,
    source: Path,
    reference: tuple[str, ...],
    metric: tuple[MetricName, ...] = (),
    comparable: bool = False,
    language: str | None = None,
    beam_width: int | None = None,
    length_penalty: float | None = None,
):
    """Scores the answers to the lines of a file, and prints JSON.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        source: File of texts, a line each; .gz is read too.
        reference: Files of right answers, line by line beside the texts. A line may hold several
            between tabs; of several files, all are right.
        metric: What to compute; by default what the model was trained by.
        comparable: Computes BLEU as published tables have it, of lower-cased words that Moses'
            tokenizer has split; the references are so already.
        language: Of the answers, for --comparable; by default what the model was trained to write.
        beam_width: Another beam than the model was exported with; 1 is greedy.
        length_penalty: Another length penalty than the model was exported with.
    """
    from zoo.evaluation.metrics import comparable_bleu, evaluate

    model = _saved_model(saved_model)
    language = language or model.about.get("config", {}).get("target")
    if comparable and not language:
        raise UsageError(f"{model.path} does not say what language it writes: name a --language")
    metric = metric or (() if comparable else tuple(model.about.get("scores", {})))
    if not metric and not comparable:
        raise ValueError(f"{model.path} does not say what it was trained by: name a --metric")
    options = {"beam_width": beam_width, "length_penalty": length_penalty}
    answer = _searched(model, {k: v for k, v in options.items() if v is not None})
    lines = _read_lines(source)
    columns = [_same_length(source, lines, file) for file in reference]
    references = [
        [answer for cell in row for answer in cell.split("\t") if answer]
        for row in zip(*columns, strict=True)
    ]
    answers = []
    for batch in _batches(lines):
        answers += [text.decode() for text in answer(batch)]
        _tell(f"{len(answers)} of {len(lines)} lines")
    _tell("")
    scores = evaluate(answers, references, list(metric))
    if comparable:
        scores["comparable_bleu"] = comparable_bleu(answers, references, language)
    print(json_format.dumps(scores, indent=1))


def score(saved_model: SavedModelPath, /, *, source: Path, target: Path, json: bool = False):
    """Prints the log-probability of given answers, and which source token each token looked at.

    A line is the log-probability, the target, and pairs of source and target positions from 0; all
    weights are in the JSON.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        source: File of texts, a line each; .gz is read too.
        target: File of answers to them, one on each line.
        json: Prints a line of JSON for each pair, with the weights.
    """
    import tensorflow as tf

    from zoo.serving import load

    pipeline = load(saved_model)
    text = tf.TensorSpec((None,), tf.string)
    forced = tf.function(pipeline.teacher_forced, [text, text], autograph=False)
    lines = _read_lines(source)
    targets = _same_length(source, lines, target)
    several = next((i for i, line in enumerate(targets, 1) if "\t" in line), None)
    if several:
        raise ValueError(
            f"{target} must have one answer on each line. Received: several between tabs on line "
            f"{several}; `cut -f1` takes the first"
        )
    for batch, other in zip(_batches(lines), _batches(targets), strict=True):
        results = {name: tensor.numpy() for name, tensor in forced(batch, other).items()}
        for i, line in enumerate(batch):
            row = {name: values[i] for name, values in results.items()}
            sources = [token.decode() for token in row["source_tokens"] if token]
            tokens = [token.decode() for token in row["target_tokens"] if token]
            weights = row["alignments"][: len(tokens), : len(sources)]
            about = {"log_prob": float(row["log_prob"]), "target": other[i]}
            if json:
                about = {"text": line, **about, "source_tokens": sources}
                rounded = np.round(weights.astype("float64"), 4).tolist()
                _print_json({**about, "target_tokens": tokens, "alignments": rounded})
            else:
                looked = [f"{w.argmax()}-{j}" for j, w in enumerate(weights) if w.size]
                print(f"{about['log_prob']:.4f}\t{about['target']}\t{' '.join(looked)}")


def plot(
    saved_model: SavedModelPath,
    text: Annotated[str, tyro.conf.Positional],
    /,
    *,
    output: Path,
    words: bool = False,
):
    """Draws where the model looked as it answered a text.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        text: The text.
        output: File to write, .png, .svg or .pdf.
        words: Puts pieces of words together. A word of the source has the weights of its pieces
            together, a word of the answer the mean of its pieces' weights.
    """
    from zoo.evaluation.heat_map import START, merge_words, plot_heat_map

    model = _saved_model(saved_model)
    result = model("align", text=[text])
    sources = [token.decode() for token in result["source_tokens"][0] if token]
    targets = [token.decode() for token in result["target_tokens"][0] if token]
    if not sources or not targets:
        raise ValueError(f"There is nothing to draw: the model answers nothing to {text!r}")
    weights = result["alignments"][0][: len(targets), : len(sources)]
    if not weights.size:
        raise ValueError(f"There is nothing to draw: {model.path} has no attention")
    if words and not any(token.startswith(START) for token in [*sources, *targets]):
        raise UsageError(f"`--words` needs pieces of words, which {model.path} does not read")
    picture = merge_words(sources, targets, weights) if words else (sources, targets, weights)
    with warnings.catch_warnings(record=True) as notes:
        plot_heat_map(*picture, output)
    for note in notes:
        print(f"zoo: {note.message}", file=sys.stderr)
    print(output)


def info():
    """Prints the versions that a bug report needs."""
    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in ("keras-zoo", "keras", "tensorflow", "tensorflow-text", "tensorflow-datasets"):
        print(package, metadata.version(package))


def _saved_model(path):
    from zoo.serving import SavedModel

    return SavedModel(path)


def _searched(model, options):
    """A function from a list of texts to their answers: the SavedModel's, or by another search."""
    if not options:
        return lambda texts: model("serving_default", text=texts)["text"]
    from zoo.serving import load

    pipeline = load(model.path)
    return lambda texts: pipeline(texts, **options)["text"].numpy()


def _standard_input():
    if sys.stdin.isatty():
        print("Reading lines from the terminal; Ctrl-D ends.", file=sys.stderr)
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\r\n").decode("utf-8", "replace")


def _batches(lines, size=64):
    """Lists of lines, each as soon as it is whole."""
    lines = iter(lines)
    return iter(lambda: list(itertools.islice(lines, size)), [])


def _read_lines(path):
    from zoo.data.pairs import read_lines

    try:
        lines = list(read_lines(pathlib.Path(path)))
    except EOFError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not lines:
        raise ValueError(f"{path} is empty")
    return lines


def _same_length(source, lines, path):
    others = _read_lines(path)
    if len(others) != len(lines):
        raise ValueError(
            f"{path} must have as many lines as {source}. Received: {len(others)} and {len(lines)}"
        )
    return others


def _print_json(data):
    print(json_format.dumps(data, ensure_ascii=False), flush=True)


def _tell(text):
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
