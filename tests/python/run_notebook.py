"""Runs the code cells of a notebook, one after another in one namespace, and compares what they print and show with what
stands in the file: run_notebook.py FILE.ipynb. UPDATE_GOLDEN=1: writes what they print into the file, pictures too.

A cell whose metadata say "needs": ["pandas"] is left out, with a message, where that is not installed."""

import ast
import base64
import contextlib
import importlib.util
import io
import json
import os
import sys


def lines_of(text):
    return text.splitlines(keepends=True)


def pictures():
    """Open figures of matplotlib, as outputs; they are closed."""
    if "matplotlib" not in sys.modules:
        return []
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        png = io.BytesIO()
        pyplot.figure(number).savefig(png, format="png", dpi=60, metadata={"Software": None})
        data = {"image/png": base64.b64encode(png.getvalue()).decode(), "text/plain": ["<Figure>"]}
        found.append({"output_type": "display_data", "metadata": {}, "data": data})
    pyplot.close("all")
    return found


def outputs_of(source, names, count):
    """What a cell prints, and the value of its last line where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, outputs = io.StringIO(), []
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last is not None else None
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines_of(printed.getvalue())})
    shown = pictures()
    if value is not None and not shown:
        data = {"text/plain": lines_of(repr(value))}
        outputs.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return outputs + shown


def texts(outputs):
    """Of outputs what must be the same; of a picture that there is one."""
    return [each.get("text") or each["data"]["text/plain"] for each in outputs]


def main(path):
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    if importlib.util.find_spec("matplotlib"):
        import matplotlib

        matplotlib.use("Agg")
    names, count, wrong = {"__name__": "__main__"}, 0, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        missing = [each for each in cell["metadata"].get("needs", []) if not importlib.util.find_spec(each)]
        if missing:
            print(f"cell {count} is left out: {', '.join(missing)} is not installed")
            continue
        outputs = outputs_of("".join(cell["source"]), names, count)
        if os.environ.get("UPDATE_GOLDEN") == "1":
            cell["outputs"], cell["execution_count"] = outputs, count
        elif texts(outputs) != texts(cell["outputs"]):
            wrong += 1
            print(f"cell {count} shows\n{''.join(sum(texts(outputs), []))}\nand the notebook has\n"
                  f"{''.join(sum(texts(cell['outputs']), []))}")  # fmt: skip
    if os.environ.get("UPDATE_GOLDEN") == "1":
        with open(path, "w", encoding="utf-8") as file:
            json.dump(notebook, file, indent=1, ensure_ascii=False)
            file.write("\n")
    print(f"{count} cells, {wrong} of them show something else")
    return 1 if wrong or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
