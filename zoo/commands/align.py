import json
import sys
from typing import Annotated, Literal

import tyro

from zoo.commands.console import (
    Path,
    SavedModelPath,
    all_lines,
    same_length,
    tell,
)
from zoo.commands.forced import forced_answers
from zoo.errors import UsageError


def align(
    saved_model: SavedModelPath,
    backward: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="BACKWARD")] = None,
    /,
    *,
    source: Path,
    target: Path,
    method: Literal["intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"]
    | None = None,
    reference: str | None = None,
):
    """Prints which words of two texts belong together, by the attention of a model or of two.

    A line for each pair of texts: 0-0 1-2 are positions of words from 0, in the source and in the
    target. A word of the target is linked with the word of the source that has most of its weight.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        backward: Another such model, that reads the target and writes the source; links of both
            directions are put together.
        source: File of texts, a line each; .gz is read too.
        target: File of the same texts as the model writes them, one on each line.
        method: How links of two directions are put together (Koehn et al. 2003); by default
            grow-diag-final-and.
        reference: File of links that people made, a line each, 0-0 if sure and 0?0 or 0p0 if
            possible. Prints JSON in place of the links: the alignment error rate (Och & Ney 2003).
    """
    from zoo.evaluation.alignment import (
        alignment_error_rate,
        format_links,
        parse_reference,
        symmetrize,
    )

    if method and backward is None:
        raise UsageError(
            f"--method puts the links of two models together. Received: {method}, and no BACKWARD"
        )
    lines = all_lines(source)
    targets = same_length(source, lines, target)
    found = _links(saved_model, lines, targets, target)
    if backward is not None:
        turned = _links(backward, targets, lines, source)
        pairs = zip(found, turned, strict=True)
        method = method or "grow-diag-final-and"
        found = [symmetrize(one, {(s, t) for t, s in other}, method) for one, other in pairs]
    if reference is None:
        for links in found:
            print(format_links(links))
        return
    references = []
    for number, line in enumerate(same_length(source, lines, reference), 1):
        try:
            references.append(parse_reference(line))
        except ValueError as error:
            raise UsageError(f"{reference}:{number}: {error}") from error
    print(json.dumps(alignment_error_rate(found, references), indent=1))


def _links(saved_model, texts, answers, name):
    """For each text and its answer, the links between their words."""
    from zoo.evaluation.alignment import links_of
    from zoo.evaluation.words import are_of_spaces
    from zoo.serving.saved_model import is_language_model, read_about

    if is_language_model(read_about(saved_model)):
        raise UsageError(f"{saved_model} is a language model: it has no source to link words with")

    found, left_out = [], 0
    forced = forced_answers(saved_model, texts, answers, name)
    for one, text, answer in zip(forced, texts, answers, strict=True):
        if one.target_tokens and one.source_tokens and not one.weights.size:
            raise ValueError(f"There are no links: {saved_model} has no attention")
        sides = (one.source_tokens, text), (one.target_tokens, answer)
        if all(are_of_spaces(*side) for side in sides):
            found.append(links_of(one.source_tokens, one.target_tokens, one.weights))
        else:  # positions would be those of other words
            found.append(set())
            left_out += 1
        tell(f"{len(found)} of {len(texts)} lines")
    tell("")
    if left_out:
        print(
            f"zoo: {left_out} of {len(texts)} lines have no links: {saved_model} splits their "
            "words otherwise than spaces do, or does not read them whole",
            file=sys.stderr,
        )
    return found
