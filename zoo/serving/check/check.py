"""Will TF Serving load a SavedModel and run it? Each finding is a line that says what to do."""

import collections

from zoo.serving.check import answers, contents, requests
from zoo.serving.check.process import Failure, Process
from zoo.serving.saved_model import read_graph

Line = collections.namedtuple("Line", "is_good group text")
MANY = 33  # rows of a large batch; where a model splits its batches, it does so before


def check_saved_model(path, python=None, timeout=120.0):
    """Loads a SavedModel as TF Serving does and tries it; gives a line for each thing looked at.

    It is loaded in a process of its own, by the C library of TensorFlow, with the ops of
    tensorflow-text, without XLA and without Python; then every signature is run on the warm-up
    requests and on awkward ones, on rows alone and among others, and on none.

    Arguments:
        path: saved_models/NAME, which means its newest version, or a version's folder.
        python: path of the Python whose tensorflow and tensorflow-text load it; by default this.
        timeout: float, the seconds that loading or a request may take.

    Yields `Line`s (is_good, group, text) as they are found; what TF Serving will serve has good
    ones only.
    """
    folder = contents.find_folder(path)
    try:
        graph = read_graph(folder)
    except ValueError as error:
        yield Line(False, "files", str(error))
        return
    files = len([file for file in folder.rglob("*") if file.is_file()])
    yield from _lines("files", contents.file_findings(folder, graph), f"{files}, none missing")

    signatures = contents.signatures(graph)
    findings = [
        f for name, one in signatures.items() for f in contents.signature_findings(name, one)
    ]
    findings += [] if signatures else ["there is none: pass signatures= to tf.saved_model.save"]
    yield from _lines("signatures", findings, ", ".join(signatures))

    process = Process(folder, python, timeout)
    try:
        yield from _try_out(process, folder, graph, signatures)
    finally:
        process.close()


def _try_out(process, folder, graph, signatures):
    """What needs the process."""
    try:
        registered = process.ops()
    except Failure as error:
        raise ValueError(
            f"{process.python} cannot load a SavedModel as TF Serving: {error}"
        ) from error
    used = {node.op for _, node in contents.nodes(graph)}
    findings = list(contents.op_findings(graph, registered))
    yield from _lines("ops", findings, f"{len(used)} kinds, all of which TF Serving has")
    try:
        process.load()
    except Failure as error:
        yield Line(False, "load", f"{error}: mend it and check again, as no request can be tried")
        return
    yield Line(True, "load", f"TensorFlow {process.tensorflow}, with XLA disabled")
    signatures = {
        name: one
        for name, one in signatures.items()
        if one.inputs and all(info.name for info in [*one.inputs.values(), *one.outputs.values()])
    }
    yield from _try_signatures(Trial(process, signatures), folder)


def _try_signatures(trial, folder):
    """What needs answers."""
    warm_up, findings = requests.warm_up_requests(folder, trial.signatures)
    findings += [
        f"warm-up request {number} ({name}) fails: {error}"
        for number, name, columns in warm_up
        if (error := trial.failure(name, columns))
    ]
    yield from _lines("warm-up", findings, f"{len(warm_up)} requests replayed")

    rows = {}
    for name, signature in trial.signatures.items():
        rows[name] = requests.ordinary_rows(name, signature, warm_up)
        if rows[name] is None:
            yield Line(False, "requests", f"{name} was not tried: write warm-up requests for it")
        elif error := trial.failure(name, rows[name]):  # all else would fail for the same reason
            if not any(asked == name for _, asked, _ in warm_up):
                yield Line(False, "requests", f"{name} fails on ordinary texts: {error}")
            rows[name] = None
    tried = [name for name in rows if rows[name] is not None]
    groups = [
        ("awkward", _awkward_findings, "anything that clients may send is answered"),
        ("batches", _batch_findings, "a row alone and among others has the same answer"),
        ("empty", _empty_findings, "a batch without rows is answered"),
    ]
    for group, function, summary in groups:
        findings = [f for name in tried for f in function(trial, name, rows[name])]
        if tried:
            yield from _lines(group, findings, summary)
    if trial.num_answers:
        summary = f"{trial.num_answers}, batch first, valid UTF-8, finite numbers"
        yield from _lines("answers", trial.findings.values(), summary)


class Trial:
    """Asks signatures, and keeps what is wrong with the answers, each finding once."""

    def __init__(self, process, signatures):
        self.process = process
        self.signatures = signatures
        self.findings = {}
        self.num_answers = 0

    def answer(self, name, columns):
        """The outputs of a signature by name, or Failure."""
        signature = self.signatures[name]
        feeds = {signature.inputs[key].name: array for key, array in columns.items()}
        outputs = {key: info.name for key, info in sorted(signature.outputs.items())}
        answer = dict(zip(outputs, self.process.run(feeds, list(outputs.values())), strict=True))
        self.num_answers += 1
        for what, finding in answers.answer_findings(name, requests.num_rows(columns), answer):
            self.findings.setdefault(what, finding)
        return answer

    def failure(self, name, columns):
        """Why a request fails, or None."""
        try:
            self.answer(name, columns)
        except Failure as error:
            return str(error)
        return None


def _awkward_findings(trial, name, rows):
    """All awkward rows in one request; if it fails, each by itself, to tell which."""
    awkward = requests.awkward_rows(trial.signatures[name], rows)
    if not awkward:
        return
    error = trial.failure(name, requests.join([row for _, row in awkward]))
    if not error:
        return
    for kind, row in awkward:
        if own := trial.failure(name, row):
            yield (
                f"{name} fails on {kind}, and so do the requests in a batch with it: {own}. "
                "Answer it with something"
            )
            if own.startswith("no answer"):
                return
            error = None
    if error:
        yield f"{name} fails on a batch of awkward rows, not on each alone: {error}"


def _batch_findings(trial, name, rows):
    signature = trial.signatures[name]
    if requests.has_images(signature):  # those that the model answers at all
        awkward = [row for _, row in requests.awkward_rows(signature, rows)]
        rows = requests.join([rows, *(row for row in awkward if not trial.failure(name, row))])
    rows = requests.mates(signature, rows)
    size = requests.num_rows(rows)
    alone, different = [], {}
    try:
        for i in range(size):
            alone.append(trial.answer(name, requests.take(rows, [i])))
        for others in (size, MANY):
            order = [i % size for i in range(others)]
            together = trial.answer(name, requests.take(rows, order))
            for place, i in enumerate(order):
                for key in answers.differences(alone[i], together, place):
                    different.setdefault(key, i)
        for key, i in different.items():
            again = trial.answer(name, requests.take(rows, [i]))
            if key in answers.differences(alone[i], again, 0):
                yield f"{name}: output {key!r} changes from call to call: draw nothing at random"
            else:
                yield (
                    f"{name}: output {key!r} of a row depends on the rows in a batch with it: mask "
                    "the padding, and compute nothing over the batch"
                )
    except Failure as error:
        yield f"{name} fails on a batch of {size} rows or one of them: {error}"


def _empty_findings(trial, name, rows):
    error = trial.failure(name, requests.take(rows, []))
    if error:
        yield (
            f'{name} fails on a batch without rows, {{"inputs": []}}: {error}. '
            "Compute on a row more, and leave it out of the answer"
        )


def _lines(group, findings, summary):
    findings = list(findings)
    if not findings:
        yield Line(True, group, summary)
    for finding in findings:
        yield Line(False, group, finding)
