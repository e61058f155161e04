import json
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

MetricName = Literal["wer", "accuracy", "per", "edit_distance", "bleu", "chrf"]


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

    model = open_model(saved_model)
    language = language or model.about.get("config", {}).get("target")
    if comparable and not language:
        raise UsageError(f"{model.path} does not say what language it writes: name a --language")
    metric = metric or (() if comparable else tuple(model.about.get("scores", {})))
    if not metric and not comparable:
        raise ValueError(f"{model.path} does not say what it was trained by: name a --metric")
    options = {"beam_width": beam_width, "length_penalty": length_penalty}
    answer = _searched(model, {k: v for k, v in options.items() if v is not None})
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


def _searched(model, options):
    """A function from a list of texts to their answers: the SavedModel's, or by another search."""
    if not options:
        return lambda texts: model("serving_default", text=texts)["text"]
    from zoo.serving import load

    pipeline = load(model.path)
    return lambda texts: pipeline(texts, **options)["text"].numpy()
