"""Sweeps, as columns."""

from __future__ import annotations

import json
from array import array
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Union

from . import _core
from .words import question_words

try:
    import numpy as _numpy
except ImportError:  # columns are lists then
    _numpy = None  # type: ignore[assignment]


class Table(Dict[str, Any]):
    """Columns by name: ``pandas.DataFrame(table)`` takes it as it is. Numbers are numpy's arrays where there is a numpy,
    else lists; a point that was refused has NaN (of words None) for its figures and its reason in ``error``.

    ``axes``: names of the columns that say which point it is. ``points``: of the study; ``refused``: those that could not
    be modelled. Points that conditions left out have no row.
    """

    axes: list[str]
    points: int
    kept: int
    refused: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values()))) if self else 0

    def records(self) -> Iterator[dict[str, Any]]:
        """Row by row."""
        names = list(self)
        for values in zip(*self.values()):
            yield dict(zip(names, values))

    def plot(self, x: Optional[str] = None, y: str = "latency_s", by: Optional[str] = None, ax: Any = None) -> Any:
        """Draws ``y`` over ``x`` (the last axis), a line for each value of ``by``. Needs matplotlib; gives back its axes."""
        from . import plots

        return plots.draw_table(self, x, y, by, ax)

    def __repr__(self) -> str:
        return f"Table of {self.rows} rows: " + ", ".join(self)


def _number_or_word(text: str) -> Any:
    """A value of an axis: a number where it is one, as the program's JSON has it."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else text


def _chosen(values: Sequence[Any], raw: bytes) -> Any:
    """Of each row the value whose place it has; -1 is the last one's."""
    places = array("i")
    places.frombytes(raw)
    return list(map(values.__getitem__, places))


def _axis_columns(axes: Sequence[Any]) -> dict[str, Any]:
    """What each row's place on every axis is."""
    columns: dict[str, Any] = {}
    for names, values, raw in axes:
        for i, name in enumerate(names):
            found = [_number_or_word(each[i]) for each in values]
            if _numpy is not None and all(isinstance(each, (int, float)) for each in found):
                columns[name] = _numpy.array(found)[_numpy.frombuffer(raw, dtype="int32")]
            else:
                columns[name] = _chosen(found, raw)
    return columns


def _figures(kind: str, raw: bytes, words: Sequence[str]) -> Any:
    if kind == "word":
        return _chosen([*words, None], raw)
    if kind == "bool":
        found = _chosen([False, True, None], raw)
        return found if _numpy is None or None in found else _numpy.array(found, dtype=bool)
    numbers = array("d")
    numbers.frombytes(raw)
    return numbers.tolist() if _numpy is None else _numpy.frombuffer(raw)


def sweep(
    model: Any = None,
    gpu: Any = None,
    *,
    op: Optional[str] = None,
    set: Optional[Mapping[str, Any]] = None,
    where: Union[str, Sequence[str]] = (),
    columns: Sequence[str] = (),
    objective: str = "",
    pareto: Sequence[str] = (),
    top: int = 0,
    threads: int = 0,
    progress: Optional[Callable[[int, int], None]] = None,
    **flags: Any,
) -> Table:
    """Every point of a grid: any keyword of :func:`predict` (with ``op="gemm"`` of :func:`op`) may be a list, a range, or
    text as the program's lists are: ``batch=[1, 8, 64]``, ``batch="1:64:x2"``, ``set={"memory.bandwidth": "4:8:1TB/s"}``.
    The last one runs fastest. ``model`` may be a study's file.

    ``where``: conditions that points hold, "latency_s<=0.03"; ``columns``: figures, as the JSON calls them; ``top``: the
    best points by ``objective``, best first; ``pareto``: points that no other beats in all of these; ``threads``: one a
    core where it is 0; ``progress(done, points)`` is called now and then. All cores work, and the interpreter's lock is
    free meanwhile.
    """
    is_model = op is None and not (isinstance(model, str) and model.endswith(".json"))
    asked = {"phase": "decode", **flags} if is_model else dict(flags)
    words = question_words(model, gpu, op, set, asked, True)
    found = _core.sweep(
        words,
        [where] if isinstance(where, str) else list(where),
        list(columns),
        objective,
        list(pareto),
        int(top),
        int(threads),
        progress,
    )
    table = Table(_axis_columns(found["axes"]))
    table.axes = list(table)
    for name, (kind, raw, known) in found["figures"]:
        table[name] = _figures(kind, raw, known)
    if found["errors"]:
        table["error"] = [found["errors"].get(row) for row in range(found["rows"])]
    table.points, table.kept, table.refused = found["points"], found["kept"], found["refused"]
    if found["bugs"]:
        raise RuntimeError(f"plumbline: internal error: {found['bugs']} points failed inside the model")
    return table
