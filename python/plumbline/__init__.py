"""What a GPU will do with a transformer: time, power, memory, and how wrong that may be.

    import plumbline as pl

    step = pl.predict("llama-3.1-8b", "h200", phase="decode", batch=32, context=4096)
    print(step.latency_s, step.latency_low_s, step.latency_high_s, step.power_W)

    gpu = pl.gpu("h200")
    gpu.memory.bandwidth_TBps = 6
    faster = pl.predict("llama-3.1-8b", gpu, phase="decode", batch=32, context=4096)

    table = pl.sweep("llama-3.1-8b", ["h100", "h200"], phase="decode", batch="1:256:x2")
    frame = pandas.DataFrame(table)

Functions are the commands of ``predict-model``; keywords are their flags, with ``_`` for ``-`` (``power_cap=500``). Answers
have the keys of the program's JSON and the same numbers, to the bit: SI units, the unit at the end of the key
(docs/predict-model.md). What can't be answered raises :class:`BadInput` or :class:`NotModelled` with the program's line.
Any number of threads may ask; the interpreter's lock is free meanwhile.
"""

from __future__ import annotations

import os as _os

from . import _core
from ._core import BadInput, Error, NotModelled
from .ask import Answer, diff, graph, list_known, op, plan, predict, sensitivity, solve
from .machine import Gpu, gpu, parameters
from .table import Table, sweep

__version__: str = _core.version


def gpus() -> list[str]:
    """Names of the GPUs that are shipped."""
    return [each["gpu"] for each in list_known("gpus")]


def models() -> list[str]:
    """Names of the models that are shipped."""
    return [each["model"] for each in list_known("models")]


def stacks() -> list[str]:
    """Names of the software stacks that are shipped."""
    return [each["stack"] for each in list_known("stacks")]


def data_folder() -> str:
    """Where descriptors, models and coefficients are read from: that of :func:`set_data_folder`, else
    ``$PLUMBLINE_DATA``, else the package's own."""
    return _core.data_folder()


def set_data_folder(path: str) -> None:
    """Chooses the folder of data from now on. What was read before stays as it is."""
    _core.set_data_folder(_os.fspath(path))


_own_data = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "data")
if _os.path.isdir(_own_data):
    _core.know_installed_data(_own_data)

__all__ = [
    "Answer",
    "BadInput",
    "Error",
    "Gpu",
    "NotModelled",
    "Table",
    "data_folder",
    "diff",
    "gpu",
    "gpus",
    "graph",
    "models",
    "op",
    "parameters",
    "plan",
    "predict",
    "sensitivity",
    "set_data_folder",
    "solve",
    "stacks",
    "sweep",
]
