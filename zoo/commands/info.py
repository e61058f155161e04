import platform
from importlib import metadata


def info():
    """Prints the versions that a bug report needs."""
    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in ("keras-zoo", "keras", "tensorflow", "tensorflow-text", "tensorflow-datasets"):
        print(package, metadata.version(package))
