"""Keywords as the words of a command line."""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping, Optional

from . import _core

#: Said by functions, or without a meaning here.
_OURS = {"format", "out", "help", "resume", "progress"}


def text_of(value: Any) -> str:
    """A value as a command line has it: numbers with all their digits."""
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # a number of numpy's
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return repr(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def is_list(value: Any) -> bool:
    """Whether a value stands for several: of an axis."""
    return isinstance(value, (list, tuple, range)) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1)


def list_text(name: str, values: Iterable[Any]) -> str:
    """Values between commas, as lists of a sweep are written."""
    texts = [text_of(each) for each in values]
    for text in texts:
        if "," in text:
            raise _core.BadInput(f"{name}: expected values without commas in a list, found '{text}'")
    return ",".join(texts)


def flag_words(flags: Mapping[str, Any], lists: bool) -> list[str]:
    """``power_cap=500`` as ``--power-cap=500``; True as the flag alone; None and False as nothing."""
    words = []
    for key, value in flags.items():
        name = key.replace("_", "-")
        if name in _OURS:
            raise _core.BadInput(f"{key}: expected a flag of what is asked, found one of the program's output")
        if value is None or value is False:
            continue
        if value is True:
            words.append("--" + name)
        elif is_list(value):
            if not lists:
                raise _core.BadInput(f"{key}: expected one value, found several; sweep takes lists")
            words.append(f"--{name}={list_text(key, value)}")
        else:
            words.append(f"--{name}={text_of(value)}")
    return words


def set_words(changes: Optional[Mapping[str, Any]], lists: bool) -> list[str]:
    """``{"memory.bandwidth": "6TB/s"}`` as ``--set memory.bandwidth=6TB/s``."""
    words = []
    for path, value in (changes or {}).items():
        if is_list(value):
            if not lists:
                raise _core.BadInput(f"{path}: expected one value, found several; sweep takes lists")
            value = list_text(path, value)
        words += ["--set", f"{path}={text_of(value)}"]
    return words


def gpu_words(gpu: Any, lists: bool) -> list[str]:
    """A name, a file, a machine that was edited; of a sweep also several names."""
    if gpu is None:
        return []
    edits = getattr(gpu, "changes", None)
    if edits is not None:
        return [f"--gpu={gpu.name}"] + set_words(edits, False)
    return flag_words({"gpu": gpu}, lists)


def op_words(flags: Mapping[str, Any], lists: bool) -> list[str]:
    """Flags of ``op``, and the keys of its shape: what is no flag."""
    known = set(_core.flags(True)) | _OURS
    words = []
    for key, value in flags.items():
        if key.replace("_", "-") in known:
            words += flag_words({key: value}, lists)
        elif is_list(value) and not lists:
            raise _core.BadInput(f"{key}: expected one value, found several; sweep takes lists")
        else:
            words.append(f"{key}={list_text(key, value) if is_list(value) else text_of(value)}")
    return words


def question_words(
    model: Any, gpu: Any, op: Optional[str], changes: Optional[Mapping[str, Any]], flags: Mapping[str, Any], lists: bool
) -> list[str]:
    """``llm ...``, ``op NAME ...`` or ``STUDY.json ...``."""
    if op is not None:
        if model is not None:
            raise _core.BadInput("op: expected a model or an operator, found both")
        return ["op", op] + gpu_words(gpu, lists) + op_words(flags, lists) + set_words(changes, lists)
    if isinstance(model, (str, os.PathLike)) and lists and is_study(os.fspath(model)):
        words = [os.fspath(model)]
    else:
        words = ["llm"] + flag_words({"model": model}, lists)
    return words + gpu_words(gpu, lists) + flag_words(flags, lists) + set_words(changes, lists)


def is_study(path: str) -> bool:
    """Whether a file is a study: JSON with a base. A model's config has none."""
    if not path.endswith(".json") or not os.path.isfile(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        return '"base"' in file.read(1 << 20)
