"""Single questions: a step, an operator, plans, and what-if studies of one point."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Sequence, Union

from . import _core
from .words import flag_words, gpu_words, op_words, question_words, set_words, text_of


class Answer(Dict[str, Any]):
    """What the program's JSON says, whose keys are attributes too: ``step.latency_s``, ``step.memory_bytes.weights``.

    Lists of it are what ``pandas.DataFrame`` takes: ``pandas.DataFrame(step.ops)``.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            near = _core.nearest(name, list(self))
            hint = f" (did you mean '{near}'?)" if near else ""
            raise AttributeError(f"no '{name}' in this answer{hint}") from None

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) | set(self))

    def plot(self, ax: Any = None, top: int = 12) -> Any:
        """Draws what there is to draw: operators of a step or a difference, numbers of a sensitivity. Needs matplotlib;
        gives back its axes."""
        from . import plots

        return plots.draw_answer(self, ax, top)


def _asked(words: Sequence[str]) -> Answer:
    """The command's JSON."""
    _, text = _core.answer([*words, "--format=json"])
    found: Answer = json.loads(text, object_hook=Answer)
    return found


def list_known(what: str) -> Any:  # a list of answers
    """``predict-model list``: gpus, models, ops, stacks, clusters or parameters."""
    return _asked(["list", what])


def predict(
    model: Any, gpu: Any, *, phase: str = "decode", set: Optional[Mapping[str, Any]] = None, **flags: Any
) -> Answer:
    """One step of a model, a whole answer, or an iteration of training, as ``predict-model llm --format json`` has it.

    ``model``: a name of :func:`models`, a ``config.json``, its folder or a graph file. ``gpu``: a name of :func:`gpus`, a
    descriptor, or a :class:`Gpu`. ``phase``: decode, prefill, generate or train. ``set``: numbers of the descriptor,
    ``{"memory.bandwidth": "6TB/s"}``. ``flags``: batch, context, prompt, dtype, tp, stack, clock, power_cap, ...;
    ``explain=True`` adds the arithmetic behind each operator.

    The answer has ``latency_s`` with its 5-95 % band ``latency_low_s`` to ``latency_high_s``, ``energy_J``, ``power_W``,
    ``fits``, ``time_share``, ``ops`` and more.
    """
    return _asked(["llm", f"--model={text_of(model)}", *gpu_words(gpu, False), f"--phase={phase}",
                   *flag_words(flags, False), *set_words(set, False)])  # fmt: skip


def op(name: str, gpu: Any, *, set: Optional[Mapping[str, Any]] = None, **shape_and_flags: Any) -> Answer:
    """One operator, as ``predict-model op --format json`` has it: ``pl.op("gemm", "h200", M=4096, N=4096, K=4096)``.

    Keywords that are flags (dtype, stack, clock, cache, ...) are taken as such; all others are keys of the shape.
    """
    return _asked(["op", name, *gpu_words(gpu, False), *op_words(shape_and_flags, False), *set_words(set, False)])


def plan(
    model: Any, gpu: Any, gpus: int, *, set: Optional[Mapping[str, Any]] = None, **flags: Any
) -> Answer:  # fmt: skip
    """All legal ways to spread a model over ``gpus`` GPUs, best first, as ``predict-model plan --format json`` has it."""
    return _asked(["plan", f"--model={text_of(model)}", *gpu_words(gpu, False), f"--gpus={text_of(gpus)}",
                   *flag_words(flags, False), *set_words(set, False)])  # fmt: skip


def sensitivity(
    model: Any = None,
    gpu: Any = None,
    *,
    op: Optional[str] = None,
    set: Optional[Mapping[str, Any]] = None,
    **flags: Any,
) -> Answer:
    """Which number of the descriptor matters, and what 10 % more of each buys: elasticities of latency and energy, the next
    bottleneck, interactions. ``op="gemm"`` in place of a model asks about an operator."""
    return _asked(["sensitivity", *question_words(model, gpu, op, set, _with_phase(op, flags), False)])


def solve(
    model: Any = None,
    gpu: Any = None,
    *,
    vary: str,
    target: Union[str, Sequence[str]],
    most: bool = False,
    least: bool = False,
    op: Optional[str] = None,
    set: Optional[Mapping[str, Any]] = None,
    **flags: Any,
) -> Answer:
    """The least value of a number (of batch and lengths the largest) that meets the targets, or why none does.

    ``vary``: "memory.bandwidth", "batch", "tdp=300W:1000W". ``target``: "latency_s<=0.010", or several that all hold.
    """
    targets = [target] if isinstance(target, str) else list(target)
    words = question_words(model, gpu, op, set, _with_phase(op, flags), False)
    words += [f"--vary={vary}", *[f"--target={each}" for each in targets]]
    return _asked(["solve", *words, *flag_words({"most": most, "least": least}, False)])


def diff(
    model: Any = None,
    gpu: Any = None,
    *,
    against: Mapping[str, Any],
    op: Optional[str] = None,
    set: Optional[Mapping[str, Any]] = None,
    **flags: Any,
) -> Answer:
    """Two sides: what differs on the second is ``against``: ``against={"gpu": "h200"}``, ``{"tp": 2}``, ``{"K": 704}``,
    ``{"set": {"sm_count": "+20%"}}``."""
    second = dict(against)
    changes = set_words(second.pop("set", None), False)
    other = gpu_words(second.pop("gpu", None), False)
    other += op_words(second, False) if op is not None else flag_words(second, False)
    other += changes
    words = question_words(model, gpu, op, set, _with_phase(op, flags), False)
    return _asked(["diff", *words, "--against", *other])


def graph(model: Any) -> Answer:
    """A model as a graph of operators, in the form that :func:`predict` reads (docs/graphs.md)."""
    _, text = _core.answer(["llm", f"--model={text_of(model)}", "--format=graph"])
    found: Answer = json.loads(text, object_hook=Answer)
    return found


def _with_phase(op: Optional[str], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Of a model decode, unless another phase is asked for."""
    return dict(flags) if op is not None else {"phase": "decode", **flags}
