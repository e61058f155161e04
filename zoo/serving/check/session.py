"""A session on a SavedModel, opened the way that TF Serving opens it, in a process of its own.

This file is run by its path, by any Python that has the wheels of tensorflow and tensorflow-text,
and imports neither: it calls the C library in the wheel. So the process holds what the server is
linked with and nothing more: TensorFlow, the ops of tensorflow-text, no XLA, no Python functions.

    python session.py FILE_DESCRIPTOR

On the file descriptor come pickled calls, ("load", (folder,)), and go answers, (True, value) or
(False, message). Tensors travel as (type number, shape, bytes or list of bytes).
"""

import ctypes
import functools
import glob
import importlib.util
import math
import os
import sys
from multiprocessing.connection import Connection

STRING = 7  # TF_STRING
STRING_SIZE = 24  # of a TF_TString


class Output(ctypes.Structure):
    """TF_Output: the index-th output of an operation."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


class Buffer(ctypes.Structure):
    """TF_Buffer."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    ]


POINTERS = (
    "TF_AllocateTensor",
    "TF_GetAllOpList",
    "TF_GraphOperationByName",
    "TF_LoadLibrary",
    "TF_LoadSessionFromSavedModel",
    "TF_NewGraph",
    "TF_NewSessionOptions",
    "TF_NewStatus",
    "TF_StringGetDataPointer",
    "TF_TensorData",
)


def main():
    connection = Connection(int(sys.argv[1]))
    try:
        library = open_library()
    except (OSError, LookupError) as error:
        connection.send((False, str(error)))
        return
    connection.send((True, library.TF_Version().decode()))
    calls = {"ops": ops, "load": load, "run": run}
    opened = {}  # what `load` leaves for `run`
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, calls[name](library, opened, *arguments)))
        except RuntimeError as error:
            connection.send((False, str(error)))


def open_library():
    """TensorFlow's C library, with tensorflow-text's ops registered in it and XLA disabled."""
    tensorflow, text = folder_of("tensorflow"), folder_of("tensorflow_text")
    ctypes.CDLL(os.path.join(tensorflow, "libtensorflow_framework.so.2"), ctypes.RTLD_GLOBAL)
    path = os.path.join(tensorflow, "libtensorflow_cc.so.2")
    library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    for name in POINTERS:
        getattr(library, name).restype = ctypes.c_void_p
    library.TF_Version.restype = library.TF_Message.restype = ctypes.c_char_p
    library.TF_TensorByteSize.restype = library.TF_StringGetSize.restype = ctypes.c_size_t
    library.TF_Dim.restype = ctypes.c_int64
    # The server does this at its start: what asks for XLA loads, and fails when it is run.
    library._ZN10tensorflow21DisableXlaCompilationEv()
    found = sorted(glob.glob(os.path.join(text, "python", "*", "*.so")))
    if not found:
        raise LookupError(f"{text} has no libraries of ops")
    for op_library in found:
        checked(library, library.TF_LoadLibrary, os.fsencode(op_library))
    return library


def folder_of(package):
    """Where a package is, which is not imported for it."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise LookupError(f"{sys.executable} has no package {package}")
    return os.path.dirname(spec.origin)


def checked(library, function, *arguments):
    """Calls a function whose last argument is a TF_Status."""
    status = ctypes.c_void_p(library.TF_NewStatus())
    value = function(*arguments, status)
    failed, message = library.TF_GetCode(status), library.TF_Message(status)
    library.TF_DeleteStatus(status)
    if failed:
        raise RuntimeError(message.decode("utf-8", "replace"))
    return value


def ops(library, opened):
    """All registered ops, as a serialised OpList."""
    buffer = Buffer.from_address(library.TF_GetAllOpList())
    return ctypes.string_at(buffer.data, buffer.length)


def load(library, opened, folder):
    """Opens a session: the graph of the tag `serve`, its variables restored, its tables filled."""
    options = ctypes.c_void_p(library.TF_NewSessionOptions())
    opened["graph"] = ctypes.c_void_p(library.TF_NewGraph())
    tags = (ctypes.c_char_p * 1)(b"serve")
    arguments = [options, None, os.fsencode(folder), tags, 1, opened["graph"], None]
    session = checked(library, library.TF_LoadSessionFromSavedModel, *arguments)
    opened["session"] = ctypes.c_void_p(session)


def run(library, opened, feeds, fetches):
    """The tensors named in fetches, a list, computed from feeds, {tensor name: tensor}."""
    find = functools.partial(output, library, opened["graph"])
    fed = (Output * len(feeds))(*map(find, feeds))
    fetched = (Output * len(fetches))(*map(find, fetches))
    values = [new_tensor(library, *tensor) for tensor in feeds.values()]
    inputs = (ctypes.c_void_p * len(feeds))(*values)
    outputs = (ctypes.c_void_p * len(fetches))()
    try:
        checked(
            library, library.TF_SessionRun, opened["session"], None,
            fed, inputs, len(feeds), fetched, outputs, len(fetches), None, 0, None,
        )  # fmt: skip
        return [read_tensor(library, ctypes.c_void_p(tensor)) for tensor in outputs]
    finally:
        for tensor in [*inputs, *outputs]:
            if tensor:
                library.TF_DeleteTensor(ctypes.c_void_p(tensor))


def output(library, graph, tensor_name):
    operation, _, index = tensor_name.partition(":")
    found = library.TF_GraphOperationByName(graph, operation.encode())
    if not found:
        raise RuntimeError(f"there is no operation {operation} in the graph")
    return Output(found, int(index or 0))


def new_tensor(library, dtype, shape, data):
    """A TF_Tensor. What its strings hold is left behind, as long as this process lives."""
    dims = (ctypes.c_int64 * len(shape))(*shape)
    is_string = dtype == STRING
    size = STRING_SIZE * len(data) if is_string else len(data)
    tensor = library.TF_AllocateTensor(dtype, dims, len(shape), ctypes.c_size_t(size))
    start = library.TF_TensorData(ctypes.c_void_p(tensor))
    if not is_string:
        ctypes.memmove(start, data, size)
        return tensor
    for i, text in enumerate(data):
        place = ctypes.c_void_p(start + STRING_SIZE * i)
        library.TF_StringInit(place)
        library.TF_StringCopy(place, text, ctypes.c_size_t(len(text)))
    return tensor


def read_tensor(library, tensor):
    dtype = library.TF_TensorType(tensor)
    shape = tuple(library.TF_Dim(tensor, i) for i in range(library.TF_NumDims(tensor)))
    start = library.TF_TensorData(tensor)
    if dtype != STRING:
        return dtype, shape, ctypes.string_at(start, library.TF_TensorByteSize(tensor))
    texts = []
    for i in range(math.prod(shape)):
        place = ctypes.c_void_p(start + STRING_SIZE * i)
        length = library.TF_StringGetSize(place)
        texts.append(ctypes.string_at(library.TF_StringGetDataPointer(place), length))
    return dtype, shape, texts


if __name__ == "__main__":
    main()
