"""The zoo beside its peers: the same work in the same run, by turns.

    python bench/compare.py [--quick] [--only NAME ...] [--output bench/results.json]

Each library runs in an environment of its own (bench/libraries.py makes it), as a process that is
stopped until its turn; turns go round, so that whatever slows the machine slows all alike. Data:
ids as long as Multi30k's captions, 8,000 words; the sizes of each row stand in it. All have two
threads. What a row gives is the median of its turns and their spread, (max - min) / median.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

from libraries import ENVIRONMENT, HERE, PACKAGES, WORKERS, Worker, python_of

NAMES = {
    "zoo": "zoo",
    "zoo bfloat16": "zoo, bfloat16",
    "saved_model": "zoo, SavedModel",
    "tfa": "TensorFlow Addons",
    "joeynmt": "JoeyNMT",
    "ctranslate2": "CTranslate2",
    "keras": "Keras 3, KerasHub",
}
STEPS = 20  # words that every search writes
RIVALS = (  # of a search: model, units, libraries
    ("bahdanau", 256, ["tfa", "joeynmt", "keras"]),
    ("transformer", 128, ["ctranslate2", "joeynmt"]),
)


def compare(libraries, spec, turns):
    """{library: measured}, the libraries by turns."""
    workers = {library: Worker(library, spec) for library in libraries}
    results = {library: [] for library in libraries}
    for _ in range(turns):
        for library, worker in workers.items():
            results[library].append(worker.run())
    measured = {}
    for library, worker in workers.items():
        seconds = [result["seconds"] for result in results[library]]
        middle = statistics.median(seconds)
        measured[library] = {
            **results[library][-1],
            "seconds": middle,
            "spread": (max(seconds) - min(seconds)) / middle,
            "each": [s for result in results[library] for s in result.get("each", [])],
            "start_up": worker.start_up,
            "peak_mb": worker.end(),
        }
    return measured


def tell(title, unit, measured, value):
    """Prints a group of rows, and how many times each is of the zoo's first one."""
    print(f"\n{title}")
    rows, first = [], None
    for library, one in measured.items():
        number = value(one)
        first = first or number
        rows.append({"library": library, unit: number, "over": number / first})
        print(
            f"  {NAMES[library]:20} {number:10,.1f} {unit:16} {number / first:6.2f}x   "
            f"spread {one['spread']:4.0%}   {one['peak_mb']:6,.0f} MB"
        )
    if "ctranslate2" in measured:  # it has the weights of the zoo's Transformer
        ours, theirs = measured["saved_model"]["found"], measured["ctranslate2"]["found"]
        same = sum(a == b for a, b in zip(ours, theirs, strict=True))
        print(f"  {same} of {len(ours)} outputs of CTranslate2 are the zoo's, word for word")
    sys.stdout.flush()
    return {"title": title, "unit": unit, "rows": rows, "measured": measured}


def saved(spec, folder):
    """The path of the SavedModel of a spec, written once."""
    name = "-".join(str(spec[key]) for key in ("model", "units", "beam"))
    path = str(folder / name)
    if not pathlib.Path(path).exists():
        writers = ["zoo", "ctranslate2"] if spec["model"] == "transformer" else ["zoo"]
        for library in writers:
            given = json.dumps({**spec, "path": path})
            command = [python_of(library), str(WORKERS / f"{library}_worker.py"), given, path]
            done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{command} failed:\n{done.stderr[-3000:]}")
    return {**spec, "path": path}


def training(args, folder):
    for units in (256, 512):
        for model in ("bahdanau", "luong", "transformer"):
            spec = {"job": "train", "model": model, "units": units, "layers": 3}
            spec |= {"batch": 64, "batches": 4}
            peers = ["joeynmt"] if model == "transformer" else ["tfa", "joeynmt", "keras"]
            measured = compare(["zoo", "zoo bfloat16", *peers], spec, args.turns)
            title = f"training, {model}, {units} units, batch 64"
            yield tell(title, "tokens/s", measured, lambda x: x["tokens"] / x["seconds"])


def products(args, folder):
    spec = {"job": "products", "model": "luong", "units": 512, "batch": 64, "source_length": 16}
    measured = compare(["zoo"], spec, 3 * args.turns)["zoo"]
    share = measured["products"] / measured["seconds"]
    print(
        f"\nmatrix products of a Luong step of 512 units (64 x 16 tokens): {share:.0%} of it "
        f"({1000 * measured['products']:.0f} of {1000 * measured['seconds']:.0f} ms, "
        f"{measured['gigaflops']:.0f} gigaflops)"
    )
    yield {"title": "products", "share": share, "measured": {"zoo": measured}}


def search(args, folder):
    for model, units, peers in RIVALS:
        for beam in (5,) if args.quick else (1, 5, 10):
            for batch in (1, 16, 64):
                spec = {"job": "search", "model": model, "units": units, "layers": 4}
                spec |= {"batch": batch, "batches": 32 if batch == 1 else 2}
                spec |= {"beam": beam, "steps": STEPS, "clients": 1}
                spec = saved(spec, folder)
                others = [x for x in peers if (x, beam) != ("keras", 1)]
                measured = compare(["saved_model", *others], spec, args.turns)
                title = f"search, {model}, {units} units, beam {beam}, batch {batch}, text to text"
                yield tell(title, "sentences/s", measured, lambda x: x["sentences"] / x["seconds"])
                if batch == 1:
                    for library, one in measured.items():
                        each = sorted(1000 * s for s in one["each"])
                        p50, p99 = each[len(each) // 2], each[int(len(each) * 0.99)]
                        one["p50_ms"], one["p99_ms"] = p50, p99
                        print(
                            f"  {NAMES[library]:20} one sentence: p50 {p50:.1f}, p99 {p99:.1f} ms"
                        )


def start_up(args, folder):
    """From the start of a process to its first answer, once, after all have run before."""
    for model, units, peers in RIVALS:
        spec = {"job": "search", "model": model, "units": units, "layers": 4, "batch": 1}
        spec = saved({**spec, "batches": 1, "beam": 5, "steps": STEPS, "clients": 1}, folder)
        measured = compare(["saved_model", *peers], spec, 1)
        title = f"start of a process to its first answer, {model}, beam 5"
        yield tell(title, "s", measured, lambda x: x["start_up"])


def throughput(args, folder):
    """Two clients at a time with a thread for each, as a server has them."""
    spec = {"job": "search", "model": "transformer", "units": 128, "layers": 4, "batch": 64}
    spec |= {"batches": 4, "beam": 5, "steps": STEPS, "clients": 2}
    measured = compare(["saved_model", "ctranslate2"], saved(spec, folder), args.turns)
    title = "search, transformer, 128 units, beam 5, batch 64, two clients at a time"
    yield tell(title, "sentences/s", measured, lambda x: x["sentences"] / x["seconds"])


GROUPS = {
    "training": training,
    "products": products,
    "search": search,
    "throughput": throughput,
    "start_up": start_up,
}


def table(groups):
    """All rows as Markdown: what the zoo does, and how many times that of each peer it is."""
    libraries = [x for x in NAMES if x not in ("zoo", "saved_model")]
    heads = [NAMES[x] if x.startswith("zoo") else f"over {NAMES[x]}" for x in libraries]
    lines = ["| | zoo | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for group in groups:
        if "rows" not in group:
            continue
        first, *others = group["rows"]
        unit, cells = group["unit"], {}
        for row in others:
            ratio = first[unit] / row[unit]
            cells[row["library"]] = f"{1 / ratio if unit == 's' else ratio:.2f}x"
            if row["library"].startswith("zoo"):
                cells[row["library"]] = f"{row[unit]:,.0f} {unit}"
        number = f"{first[unit]:,.1f}" if first[unit] < 100 else f"{first[unit]:,.0f}"
        row = [group["title"], f"{number} {unit}", *(cells.get(x, "") for x in libraries)]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def machine():
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":")[1].strip()
    versions = {}
    for library in ("zoo", *PACKAGES):
        command = [python_of(library), "-m", "pip", "list", "--format=json"]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        wanted = ("tensorflow", "tensorflow-cpu", "tensorflow-addons", "keras", "keras-hub")
        wanted += ("torch", "joeynmt", "ctranslate2")
        versions |= {f"{library}: {x['name']}": x["version"] for x in listed if x["name"] in wanted}
    return {"processor": model, "cores": os.cpu_count(), "python": platform.python_version()} | {
        "date": datetime.date.today().isoformat(),
        "versions": versions,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="beam 5 alone, fewer turns")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--turns", type=int, help="by default 5, and 3 with --quick")
    parser.add_argument("--output", default=str(HERE / "results.json"))
    args = parser.parse_args()
    args.turns = args.turns or (3 if args.quick else 5)
    about = machine()
    print(f"{about['cores']} cores of {about['processor']}; two threads each; {args.turns} turns")
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    groups = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            groups += GROUPS[name](args, pathlib.Path(folder))
    for group in groups:
        for one in group["measured"].values():
            one.pop("each", None)
            one.pop("found", None)
    results = {"machine": about, "turns": args.turns, "groups": groups}
    pathlib.Path(args.output).write_text(json.dumps(results, indent=1) + "\n")
    print(f"\n{table(groups)}\n\nwritten: {args.output}")


if __name__ == "__main__":
    main()
