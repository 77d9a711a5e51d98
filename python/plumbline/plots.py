"""Pictures of answers, by matplotlib, which is imported when the first one is asked for."""

from __future__ import annotations

from typing import Any, Optional

from . import _core


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError as missing:
        raise ImportError("plots need matplotlib: pip install matplotlib") from missing
    return pyplot.subplots()[1]


def draw_table(table: Any, x: Optional[str], y: str, by: Optional[str], ax: Any) -> Any:
    """``y`` over ``x``, a line for each value of ``by``."""
    x = x or (table.axes[-1] if table.axes else y)
    for name in (x, y, by):
        if name is not None and name not in table:
            near = _core.nearest(name, list(table))
            raise _core.BadInput(f"{name}: expected a column" + (f" (did you mean '{near}'?)" if near else ""))
    lines: dict[Any, tuple[list[Any], list[Any]]] = {}
    for row in table.records():
        line = lines.setdefault(row[by] if by is not None else "", ([], []))
        line[0].append(row[x])
        line[1].append(row[y])
    ax = _axes(ax)
    for label, (across, up) in lines.items():
        ax.plot(across, up, marker="o", label=str(label))
    if by is not None:
        ax.legend(title=by)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    return ax


def _bars(ax: Any, names: list[str], values: list[float], label: str) -> Any:
    ax = _axes(ax)
    ax.barh(names[::-1], values[::-1])
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_xlabel(label)
    return ax


def _change(first: Any, second: Any) -> tuple[str, float]:
    """An operator's name, and what it takes longer on the second side; one that a side has not takes nothing there."""
    name = (first or second)["name"]
    return name, (second["time_s"] if second else 0.0) - (first["time_s"] if first else 0.0)


def draw_answer(answer: Any, ax: Any, top: int) -> Any:
    """Bars, the longest first."""
    schema = str(answer.get("schema", ""))
    if schema.startswith("plumbline.sensitivity"):
        found = [(each["parameter"], each["elasticity"]["latency_s"]) for each in answer["parameters"]
                 if "elasticity" in each and each["elasticity"]["latency_s"]][:top]  # fmt: skip
        return _bars(ax, [name for name, _ in found], [value for _, value in found], "elasticity of latency")
    if schema.startswith("plumbline.diff"):
        rows = [_change(each["first"], each["second"]) for each in answer["ops"]][:top]
        return _bars(ax, [name for name, _ in rows], [value for _, value in rows], "seconds more on the second side")
    if schema.startswith("plumbline.llm"):
        rows = [(each["name"], each["latency_s"] * each["count"]) for each in answer["ops"] if "count" in each]
        rows = sorted(rows, key=lambda each: -each[1])[:top]
        return _bars(ax, [name for name, _ in rows], [value for _, value in rows], "seconds of the step")
    raise _core.BadInput(f"plot: expected a step, a sensitivity or a difference, found '{schema}'")
