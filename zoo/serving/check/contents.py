"""What can be said of a SavedModel's files and of its graph without running it."""

import pathlib

from zoo.serving.saved_model import GRAPH, is_version

INIT = "__saved_model_init_op"  # stands among the signatures and is none

PYTHON_OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
XLA = "_XlaMustCompile"


def find_folder(path):
    """The version that TF Serving would load from saved_models/NAME, or the path if it is one.

    It takes the folder with the highest number, whatever is in it.
    """
    path = pathlib.Path(path)
    if not path.is_dir():
        raise FileNotFoundError(
            f"{path} is no folder. `zoo list` shows the SavedModels that are there"
        )
    if (path / GRAPH).exists():
        return path
    folders = [folder for folder in path.iterdir() if folder.is_dir()]
    numbered = [folder for folder in folders if is_version(folder.name)]
    if numbered:
        return max(numbered, key=lambda folder: int(folder.name))
    others = sorted(folder for folder in folders if (folder / GRAPH).exists())
    if others:
        return others[-1]
    raise FileNotFoundError(
        f"{path} has no SavedModel: neither {GRAPH} nor a folder like 1/ with one. "
        "`zoo export RUN --output saved_models/NAME` makes one"
    )


def file_findings(folder, graph):
    """What is wrong with the folder and its files."""
    folder = folder.resolve()
    if not is_version(folder.name):
        yield (
            f"the folder is named {folder.name!r}, and TF Serving looks at whole numbers only: "
            f"rename it to {folder.parent / '1'}"
        )
    for asset in graph.asset_file_def:
        if not (folder / "assets" / asset.filename).exists():
            yield f"assets/{asset.filename} is missing: copy it, or export again"
    has_variables = any(node.op in ("VarHandleOp", "VariableV2") for node in graph.graph_def.node)
    if has_variables and not (folder / "variables" / "variables.index").exists():
        yield "variables/variables.index is missing: copy it, or export again"
    elif has_variables and not list((folder / "variables").glob("variables.data-*-of-*")):
        yield "variables/variables.data-* is missing: copy it, or export again"


def signatures(graph):
    """The signatures that clients may ask for, by name."""
    return {name: graph.signature_def[name] for name in sorted(graph.signature_def) if name != INIT}


def signature_findings(name, signature):
    """What of a signature a request cannot be made for, or cannot be batched."""
    if not signature.inputs:
        yield f"{name} has no inputs, so nothing tells the size of a batch: give it one"
    sides = [("input", signature.inputs), ("output", signature.outputs)]
    for side, infos in sides:
        for key, info in sorted(infos.items()):
            if not info.name:
                yield f"{name}: {side} {key!r} is no plain tensor: make it a dense one"
            elif not info.tensor_shape.unknown_rank and not info.tensor_shape.dim:
                yield (
                    f"{name}: {side} {key!r} is a scalar, which cannot be a batch of requests: "
                    "give it the batch as its first dimension"
                )
            elif not info.tensor_shape.unknown_rank and info.tensor_shape.dim[0].size >= 0:
                yield (
                    f"{name}: {side} {key!r} has {info.tensor_shape.dim[0].size} rows always: "
                    "make its first dimension None, the batch"
                )
    if "b64" in signature.inputs:
        yield f"{name}: an input is named 'b64', which means base64 in REST: name it otherwise"


def op_findings(graph, registered):
    """Ops that the server has not, or cannot run, each once.

    Arguments:
        graph: a MetaGraphDef.
        registered: set of str, the ops of TensorFlow and tensorflow-text.
    """
    told = set()
    for place, node in nodes(graph):
        reason = _why_not(node.op, registered)
        if reason and node.op not in told:
            told.add(node.op)
            yield f"op {node.op} in {place}: {reason}"
    functions = [(f"function {f.signature.name}", f) for f in graph.graph_def.library.function]
    calls = [(f"the call {node.name} in {place}", node) for place, node in nodes(graph)]
    asking = [place for place, one in [*functions, *calls] if XLA in one.attr and one.attr[XLA].b]
    if asking:
        more = f" and {len(asking) - 1} more" if len(asking) > 1 else ""
        yield (
            f"{asking[0]}{more} must be compiled by XLA, which TF Serving disables: "
            "export it without jit_compile=True"
        )


def nodes(graph):
    """All nodes, each with the words for where it is."""
    for node in graph.graph_def.node:
        yield "the graph", node
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            yield f"function {function.signature.name}", node


def _why_not(op, registered):
    if op in PYTHON_OPS:
        return "it calls Python, which TF Serving has not: write it in TensorFlow's own ops"
    if op.startswith("Cudnn"):
        return "it runs on GPUs only: export where none is visible, with CUDA_VISIBLE_DEVICES=''"
    if op.startswith("Xla"):
        return "it needs XLA, which TF Serving disables: export it without jit_compile=True"
    if op not in registered:
        return "neither TensorFlow nor tensorflow-text has it: write it in their ops"
    return None
