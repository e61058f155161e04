import itertools
import json
import re
from typing import Literal

from zoo.commands.console import (
    Path,
    SavedModelPath,
    all_lines,
    batches,
    open_model,
    same_length,
    tell,
)
from zoo.errors import UsageError

MetricName = Literal[
    "wer", "accuracy", "per", "edit_distance", "bleu", "chrf", "rouge1", "rouge2", "rougeL",
    "perplexity",
]  # fmt: skip


def evaluate(
    saved_model: SavedModelPath,
    /,
    *,
    source: Path,
    reference: tuple[str, ...] = (),
    metric: tuple[MetricName, ...] = (),
    comparable: bool = False,
    language: str | None = None,
    beam_width: int | None = None,
    length_penalty: float | None = None,
):
    """Scores the answers to the lines of a file, and prints JSON.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        source: File of texts, a line each, or of the names of image files; .gz is read too. For a
            language model, the text whose perplexity is computed; it needs no references.
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
    from zoo.serving.saved_model import find_version, is_language_model, read_about

    options = {"beam_width": beam_width, "length_penalty": length_penalty}
    options = {name: value for name, value in options.items() if value is not None}
    if is_language_model(read_about(saved_model)):
        if reference or comparable or language or options or set(metric) - {"perplexity"}:
            raise UsageError(
                f"{find_version(saved_model)} is a language model: it has a perplexity on the text "
                "of --source, and takes no other option"
            )
        print(json.dumps(_perplexity(saved_model, source), indent=1))
        return
    if "perplexity" in metric:
        raise UsageError(f"{find_version(saved_model)} is no language model: it has no perplexity")
    if not reference:
        raise UsageError("`zoo evaluate` needs right answers: --reference FILE. Received: none")
    model = open_model(saved_model)
    language = language or model.about.get("config", {}).get("target")
    if comparable and not re.fullmatch(r"[A-Za-z]{2,3}([-_]\w+)?", language or ""):
        raise UsageError(
            "`--comparable` needs the code of the language that is written, as in --language de. "
            f"Received: {language}"
        )
    metric = metric or (() if comparable else tuple(model.about.get("scores", {})))
    if not metric and not comparable:
        raise ValueError(f"{model.path} does not say what it was trained by: name a --metric")
    answer = _searched(model, options)
    lines = all_lines(source)
    columns = [same_length(source, lines, file) for file in reference]
    references = [
        [answer for cell in row for answer in cell.split("\t") if answer]
        for row in zip(*columns, strict=True)
    ]
    answers = []
    for batch in batches(lines):
        answers += [text.decode() for text in answer(batch)]
        tell(f"{len(answers)} of {len(lines)} lines")
    tell("")
    scores = evaluate(answers, references, list(metric))
    if comparable:
        scores["comparable_bleu"] = comparable_bleu(answers, references, language)
    print(json.dumps(scores, indent=1))


def _perplexity(saved_model, source):
    """Of a text, read from its first line to its last."""
    from zoo.serving import load

    parts = itertools.count(1)

    def stops():
        tell(f"reading, part {next(parts)}")
        return False

    scores = load(saved_model).scores(all_lines(source), metrics=["perplexity"], stops=stops)
    tell("")
    return scores


def _searched(model, options):
    """A function from a list of lines to their answers: the SavedModel's, or by another search."""
    from zoo.serving import load
    from zoo.serving.offline import sources_of

    if not options:
        return lambda lines: model("serving_default", **sources_of(model, lines))["text"]
    pipeline = load(model.path)

    def answer(lines):
        (sources,) = sources_of(model, lines).values()
        return pipeline(sources, **options)["text"].numpy()

    return answer
