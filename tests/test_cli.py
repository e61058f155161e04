import subprocess
import sys

import keras


def zoo(*arguments):
    code = "from zoo.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


def test_info_tells_the_versions():
    run = zoo("info")
    assert run.returncode == 0
    assert f"keras {keras.__version__}" in run.stdout.splitlines()


def test_an_unknown_command_is_a_usage_error():
    run = zoo("dance")
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
