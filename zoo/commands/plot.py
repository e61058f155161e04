import os
import sys
import warnings
from typing import Annotated

import tyro

from zoo.commands.console import Path, SavedModelPath, open_model
from zoo.errors import UsageError, require_folder


def plot(
    saved_model: SavedModelPath,
    text: Annotated[str, tyro.conf.Positional],
    /,
    *,
    output: Path,
    words: bool = False,
):
    """Draws where the model looked as it answered a text, or the picture in a file.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        text: The text, or the file of an image.
        output: File to write, .png, .svg or .pdf.
        words: Puts pieces of words together. A word of the source has the weights of its pieces
            together, a word of the answer the mean of its pieces' weights.
    """
    from zoo.evaluation.heat_map import plot_heat_map, require_ending
    from zoo.evaluation.image_map import plot_image_map
    from zoo.evaluation.words import START, merge_words
    from zoo.serving.offline import sources_of
    from zoo.serving.saved_model import is_language_model

    require_ending(output)
    require_folder(output)
    if os.path.exists(text) and os.path.exists(output) and os.path.samefile(text, output):
        raise UsageError(f"`--output` must not be the picture that is read. Received: {output}")
    model = open_model(saved_model)
    if "align" not in model.loaded.signatures:
        raise ValueError(
            f"There is nothing to draw: {model.path} has no signature align, for its model has no "
            "attention that can be seen"
        )
    columns = sources_of(model, [text])
    result = model("align", **columns)
    sources = [token.decode() for token in result["source_tokens"][0] if token]
    targets = [token.decode() for token in result["target_tokens"][0] if token]
    if not sources or not targets:
        raise ValueError(f"There is nothing to draw: the model answers nothing to {text!r}")
    weights = result["alignments"][0][: len(targets), : len(sources)]
    if not weights.size:
        raise ValueError(f"There is nothing to draw: {model.path} has no attention")
    if words and not any(token.startswith(START) for token in [*sources, *targets]):
        raise UsageError(f"`--words` needs pieces of words, which {model.path} does not read")
    limit = model.about["pipeline"]["max_source_length"]
    if model.input_name == "text" and not is_language_model(model.about) and len(sources) >= limit:
        print(
            f"zoo: the model reads {limit} tokens of a text, and the picture ends there",
            file=sys.stderr,
        )
    drawn = merge_words(sources, targets, weights) if words else (sources, targets, weights)
    with warnings.catch_warnings(record=True) as notes:
        if model.input_name == "text":
            plot_heat_map(*drawn, output)
        else:  # the places are the same, whether words are put together or not
            plot_image_map(columns[model.input_name][0], *drawn[1:], output)
    for note in notes:
        print(f"zoo: {note.message}", file=sys.stderr)
    print(output)
