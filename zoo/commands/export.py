from typing import Annotated

import tyro

from zoo.commands.console import Path, tell
from zoo.errors import UsageError


def export(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")],
    /,
    *,
    output: Path,
    beam_width: int | None = None,
    length_penalty: float | None = None,
    float16: bool = False,
    licence: str | None = None,
):
    """Writes a run's best model as the next version of a SavedModel; of several runs an ensemble.

    Args:
        runs: Folders of runs; behind the first also SavedModels. Several models answer together, by
            the mean of their probabilities.
        output: saved_models/NAME.
        beam_width: Another beam than the run's recipe said.
        length_penalty: Another length penalty than the run's recipe said.
        float16: Weights take half the space on disk; computing is in float32 all the same.
        licence: The data's licence for the model's card, in place of what the data says.
    """
    from zoo.serving.saved_model import read_about
    from zoo.training.export_run import export_runs

    if not runs:
        raise UsageError("`zoo export` needs the folder of a run at least. Received: none")
    options = {"beam_width": beam_width, "length_penalty": length_penalty}
    options = {name: value for name, value in options.items() if value is not None}
    folder = export_runs(runs, output, options, float16, licence, report=tell)
    tell("")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}  {size / 1e6:.1f} MB")
    reader = read_about(folder)["pipeline"].get("source_tokenizer", {}).get("class")
    print(f"zoo predict {output} {'IMAGE' if reader == 'ImageReader' else 'TEXT'}")
