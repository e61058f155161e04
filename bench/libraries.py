"""The libraries that are compared: their environments, and a process of one at its work."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
WORKERS = HERE / "workers"
ENVIRONMENTS = HERE / ".envs"
PACKAGES = {
    "tfa": ["tensorflow-cpu==2.15.1", "tensorflow-addons==0.23.0"],
    # (importlib_metadata: it imports it without asking for it)
    "joeynmt": ["torch==2.13.0", "joeynmt==2.3.0", "importlib_metadata"],
    "ctranslate2": ["ctranslate2==4.8.*", "numpy"],
}
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "2",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def python_of(library):
    """The interpreter of a library, installed if it is not."""
    if library not in PACKAGES:
        return sys.executable
    folder = ENVIRONMENTS / library
    if not (folder / "installed").exists():
        print(f"installing {', '.join(PACKAGES[library])}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES[library]], check=True)
        (folder / "installed").touch()
    return str(folder / "bin/python")


class Worker:
    """One library at one piece of work, in a process."""

    def __init__(self, library, spec):
        library, *policy = library.split()
        if policy:
            spec = {**spec, "policy": f"mixed_{policy[0]}"}
        began = time.perf_counter()
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (as long as the process)
        self.process = subprocess.Popen(
            [python_of(library), str(WORKERS / f"{library}_worker.py"), json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=ENVIRONMENT,
        )
        self._answer()
        self.start_up = time.perf_counter() - began
        self.process.send_signal(signal.SIGSTOP)

    def run(self):
        answer = self._ask("run")
        # Its idle threads may spin for more work: they take no time from who is next.
        self.process.send_signal(signal.SIGSTOP)
        return answer

    def end(self):
        """Its peak of memory, in MB."""
        peak = self._ask("end")["peak_mb"]
        self.process.wait()
        return peak

    def _ask(self, line):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self):
        for line in self.process.stdout:
            if line.startswith("BENCH "):
                return json.loads(line.removeprefix("BENCH "))
        self.errors.seek(0)
        raise SystemExit(f"{self.process.args} failed:\n{self.errors.read()[-3000:]}")
