"""Malformed inputs about several GPUs (programs.py): parallel plans, clusters, expert loads, what is measured on them."""
import json, os

from pieces import DATA, a_size, answer, mutated_bytes, mutated_json, odd_text, report, set_text

LOADS = [b"uniform", b"power:1", b"power:0", b"power:-1", b"power:nan", b"power:1e400", b"power:", b"power", b"./load.txt", b"./nobody.txt", b"/dev/null", b"/"]
RATES = ["12GB/s", "7 GB/s", "0", "-1GB/s", "12GB", "nan", "1e400 GB/s", "", "GB/s"]
GOALS = ["latency", "tokens/s/gpu", "tokens/J", "tokens/s", "", "latency "]


def a_degree(r, odd=0.25):
    if r.random() >= odd: return str(r.choice([1, 1, 2, 2, 4, 8, 3, 16]))
    return r.choice(["0", "-2", "7", "1024", "1048576", "1048577", "1e6", "8k", "2.5", "", "0x2", "nan", "9" * 30, " 2", "+2"])


def a_load(r):
    """Counts of tokens, one an expert: a file."""
    words = [r.choice(["1", "7", "0", "1e3", "-1", "nan", "inf", "x", "1e308", "9" * 400, ""]) if r.random() < 0.1 else str(r.randrange(5000))
             for _ in range(r.choice([0, 1, 8, 32, 60, 64, 128, 256, 1000]))]
    data = r.choice([" ", "\n", ",", "\t", ";"]).join(words).encode()
    return mutated_bytes(r, data) if r.random() < 0.2 else data


def plan_of_ranks(r, case, odd):
    """Degrees; none of them odd: such as make a plan."""
    flags = [flag for flag in ("--tp", "--pp", "--dp", "--cp") if r.random() < 0.3]
    degrees = {flag: a_degree(r, odd) for flag in flags}
    several = {flag for flag in flags if degrees[flag] not in ("0", "1", "")}
    if r.random() < 0.15 and (odd or several): degrees["--ep"] = r.choice([a_degree(r, odd), *degrees.values()])
    if odd and r.random() < 0.3: degrees["--gpus"] = a_degree(r, odd)
    if r.random() < 0.3 and (odd or "--pp" in several): degrees["--micro-batches"] = a_degree(r, odd)
    args = [word for pair in degrees.items() for word in pair]
    for flag in ("--sp", "--attention-dp"):
        if r.random() < 0.2 and (odd or "--tp" in several): args.append(flag if r.random() < 0.95 else flag + "=" + r.choice(["0", "maybe", ""]))
    if r.random() < 0.15:
        args += ["--expert-load", r.choice(LOADS if odd else LOADS[:3] + LOADS[8:9]) if r.random() < 0.9 else odd_text(r)]
        if args[-1] == b"./load.txt": case.files["load.txt"] = a_load(r)
    return args


def joined(r, s, case, odd):
    """What joins the GPUs, and how their collectives run."""
    args = []
    if r.random() < 0.35:
        name = r.choice(["dgx_h200", r.choice(s.clusters).stem, "./cluster.json", "dgx_h20", ""][:5 if odd else 3])
        if r.random() < 0.1 * odd: name = odd_text(r)
        if name == "./cluster.json": case.files["cluster.json"] = a_cluster(r, s)
        args += ["--cluster", name]
    if r.random() < 0.2: args += ["--collective", r.choice(["auto", "ring", "tree", "nvls", "one-shot", "two-shot", "two_shot", "", "pat"][:9 if odd else 6])]
    return args


def a_cluster(r, s):
    """A shipped cluster whose tiers are wrong: gone, twice, the wrong way round, with numbers out of range or of another type."""
    text = r.choice(s.clusters).read_text()
    if r.random() < 0.4: return mutated_json(r, text)
    root = json.loads(text)
    for _ in range(r.randrange(1, 4)):
        tiers = root.get("tiers") if isinstance(root.get("tiers"), list) else []
        tier = r.choice(tiers) if tiers and isinstance(tiers[0], dict) else {}
        number = r.choice([0, -1, 1, 1.5, 2, 3, 8, 2**31, 2**63, 10**400, 1e308, 5e-324, "1e999 GB/s", "-3 GB/s", "450 GB/s", "0 us", "nan us", "1e300 us", None, True, "", []])
        what = r.randrange(13)
        if what == 0: root.pop("tiers", None)
        elif what == 1: root["tiers"] = r.choice([[], {}, None, "nvlink", 8, [[]], [None], [{}]])
        elif what == 2: tiers.reverse()
        elif what == 3 and tiers: tiers.extend(json.loads(json.dumps(tiers)) * r.choice([1, 2, 5, 1000]))
        elif what in (4, 5, 6): tier[r.choice(["gpus", "links", "bandwidth", "latency", "oversubscription", "line_rate_gbit_per_s"])] = number
        elif what == 7: tier["kind"] = r.choice(["nvswitch", "pcie", "infiniband", "c2c", "nvlink_bridge", "efa", "nvlink", "", 3, None, []])
        elif what == 8: tier[r.choice(["multicast", "in_network_reduction"])] = r.choice([True, False, 1, "true", None])
        elif what == 9: root["host"] = r.choice([{}, None, 3, {"kind": "c2c", "bandwidth": number}, {"kind": "pcie", "bandwidth": "32 GB/s", "gpus_a_port": number}])
        elif what == 10: root["storage"] = r.choice([[], {}, None, [{}], [{"name": "nvme", "read_per_node": number}], [3]])
        elif what == 11: root["gpu"] = r.choice(["h200", "a100_sxm", "nobody", "./cluster.json", "", 3, None, "rtx_4090", "mi300x"])
        else: root[r.choice(["name", "title", "source", "sources"])] = r.choice([number, {}, {"/tiers/0/gpus": 3}, {"/tiers/9": "x"}, odd_text(r).decode("utf-8", "replace")])
    return json.dumps(root).encode()


def parallel_case(r, s, case):
    case.kind, odd = "parallel plans", r.choice([0, 0, 0.2])
    case.args = ["llm", "--model", r.choice(s.model_names), "--gpu", r.choice(["h200", "h100", "a100", r.choice(s.gpu_names)]), "--phase",
                 r.choice(["prefill", "decode", "decode", "generate", "train"][:5 if odd else 4])] + plan_of_ranks(r, case, odd) + joined(r, s, case, odd)
    for flag in ("--batch", "--prompt", "--context") if odd else ("--batch",):
        if r.random() < 0.25: case.args += [flag, a_size(r) if odd else str(r.choice([1, 3, 64, 1000]))]
    for flag, words in (("--storage", RATES), ("--overlap", ["none", "stack", "two-batch", "sends", "async-tp", "full", "x"]), ("--stack", ["own", "vllm", "sglang", "ideal", "hf-eager"]), ("--runtime", ["stream", "eager"]),
                        ("--explain", ["all_reduce", "all_to_all", "gemm", "send_recv", "x"]), ("--reserve", ["10%", "8GB", "100%", "-1", "nan%", ""]),
                        ("--zero", ["0", "1", "3", "4"]), ("--dtype", ["fp8", "bf16"])):
        if r.random() < (0.12 if odd else 0.03): case.args += [flag, r.choice(words)]
    answer(r, case, ["table", "json", "csv", "html", "trace"])


def plan_case(r, s, case):
    case.kind, odd = "plan", r.choice([0, 0.2])
    case.args = ["plan", "--model", r.choice(s.model_names), "--gpu", r.choice(["h200", "h100", "a100", r.choice(s.gpu_names)])] + joined(r, s, case, odd)
    if r.random() < 0.95: case.args += ["--gpus", r.choice(["1", "2", "4", "8", "16", "64"]) if r.random() < 0.7 else a_degree(r)]
    for flag in ("--batch", "--prompt", "--context") if odd else ("--batch", "--context"):
        if r.random() < 0.25: case.args += [flag, a_size(r) if odd else str(r.choice([1, 3, 64, 1000]))]
    for flag, words in (("--phase", ["prefill", "decode", "generate", "train", ""]), ("--goal", GOALS), ("--max-latency", ["30ms", "1us", "0", "-1 s", "nan", "30", "x"]),
                        ("--min-tokens-per-s", ["1", "2000", "0", "-3", "1e9", "x"]), ("--top", ["0", "1", "5", "-1", "x"]), ("--stack", ["own", "vllm", "ideal"]), ("--reserve", ["10%", "0%", "90%", "100%", "x"]),
                        ("--power-cap", ["400", "0", "nan"]), ("--tp", ["2"]), ("--storage", ["7GB/s"])):
        if r.random() < (0.12 if odd else 0.02): case.args += [flag, r.choice(words)]
    answer(r, case, ["table", "json", "csv", "trace"][:4 if odd else 3])


def cluster_case(r, s, case):
    case.kind = "cluster"
    name = "./cluster.json"
    case.files["cluster.json"] = a_cluster(r, s)
    what = r.randrange(6)
    if what < 3: case.args = ["cluster", name]
    elif what == 3: case.args = ["cluster", r.choice(s.clusters).stem if r.random() < 0.6 else odd_text(r)]
    elif what == 4: case.args = ["llm", "--model", "llama-3.1-8b", "--gpu", r.choice(["h200", "a100", "b200"]), "--phase", "decode", "--gpus", a_degree(r), "--cluster", name]
    else:
        case.args = ["op", r.choice(["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]), "bytes=" + a_size(r), "gpus=" + a_degree(r),
                     "--gpu", "h200", "--cluster", name]
    if what < 4:
        for flag, words in (("--set", [set_text(r)]), ("--stack", ["own", "vllm", "nobody"]), ("--collective", ["ring", "nvls", "nvls-tree", "collnet-direct", "collnet-chain", "pat", "hierarchical", "rail-aligned", "x"]), ("--gpu", ["h200"])):
            if r.random() < 0.12: case.args += [flag, r.choice(words)]
    answer(r, case, ["table", "json", "csv"] if what > 3 else ["table", "json"])


STEP_ROWS = b"""study,model,phase,batch,context,prompt,page,tp,layers,clock,dtype
heldout,llama-3.1-8b,decode,1,1024,,64,2,,burst,
train,llama-3.1-70b,prefill,1,,2048,,2,16,steady,fp8
heldout,llama-3.2-1b,decode,16,1024,,64,,,burst,bf16
"""


def measuring_case(r, s, case):
    """What the commands that measure refuse before they take a card; where there is one, nothing that they would measure.
    Not the disk, which needs no card: two GiB written and read nine times are no question of refusals."""
    case.program, case.kind = "validate", "measuring"
    card = os.path.exists("/dev/nvidiactl")
    case.files["steps.csv"] = mutated_bytes(r, STEP_ROWS) if r.random() < 0.8 else STEP_ROWS
    tp = r.choice(["0", "-1", "x", "", "1025", "nan"]) if card else a_degree(r)
    what = r.randrange(3)
    if what == 0:
        case.args = ["run", "--gpus", tp]
        for flag, words in (("--only", ["own", "nccl", "links", "copies", "overlap", "x", ""]), ("--nccl", ["./nobody.so", "./steps.csv", ""]), ("--out", ["out.csv", "/nowhere/x", ""]),
                            ("--study", ["steps.csv"]), ("--where", ["op=gemm"]), ("--stack", ["own", "x"])):
            if r.random() < 0.35: case.args += [flag, r.choice(words)]
        if r.random() < 0.2: case.args.append(r.choice(["--quick", "--alone"]))
    elif what == 1:
        case.args = ["step", r.choice(s.model_names), "--tp", tp, "--phase", r.choice(["decode", "prefill", "train"])]
        for flag in ("--batch", "--context", "--prompt", "--page", "--layers"):
            if r.random() < 0.25: case.args += [flag, a_size(r)]
        for flag, words in (("--dtype", ["fp8", "nvfp4", "x"]), ("--clock", ["burst", "x"]), ("--gpu", ["h200", "x"]), ("--study", ["steps.csv"])):
            if r.random() < 0.15: case.args += [flag, r.choice(words)]
    else:
        case.args = ["sides" if card else "step", *([] if card else ["--study"]), "steps.csv"]
    case.format = "any"


def a_step_recording(r):
    """Two steps of a shipped recording."""
    root = json.loads((DATA / "measurements/h200/steps.json").read_text())
    root["steps"] = root["steps"][:2]
    for step in root["steps"]:
        step["ops"] = step.get("ops", [])[:3]
    return json.dumps(root).encode()


def steps_case(r, s, case):
    case.program, case.kind = "validate", "steps"
    case.files["m.json"] = mutated_json(r, a_step_recording(r).decode())
    case.args = ["replay", "m.json"]
    report(r, case, ["table", "csv"])
