"""A GPU whose numbers can be changed as attributes."""

from __future__ import annotations

import os
from typing import Any, Iterator, Optional, Union

from . import _core

#: How units are spelled behind the last name of a number: ``bandwidth_TBps``.
_SUFFIXES = {
    unit.replace("/s", "ps"): unit
    for unit in (
        "B/s kB/s MB/s GB/s TB/s MiB/s GiB/s TiB/s FLOP/s GFLOP/s TFLOP/s PFLOP/s "
        "B kB MB GB TB KiB MiB GiB TiB s ms us ns Hz kHz MHz GHz W kW mW"
    ).split()
}
_SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_BINARY = {"Ki": 1024.0, "Mi": 1048576.0, "Gi": 1073741824.0, "Ti": 1099511627776.0}
_BASES = ("FLOP/s", "B/s", "Hz", "B", "s", "W")


def _base_unit(units: str) -> str:
    """Of the units that a number is written in ("MHz, GHz"), the one without a prefix; "" of counts and plain numbers."""
    last = units.split(", ")[-1]
    return next((base for base in _BASES if last.endswith(base)), "")


def _scale(unit: str) -> float:
    """How many of its base a unit is: "TB/s" 1e12."""
    base = next(each for each in _BASES if unit.endswith(each))
    prefix = unit[: -len(base)]
    return _BINARY.get(prefix) or _SCALES.get(prefix) or 1.0


class _Numbers:
    """Numbers below a path: ``gpu.memory``."""

    _gpu: "Gpu"
    _path: str

    def __init__(self, gpu: "Gpu", path: str) -> None:
        object.__setattr__(self, "_gpu", gpu)
        object.__setattr__(self, "_path", path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._gpu._read(self._path + name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._gpu._write(self._path + name, value)

    def __dir__(self) -> list[str]:
        below = [path[len(self._path) :] for path in self._gpu if path.startswith(self._path)]
        return sorted({each.split(".")[0] for each in below})

    def __repr__(self) -> str:
        below = [path for path in self._gpu if path.startswith(self._path)]
        return "\n".join(f"{path} = {self._gpu[path]}" for path in below)


class Gpu:
    """A GPU and its numbers, by the paths that ``--set`` takes.

        gpu = pl.gpu("h200")
        gpu.memory.bandwidth_TBps = 6       # with the unit behind the name, or
        gpu.memory.bandwidth = 6e12         # in SI units, or
        gpu.memory.bandwidth = "6 TB/s"     # as --set has it, also
        gpu.sm_count = "+20%"               # relative to the descriptor

    Reading gives SI units, or those behind the name; numbers that the descriptor derives from others follow. A number
    that no machine can have, or a name that there is none of, raises :class:`BadInput` with the nearest. ``gpu[path]``
    does the same with a path as text. :attr:`changes` is what was changed.
    """

    name: str
    changes: dict[str, str]
    _known: Optional[dict[str, tuple[str, Any]]]

    def __init__(self, name: Union[str, "os.PathLike[str]"]) -> None:
        object.__setattr__(self, "name", os.fspath(name))
        object.__setattr__(self, "changes", {})
        object.__setattr__(self, "_known", None)
        self._numbers()

    def copy(self) -> "Gpu":
        """The same machine, to be changed by itself."""
        other = Gpu(self.name)
        other.changes.update(self.changes)
        object.__setattr__(other, "_known", None)
        return other

    def _numbers(self) -> dict[str, tuple[str, Any]]:
        if self._known is None:
            found = _core.gpu_numbers(self.name, list(self.changes.items()))
            object.__setattr__(self, "_known", {path: (unit, value) for path, unit, value in found})
        assert self._known is not None
        return self._known

    def _place(self, path: str) -> tuple[str, Optional[str]]:
        """A path, and the unit that was behind it."""
        known = self._numbers()
        if path in known:
            return path, None
        stem, _, suffix = path.rpartition("_")
        unit = _SUFFIXES.get(suffix)
        if unit is not None and stem in known:
            base = _base_unit(known[stem][0])
            if not base or base != _base_unit(unit):
                raise _core.BadInput(f"{stem}: expected {known[stem][0]}, found '{unit}'")
            return stem, unit
        near = _core.nearest(stem if unit is not None else path, list(known))
        raise _core.BadInput(f"{path}: unknown descriptor parameter" + (f" (did you mean '{near}'?)" if near else ""))

    def _read(self, path: str) -> Any:
        if any(each.startswith(path + ".") for each in self._numbers()):
            return _Numbers(self, path + ".")
        path, unit = self._place(path)
        value = self._numbers()[path][1]
        return value if unit is None or value is None else value / _scale(unit)

    def _write(self, path: str, value: Any) -> None:
        path, unit = self._place(path)
        if hasattr(value, "item") and not isinstance(value, str):
            value = value.item()  # a number of numpy's
        if isinstance(value, str):
            text = f"{value} {unit}" if unit is not None else value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            text = f"{value!r} {unit or _base_unit(self._numbers()[path][0])}".strip()
        else:
            raise _core.BadInput(f"{path}: expected a number or text, found {value!r}")
        changes = {**self.changes, path: text}
        found = _core.gpu_numbers(self.name, list(changes.items()))  # refuses what no machine has
        object.__setattr__(self, "changes", changes)
        object.__setattr__(self, "_known", {path: (unit, value) for path, unit, value in found})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._read(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._write(name, value)

    def __getitem__(self, path: str) -> Any:
        return self._read(path)

    def __setitem__(self, path: str, value: Any) -> None:
        self._write(path, value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers())

    def __dir__(self) -> list[str]:
        return sorted({"changes", "copy", "name"} | {path.split(".")[0] for path in self._numbers()})

    def __repr__(self) -> str:
        changed = "".join(f", {path}={value}" for path, value in self.changes.items())
        return f"Gpu({self.name}{changed})"


def gpu(name: Union[str, "os.PathLike[str]"]) -> Gpu:
    """A GPU by a name of :func:`gpus`, or by its descriptor's file, whose numbers can be changed."""
    return Gpu(name)


def parameters() -> dict[str, str]:
    """The numbers of a descriptor that can be changed, and the units that they are written in."""
    return {path: unit for path, unit, _ in _core.gpu_numbers("h200_sxm", [])}
