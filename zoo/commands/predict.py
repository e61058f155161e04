import contextlib
import pathlib
import sys
import time
from typing import Annotated

import tyro

from zoo.commands.console import (
    Path,
    SavedModelPath,
    lines_of,
    open_model,
    standard_input,
    tell,
)
from zoo.errors import UsageError

IN_FLIGHT = 4  # batches that a server has at a time: some to search, some to read or to send
TIMEOUT = 300.0  # seconds, for a batch may wait behind those of others


def predict(
    saved_model: SavedModelPath,
    text: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    /,
    *,
    n_best: int = 1,
    json: bool = False,
    server: str | None = None,
    retry_for: float = 60,
    input: Path | None = None,
    output: Path | None = None,
    resume: bool = False,
    batch_size: int = 64,
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
):
    """Prints the answer to each text, line by line.

    Args:
        saved_model: saved_models/NAME, or a version's folder; for a server, the model's name.
        text: Texts, or files of images; without any, the lines of the standard input.
        n_best: Answers to each, best first, in columns: the text, the score, the answer. A score is
            a log-probability; a search divides it by its length penalty, and drawing does not.
        json: Prints a line of JSON for each text.
        server: Where to ask: grpc://HOST:PORT or http://HOST:PORT, of TF Serving or `zoo serve`.
        retry_for: Seconds for which to try again where the server is away or full.
        input: File of texts, a line each, or of the names of image files; .gz is read too.
        output: File to write, which must not be there.
        resume: Goes on with the output of a run that was stopped or killed.
        batch_size: Texts that are searched at once; a server may limit it.
        temperature: Draws --n-best answers at random, as any of these four options does: near 0 the
            probable ones, 1, which it is by default, as the model thinks.
        top_k: Draws each token from so many of the most probable ones.
        top_p: Draws each token from the most probable ones that together have this probability.
        seed: With the same seed the same is drawn for the same texts.
    """
    from zoo.serving.offline import answer_lines, predict_windows, require_possible

    if text and input:
        raise UsageError(f"Give texts or `--input`, not both. Received: {text[0]!r} and {input}")
    if resume and not output:
        raise UsageError("`--resume` goes on with a file. Name it: --output FILE")
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    drawing = {name: value for name, value in drawing.items() if value is not None}
    if drawing and server:
        raise UsageError("A server does not draw: give --temperature and the like without --server")
    lines = text or (lines_of(input) if input else standard_input())
    with _open(saved_model, server, retry_for, drawing, n_best) as model:
        require_possible(n_best, batch_size, model.num_results, model.path)
        about = {"model": model.name, "n_best": n_best, "json": json, "batch_size": batch_size}
        about = {**about, "fingerprint": model.fingerprint, **drawing}
        is_typed = not text and not input and sys.stdin.isatty()
        largest = {"largest": 1} if is_typed else {}  # who types wants an answer to each line
        with _open_output(output, about, resume) as file:
            windows = predict_windows(
                model,
                file.skip_done(lines),
                batch_size,
                in_flight=IN_FLIGHT if server else 1,
                done=file.lines,
                **largest,
            )
            began, before = time.monotonic(), file.lines
            for rows in windows:
                answers = [answer_lines(*row, n_best, json) for row in rows]
                file.write([line for line, _, _ in rows], "".join(answers))
                if output or not sys.stdout.isatty():
                    speed = (file.lines - before) / (time.monotonic() - began)
                    tell(f"{file.lines} lines, {speed:.0f} lines/s")
            tell("")


@contextlib.contextmanager
def _open(saved_model, server, retry_for, drawing, n_best):
    """The SavedModel, or a client of the model that a server has under its name."""
    if drawing:
        from zoo.serving import Sampled

        yield Sampled(saved_model, num_results=max(n_best, 1), **drawing)
        return
    if not server:
        yield open_model(saved_model)
        return
    from zoo.serving import connect
    from zoo.serving.saved_model import is_version

    path, version = pathlib.Path(saved_model), None
    if is_version(path.name) and path.parent.name:  # a version's folder
        path, version = path.parent, int(path.name)

    def report(text):
        print(f"zoo: {text}", file=sys.stderr)

    options = {"version": version, "timeout": TIMEOUT, "retry_for": retry_for, "report": report}
    with connect(server, path.name, **options) as client:
        yield client


def _open_output(output, about, resume):
    if not output:
        return _StandardOutput()
    from zoo.serving.resumable_file import ResumableFile

    return ResumableFile(output, about, resume)


class _StandardOutput(contextlib.nullcontext):
    """The standard output, written as a ResumableFile is."""

    lines = 0

    def __enter__(self):
        return self

    def skip_done(self, lines):
        return lines

    def write(self, lines, text):
        print(text, end="", flush=True)
        self.lines += len(lines)
