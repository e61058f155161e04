"""A large job, watched.

    python -m tests.serving.offline 200000 --model saved_models/pronounce_en
    python -m tests.serving.offline 20000 --beam

Prints the memory of `zoo predict` over time, kills one and resumes it, and compares the results;
fails where they differ, or where memory grows by more than 5 % once windows are full. With --beam
it does the second job by recipes/batch_predict.py, and compares that. By default the model is a
tiny one, whose answers are nonsense and quick.
"""

import argparse
import hashlib
import itertools
import pathlib
import random
import resource
import string
import subprocess
import sys
import tempfile
import time

from tests.serving.tools import tiny_pipeline
from zoo.serving import export
from zoo.serving.offline import LARGEST_WINDOW

ZOO = pathlib.Path(sys.executable).parent / "zoo"
RECIPE = pathlib.Path(__file__).parents[2] / "recipes" / "batch_predict.py"


def write_words(path, count, seed=0):
    """A file of random words of 1 to 18 letters."""
    draw = random.Random(seed)
    with open(path, "w") as file:
        for _ in range(count):
            letters = draw.choices(string.ascii_lowercase, k=draw.randint(1, 18))
            file.write("".join(letters) + "\n")


def lines_done(output):
    """How many lines of input a job's state tells, at this moment."""
    state = pathlib.Path(f"{output}.state")
    entries = state.read_text().splitlines()[1:] if state.exists() else []
    return int(entries[-1].split()[0]) if entries else 0


def start(model, source, output, *options):
    """`zoo predict` as a process."""
    files = ("--input", source, "--output", output)
    return subprocess.Popen([ZOO, "predict", model, *map(str, [*files, *options])])


def watch(process, output, until=None, report=lambda lines, memory: None):
    """Kills a job when `until` lines are done, or waits for its end; its memory over time in MB."""
    memory, told = [], 0
    while process.poll() is None:
        done = lines_done(output)
        if until is not None and done >= until:
            process.kill()
            process.wait()
            break
        if done > told:
            pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            memory.append((done, pages * resource.getpagesize() / 1e6))
            report(*memory[-1])
            told = done
        time.sleep(0.02)
    return memory


def once_more(model, folder, count):
    """The job again, killed in the middle and resumed; its output."""
    for until, options in ((count // 2, []), (None, ["--resume"])):
        process = start(model, folder / "words.txt", folder / "parts", *options)
        watch(process, folder / "parts", until)
        print(f"exit code {process.returncode}, {lines_done(folder / 'parts')} lines done")
    return (folder / "parts").read_bytes()


def by_beam(model, folder):
    """The job as a Beam pipeline; its output."""
    files = ("--input", folder / "words.txt", "--output", folder / "beam")
    command = [sys.executable, RECIPE, model, *files]
    began = time.monotonic()
    done = subprocess.run(list(map(str, command)), check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - began:7.1f} s, exit code {done.returncode}, "
          f"at most {used.ru_maxrss / 1e3:.0f} MB in a process")  # fmt: skip
    return b"".join(path.read_bytes() for path in sorted(folder.glob("beam-*")))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lines", type=int)
    parser.add_argument("--model", help="a SavedModel; by default a tiny one")
    parser.add_argument("--beam", action="store_true", help="compare with a Beam pipeline")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp())
    model = options.model or folder / "tiny"
    if not options.model:
        export(tiny_pipeline(beam_width=1, num_results=1, max_length=4), model)
    write_words(folder / "words.txt", options.lines)
    began = time.monotonic()

    def report(lines, memory):
        print(f"{time.monotonic() - began:7.1f} s {lines:9} lines {memory:7.0f} MB", flush=True)

    job = start(model, folder / "words.txt", folder / "whole")
    memory = watch(job, folder / "whole", report=report)
    # From the second full window on.
    full = [size for lines, size in memory if lines > 2 * LARGEST_WINDOW] or [1]
    growth = max(full) / full[0] - 1
    print(f"memory: {growth:+.1%} at the most since {full[0]:.0f} MB")
    print("once more,", "by Beam" if options.beam else "killed in the middle", flush=True)
    again = by_beam(model, folder) if options.beam else once_more(model, folder, options.lines)
    files = [(folder / "whole").read_bytes(), again]
    print(*(hashlib.sha256(file).hexdigest() for file in files))
    pairs = itertools.zip_longest(*(file.splitlines() for file in files))
    others = [f"line {i}: {x!r}, {y!r}" for i, (x, y) in enumerate(pairs, 1) if x != y]
    print(*others[:10], sep="\n")
    print(f"{len(others)} of {options.lines} lines differ")
    is_whole = files[0] == files[1] and files[0].count(b"\n") == options.lines
    sys.exit(not is_whole or growth > 0.05)


if __name__ == "__main__":
    main()
