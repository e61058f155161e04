"""Prints the TF_CONFIG of one worker of several that are named by their number.

export TF_CONFIG=$(python tf_config.py --index 0 --count 2 --address 'zoo-{}.zoo:2222')
"""

import argparse
import json


def tf_config(index, count, address):
    """The JSON that TensorFlow reads from the environment; the first worker is the chief."""
    if not 0 <= index < count:
        raise SystemExit(f"--index must be 0 to {count - 1}, below --count. Received: {index}")
    if "{}" not in address:
        raise SystemExit(f"--address must have {{}} for the worker's number. Received: {address}")
    cluster = {"worker": [address.format(i) for i in range(count)]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=int, required=True, help="this worker's number, from 0")
    parser.add_argument("--count", type=int, required=True, help="number of workers")
    parser.add_argument("--address", required=True, help="HOST:PORT with {} for the number")
    options = parser.parse_args()
    print(tf_config(options.index, options.count, options.address))
