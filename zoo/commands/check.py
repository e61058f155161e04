import sys
from typing import Annotated

import tyro

from zoo.commands.console import print_json
from zoo.errors import UsageError


def check(
    saved_models: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="SAVED_MODEL")
    ],
    /,
    *,
    python: str | None = None,
    timeout: float = 120.0,
    json: bool = False,
):
    """Tells whether TF Serving will load and run SavedModels, and what to do if not.

    Args:
        saved_models: saved_models/NAME, which means its newest version, or versions' folders.
        python: The Python whose tensorflow and tensorflow-text load them, such as those of the
            server's release; by default this one.
        timeout: Seconds that loading, or a request, may take.
        json: Prints a line of JSON for each SavedModel.
    """
    from zoo.serving import check_saved_model

    if not saved_models:
        raise UsageError("`zoo check` needs a SavedModel at least. Received: none")
    num_findings = 0
    for path in saved_models:
        lines = []
        if not json:
            print(path, flush=True)
        for line in check_saved_model(path, python, timeout):
            lines.append(line)
            if not json:
                print(
                    f"  {'ok  ' if line.is_good else 'FAIL'}  {line.group}: {line.text}", flush=True
                )
        found = [line for line in lines if not line.is_good]
        num_findings += len(found)
        if json:
            about = [{"ok": line.is_good, "group": line.group, "text": line.text} for line in lines]
            print_json({"saved_model": path, "servable": not found, "lines": about})
    if num_findings:
        sys.exit(1)
