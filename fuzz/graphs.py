"""Malformed graph files (docs/graphs.md): exported ones and operators written out, mutated; arithmetic that is none; files
that are deep, long or run in circles."""
import functools, json, subprocess

from pieces import mutated_bytes, mutated_json

WRITTEN_OUT = {
    "schema": "plumbline.graph.v1", "name": "g", "hidden": 512, "vocab": 1000, "parameters": {"wide": "2*hidden", "taps": 4},
    "blocks": {"mine": {"parameters": {"k": 8, "n": "2*k"}, "let": {"m": "ceil(n/tp)"}, "ops": [
        {"op": "linear", "name": "a_proj", "in": "hidden", "out": "m", "when": "T > 0"},
        {"op": "add", "rows": "T", "cols": "m", "after": ["input", "a_proj"]}]}},
    "stacks": [{"role": "decoder", "order": [{"repeat": 2, "of": ["one", {"layer": "two", "repeat": 3}]}], "layers": {
        "one": {"mixer": {"ops": [
            {"op": "linear", "name": "in_proj", "in": "hidden", "out": "2*wide", "split": "out"},
            {"op": "causal_conv", "B": "B", "S": "S", "channels": "ceil(wide/tp)", "width": "taps"},
            {"op": "recurrence", "kind": "mamba2", "B": "B", "S": "S", "H": 8, "D": 64, "state": 16, "type": "base"},
            {"op": "linear", "in": "wide", "out": "hidden", "split": "in"}, {"op": "sum_over_ranks"}],
            "cache": [{"elements": "(taps-1)*wide + C", "type": "kv"}], "live": "T*wide", "weights": {"matrices": "hidden*wide"}},
            "ffn": {"use": "moe", "experts": 8, "topk": 2, "expert_width": 256}},
        "two": {"ops": [{"op": "rmsnorm", "rows": "T", "cols": "hidden"}, {"use": "gqa", "q_heads": 8, "kv_heads": 2},
                        {"use": "mine", "k": 64}]}}}]}

SUMS = ["1/0", "0/0", "hidden-", "((((", "T*T*T*T*T*T", "9007199254740993*T", "C-C", "0-1", "min(1)", "max(1,2", "nan", "inf", "1e308*10", "tp", "ceil(0.5)",
        "1<2<3", "floor(1e300)", "+".join(["T"] * 400), "(" * 40 + "1" + ")" * 40, "'", "\u202e", "T\x1b[31m", "x" * 2000, "", " ", "wide", "bf16", "T=1"]


def deep(r):
    """Nested beyond what is read, or in a circle, or many."""
    graph = json.loads(json.dumps(WRITTEN_OUT))
    what = r.randrange(6)
    if what == 0: graph["blocks"]["mine"]["ops"].append({"use": "mine"})
    elif what == 1:
        for i in range(r.choice([5, 9, 40])): graph["blocks"][f"b{i}"] = {"ops": [{"use": f"b{i + 1}"}]}
        graph["blocks"]["b0"]["ops"] = [{"use": "b1"}] * r.choice([1, 2, 9])
        graph["stacks"][0]["layers"]["one"] = {"mixer": {"use": "b0"}}
    elif what == 2:
        order = "one"
        for _ in range(r.choice([3, 9, 150, 400])): order = {"repeat": r.choice([1, 2, 10000, 10**12]), "of": [order]}
        graph["stacks"][0]["order"] = order
    elif what == 3: graph["parameters"] = {f"p{i}": f"p{(i + 1) % 50}" for i in range(r.choice([50, 51, 300]))}
    elif what == 4: graph["blocks"]["mine"]["let"] = {"m": r.choice(["m", "q", "q+q"]), "q": r.choice(["m+m", "1", "q*(q)"])}
    else: graph["stacks"][0]["layers"]["two"]["ops"] *= r.choice([2, 50, 400])
    return json.dumps(graph).encode()


def with_sums(r):
    """Arithmetic in the place of values."""
    text = json.dumps(WRITTEN_OUT)
    for _ in range(r.randrange(1, 4)):
        old = r.choice(['"T"', '"hidden"', '"2*wide"', '"ceil(wide/tp)"', '"wide"', '"B"', "8", "64", "2", '"T > 0"', '"m"', "512",
                        '"T*wide"', '"(taps-1)*wide + C"', '"hidden*wide"'])
        text = text.replace(old, json.dumps(r.choice(SUMS)), r.choice([1, 1, 9]))
    return text.encode()


@functools.lru_cache(maxsize=None)
def exported(program, name):
    return subprocess.run([program, "llm", "--model", name, "--format", "graph"], capture_output=True, text=True, check=True).stdout


def graph_case(r, s, case):
    case.kind = "graph"
    pick = r.random()
    if pick < 0.3: case.files["g.json"] = mutated_json(r, exported(s.program, r.choice(s.models).stem))
    elif pick < 0.6: case.files["g.json"] = mutated_json(r, json.dumps(WRITTEN_OUT))
    elif pick < 0.8: case.files["g.json"] = with_sums(r)
    elif pick < 0.9: case.files["g.json"] = deep(r)
    else: case.files["g.json"] = mutated_bytes(r, json.dumps(WRITTEN_OUT, indent=r.choice([None, 1])).encode())
    case.args = ["llm", "--model", "./g.json"]
    if r.random() < 0.2:
        case.args += ["--format", "graph"]
        case.format = "any"
        return
    case.args += ["--gpu", "h200", "--phase", r.choice(["decode", "prefill"]), "--batch", r.choice(["1", "64"])]
    case.args += r.choice([[], [], ["--tp", "2"], ["--pp", "2"], ["--stack", "hf-eager"], ["--fusion", "max"]])
    case.format = r.choice(["json", "any"])
    if case.format == "json": case.args += ["--format", "json"]
