"""Values of Python as values of link files: numbers are in bit/s, bytes, seconds or packets."""

from __future__ import annotations

import json
import math
from typing import Any

# Units of the numbers within curves, contracts and buckets.
_PARTS = {
    "rate": "rate", "peak": "rate", "m1": "rate", "m2": "rate", "burst": "size", "bytes": "size",
    "delay": "time", "d": "time", "every": "time",
    "uniform": "size", "header": "size", "exponential": "size", "lognormal": "size", "deviation": "size",
    "min": "size", "max": "size", "mean": "time", "xmin": "time", "xave": "time", "smax": "size", "line": "rate",
}  # fmt: skip

# Units of the numbers of a source; other keys of it have none.
SOURCE = {
    "rate": "rate", "return_rate": "rate", "packet": "size", "request": "size", "response": "size",
    "on": "time", "off": "time", "rtt": "time", "think": "time", "burst": "packets", "shape_queue": "packets",
}  # fmt: skip


def value(key: str, given: Any, unit: str) -> str:
    """Returns a value in TOML. `unit` is what a number of this key is in."""
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, str):
        # TOML allows the escapes of JSON; it forbids DEL as it is.
        return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(given, int | float):
        return _number(key, given, unit)
    if isinstance(given, dict):
        parts = (f"{json.dumps(str(k))} = {value(f'{key}.{k}', v, _PARTS.get(str(k), unit))}" for k, v in given.items())
        return "{ " + ", ".join(parts) + " }"
    if isinstance(given, list | tuple):
        return "[" + ", ".join(value(key, one, unit) for one in given) + "]"
    raise TypeError(f"{key}: a value of type {type(given).__name__} cannot be written into a link file")


def _number(key: str, number: float, unit: str) -> str:
    if not math.isfinite(number):
        raise ValueError(f"{key}: {number} is not a finite number")
    if unit == "time":
        return f'"{round(number * 1e9)}ns"'
    if not unit:
        return str(number)
    whole = round(number)
    return f'"{whole}{ {"rate": "bit", "size": "B", "packets": "p"}[unit] }"'
