"""Checks that several layers make of their arguments: what was expected, what was received."""

import math
import operator


def integer(name, value, minimum):
    """The value as an int, from anything that is one (numpy's too)."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < minimum:
        raise ValueError(
            f"`{name}` must be an integer of at least {minimum}. Received: {name}={value!r}"
        )
    return number


def divisor(name, value, whole_name, whole):
    value = integer(name, value, 1)
    if whole % value:
        raise ValueError(f"`{name}` must divide {whole_name}={whole}. Received: {name}={value}")
    return value


def number(name, value, wanted="a number, 0 or more", fits=lambda x: x >= 0):
    """The value as a finite float that fits."""
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and fits(number)):
        raise ValueError(f"`{name}` must be {wanted}. Received: {name}={value!r}")
    return number


def rate(name, value):
    """The value as a share of units that are dropped."""
    return number(name, value, "in [0, 1)", lambda x: 0 <= x < 1)


def boolean(name, value, hint=""):
    if not isinstance(value, bool):
        raise ValueError(
            f"`{name}` must be True or False{hint}. Received: {name} of type {type(value).__name__}"
        )
    return value


def one_of(name, value, choices):
    if not isinstance(value, str) or value not in choices:
        received = repr(value) if isinstance(value, (str, int)) else type(value).__name__
        raise ValueError(f"`{name}` must be one of {choices}. Received: {name}={received}")
    return value


def encoded(result, encoder):
    """The three things that an encoder returns."""
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        count = len(result) if isinstance(result, (tuple, list)) else 1
        raise ValueError(
            "An encoder must return three things: memory, memory_mask, summary, None where there "
            f"is none. Received: {count} from {type(encoder).__name__}"
        )
    return result


def shape(name, tensor, axes, sizes=()):
    """Checks a tensor's rank, and the static sizes of its axes where they are known.

    axes are the names of the axes for the message, sizes the expected ones (None: any).
    """
    received = tuple(getattr(tensor, "shape", ()))
    wrong = len(received) != len(axes)
    for actual, expected in zip(received, sizes, strict=False):
        wrong = wrong or (None not in (actual, expected) and actual != expected)
    if wrong:
        known = [
            axis if size is None else f"{axis}={size}"
            for axis, size in zip(axes, [*sizes, *[None] * len(axes)], strict=False)
        ]
        raise ValueError(
            f"`{name}` must have shape ({', '.join(known)}). Received: {name}.shape={received}"
        )
