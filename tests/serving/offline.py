"""A large job, watched: python -m tests.serving.offline 200000 [SAVED_MODEL]

Prints the memory of `zoo predict` over time, kills one and resumes it, and compares the results. By
default the model is a tiny one, whose answers are nonsense and quick.
"""

import hashlib
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

ZOO = pathlib.Path(sys.executable).parent / "zoo"


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


def main(count, model=None):
    folder = pathlib.Path(tempfile.mkdtemp())
    if model is None:
        model = folder / "tiny"
        export(tiny_pipeline(beam_width=1, num_results=1, max_length=4), model)
    write_words(folder / "words.txt", count)
    began = time.monotonic()

    def report(lines, memory):
        print(f"{time.monotonic() - began:7.1f} s {lines:9} lines {memory:7.0f} MB", flush=True)

    watch(start(model, folder / "words.txt", folder / "whole"), folder / "whole", report=report)
    print("once more, killed in the middle")
    for until, options in ((count // 2, []), (None, ["--resume"])):
        process = start(model, folder / "words.txt", folder / "parts", *options)
        watch(process, folder / "parts", until, report)
        print(f"exit code {process.returncode}, {lines_done(folder / 'parts')} lines done")
    files = [(folder / name).read_bytes() for name in ("whole", "parts")]
    print(*(hashlib.sha256(file).hexdigest() for file in files))
    print("identical" if files[0] == files[1] else "DIFFERENT", files[0].count(b"\n"), "lines")
    sys.exit(files[0] != files[1])


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
