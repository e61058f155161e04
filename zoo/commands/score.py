import sys

import numpy as np

from zoo.commands.console import (
    Path,
    SavedModelPath,
    all_lines,
    print_json,
    same_length,
)
from zoo.commands.forced import forced_answers


def score(saved_model: SavedModelPath, /, *, source: Path, target: Path, json: bool = False):
    """Prints the log-probability of given answers, and which source token each token looked at.

    A line is the log-probability, the target, and pairs of source and target positions from 0; all
    weights are in the JSON. Of a language model both are tokens of the whole line, and the source's
    0 is the end of the line before.

    Args:
        saved_model: saved_models/NAME, or a version's folder.
        source: File of texts, a line each, or of the names of image files; .gz is read too.
        target: File of answers to them, one on each line.
        json: Prints a line of JSON for each pair, with the weights.
    """
    lines = all_lines(source)
    targets = same_length(source, lines, target)
    from zoo.layers.hypotheses import NONE  # TensorFlow comes with it, after what is quick to check

    answers = forced_answers(saved_model, lines, targets, target)
    too_long = 0
    for line, answer, one in zip(lines, targets, answers, strict=True):
        too_long += one.log_prob <= NONE
        if json:
            rounded = np.round(one.weights.astype("float64"), 4).tolist()
            about = {"text": line, "log_prob": one.log_prob, "target": answer}
            about |= {"source_tokens": one.source_tokens, "target_tokens": one.target_tokens}
            print_json({**about, "alignments": rounded})
        else:
            # The first token of a line has nothing before it to look at.
            looked = [f"{w.argmax()}-{j}" for j, w in enumerate(one.weights) if w.any()]
            print(f"{one.log_prob:.4f}\t{answer}\t{' '.join(looked)}")
    if too_long:
        print(
            f"zoo: {NONE:.4f} is told of answers that are longer than {saved_model} may write. "
            f"Received: {too_long} of {len(lines)}",
            file=sys.stderr,
        )
