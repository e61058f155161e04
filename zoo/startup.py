"""How the command `zoo` starts: at once, and without TensorFlow's lines or a Ctrl-C's traceback."""

import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import threading


def is_command():
    """Whether this process is the command `zoo`, and no program that imports the zoo."""
    return pathlib.Path(sys.argv[0]).name == "zoo"


def load_library():
    """Imports all that takes seconds; under the command, `import zoo` alone does not."""
    with quiet_command():
        import zoo.library

    names = vars(zoo.library)
    vars(zoo).update({name: names[name] for name in names if not name.startswith("_")})


@contextlib.contextmanager
def quiet_command():
    """Within it, nothing reaches stderr if this is the command, unless something goes wrong.

    TensorFlow writes on the file descriptor, before any log level of it can be set. A program that
    imports the zoo as a library keeps all its lines.
    """
    if not is_command():
        yield
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # and later ones: what matters is raised
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as lines, ctrl_c_ends():
        os.dup2(lines.fileno(), 2)
        try:
            yield
        except BaseException:
            lines.seek(0)
            os.write(kept, lines.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def ctrl_c_ends():
    """Within it Ctrl-C ends the process at once: Python would hear of it when all is over."""
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or handler is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
