#!/usr/bin/env python3
"""Malformed inputs for the programs, from a seed, and a check of what every answer must be (contract: exit codes).

  programs.py BIN [--count N] [--seconds S] [--seed X] [--only I] [--jobs J] [--kind graph|model|...]

Runs BIN/predict-model, and BIN/validate where it is built, on inputs 0, 1, ... of the seed: configs, graphs, descriptors,
clusters, calibrations, CSV tables and recordings that are mutated from the shipped ones, and command lines, of several
GPUs too. Whatever came in:
  the exit code is 0, 1, 2 or 3 (validate: or 4, no card): never 70, a signal, or more than --timeout seconds
  stderr is empty or one line of at most 500 bytes: UTF-8 without control characters; a refusal (2) has one
  (beside an answer: lines like that, what it assumes and what it left out)
  a refusal writes nothing on stdout, and --out is as it was; nothing half-written stays; an answer fills --out
  JSON and trace parse, CSV has one width, and what is shown is UTF-8 without control characters
Non-zero when an input breaks one of these, with the command that repeats it. Without --seed each run has new inputs.
--kind asks for inputs of one kind alone: `--kind graph --count 2000` is the check of malformed graphs.
"""
import argparse, collections, concurrent.futures, csv, io, json, os, random, re, subprocess, sys, tempfile, time

from pieces import (DATA, Case, Shipped, a_size, answer, machine, mutated_bytes, mutated_json, odd_text, report, set_text)
from graphs import graph_case
from several_gpus import cluster_case, measuring_case, parallel_case, plan_case, steps_case

csv.field_size_limit(1 << 26)

# --- inputs ---------------------------------------------------------------------------------------------------------

def model_case(r, s, case):
    case.kind = "config.json"
    name = r.choice(["c.json", "c.json", "config.json", b"\xff.json", b"\x1b[31m.json"])
    case.files[name] = mutated_json(r, r.choice(s.models).read_text())
    if r.random() < 0.1: case.files["hf_quant_config.json"] = mutated_json(r, '{"quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"FP8"}}')
    path = os.path.join(b".", name.encode() if isinstance(name, str) else name)
    phase = r.choice(["prefill", "decode", "train"])
    case.args = ["llm", "--model", path, "--gpu", "h200", "--phase", phase]
    answer(r, case, ["table", "json", "csv", "html", "trace"])


def gpu_case(r, s, case):
    case.kind = "descriptor"
    case.files["g.json"] = mutated_json(r, r.choice(s.gpus).read_text())
    case.args = r.choice([["gpu", "./g.json"], ["op", "gemm", "M=64", "N=64", "K=64", "--gpu", "./g.json"]])
    answer(r, case, ["table", "json"])


def calibration_case(r, s, case):
    case.kind = "calibration"
    case.files["c.json"] = mutated_json(r, r.choice(s.calibrations).read_text())
    case.args = ["op", "gemm", "M=64", "N=64", "K=64", "--gpu", "h200", "--calibration", "./c.json"]
    answer(r, case, ["table", "json", "csv"])


def shape_words(r, s):
    name, needed, optional = r.choice(s.ops)
    keys = [key for key in needed if r.random() < 0.98] + [key for key in optional if r.random() < 0.15]
    sane = r.random() < 0.5
    words = [(key + "=" + (str(r.choice([1, 8, 64, 128])) if sane else a_size(r))).encode() for key in keys]
    if r.random() < 0.1: words.append(odd_text(r))
    if words and r.random() < 0.1: words[r.randrange(len(words))] = mutated_bytes(r, words[0]).replace(b"\0", b"0")
    return name, words


def op_case(r, s, case):
    case.kind = "op"
    op, words = shape_words(r, s)
    if r.random() < 0.1: op = odd_text(r)
    case.args = ["op", op] + words + machine(r, s, case, 0.05)
    if r.random() < 0.4: case.args += ["--dtype", r.choice(["bf16", "fp8", "int8", "nvfp4", "fp7", ""])]
    answer(r, case, ["table", "json", "csv"])


def flags_case(r, s, case):
    case.kind = "flags"
    case.args = ["llm", "--model", r.choice(s.model_names), "--phase", r.choice(["prefill", "decode", "train", "dcode"])] + machine(r, s, case)
    for flag in ("--batch", "--prompt", "--context", "--gpus", "--tp", "--pp", "--zero", "--context"):
        if r.random() < 0.15: case.args += [flag, a_size(r)]
    for flag, words in (("--dtype", ["fp8", "bf16", "nvfp4", "f8"]), ("--kv-dtype", ["fp8", "int4"]), ("--runtime", ["graph", "eager", "grap"]),
                        ("--fusion", ["none", "typical", "max"]), ("--explain", ["attention", "x", ""]), ("--cluster", ["dgx"])):
        if r.random() < 0.1: case.args += [flag, r.choice(words)]
    what = r.randrange(8)
    if what == 0: case.args.insert(r.randrange(len(case.args)), odd_text(r))
    if what == 1: del case.args[r.randrange(len(case.args))]
    if what == 2: case.args.append("--" + r.choice(["batchh", "gpuu", "model=x", "", "-", "help=1"]))
    if what == 3: case.args = [r.choice(["list", "gpu", "lm", "sweep", "help", "--version", ""]), r.choice(["gpus", "models", "nobody", "ops", odd_text(r)])]
    answer(r, case, ["table", "json", "csv", "html", "trace", "xml"])


STUDY = """{"schema": 1, "base": {"command": "llm", "model": "llama-3.2-1b", "gpu": "h200", "phase": "decode", "set": {"tdp": "650 W"}},
 "axes": [{"name": "tp", "values": [1, 2]}, {"name": "set.memory.bandwidth", "from": "3 TB/s", "to": "9 TB/s", "count": 3},
 {"zip": [{"name": "gpu", "values": ["h100", "b200"]}, {"name": "dtype", "values": ["fp8", "nvfp4"]}]}, {"name": "batch", "from": 1, "to": 4, "factor": 2}],
 "where": ["fits", "latency_s<=0.05"], "columns": ["latency_s", "energy_J"], "objective": "max tokens_per_s"}"""
GOOD_LISTS = ["1,2,4", "1:8:x2", "1:3:1", "2", "8,1"]
LISTS = 3 * GOOD_LISTS + ["1,,2", "4:1:1", "1:1e5:1e-3", "x", "1k,2k", "+10%,x1.2", "1:2:0", "nan:1:1", "1:inf:1", ""]


def study_words(r, s, case):
    """A question whose flags hold lists, or a study's file."""
    if r.random() < 0.4:
        case.files["s.json"] = mutated_json(r, STUDY)
        return ["./s.json"]
    if r.random() < 0.4:
        name, words = shape_words(r, s)
        return ["op", name] + [word if r.random() < 0.7 else word.split(b"=")[0] + b"=" + r.choice(LISTS).encode() for word in words] + ["--gpu", r.choice(["h200", "h100,h200", "h20x"])]
    words = ["llm", "--model", r.choice(["llama-3.2-1b", "llama-3.2-1b", "llama-3.2-1b,gpt2", "lama"]), "--gpu", "h200", "--phase", r.choice(["decode", "prefill", "decode,prefill", "train"])]
    for flag, usual in (("--batch", GOOD_LISTS), ("--context", GOOD_LISTS), ("--tp", GOOD_LISTS), ("--pp", GOOD_LISTS), ("--dtype", ["bf16,fp8"]), ("--stack", ["trt-llm,vllm"]), ("--power-cap", ["500,600"])):
        if r.random() < 0.3: words += [flag, r.choice(LISTS if r.random() < 0.2 else usual)]
    if r.random() < 0.05: words += ["--bach", "1"]
    if r.random() < 0.3: words += ["--set", r.choice(["tdp=", "memory.bandwidth=", "sm_cout=", "="]) + r.choice(LISTS + ["3:5:1TB/s", "600,700 W"])]
    if r.random() < 0.1: words.insert(r.randrange(len(words)), odd_text(r))
    return words


def sweep_case(r, s, case):
    case.kind = "sweep"
    case.args = ["sweep"] + study_words(r, s, case)
    for flag, values in (("--where", ["fits", "latency_s<=1", "tp<=2", "latency_s", "<1", "x=1"]), ("--columns", ["latency_s,fits", "latncy_s", ","]),
                         ("--objective", ["max tokens_per_s", "latency_s", "most x", "bound"]), ("--top", ["3", "0", "x"]), ("--pareto", ["latency_s,power_W", "latency_s"]),
                         ("--threads", ["1", "3", "0"])):
        if r.random() < 0.2: case.args += [flag, r.choice(values)]
    if r.random() < 0.1: case.args.append("--resume")
    answer(r, case, ["table", "json", "html", "ops"])


def what_if_case(r, s, case):
    case.kind = "what if"
    command = r.choice(["sensitivity", "solve", "diff"])
    words = ["llm", "--model", "llama-3.2-1b", "--gpu", "h200", "--phase", "decode"] if r.random() < 0.7 else study_words(r, s, case)
    if command == "solve":
        words += ["--vary", r.choice(["batch", "tdp", "memory.bandwidth", "gpus", "batch=1:9", "tdp=300W:9W", "sm_cout", "phase", "l2.size=1:2", "", "batch=x:y"]),
                  "--target", r.choice(["latency_s<=0.01", "power_W<=600", "fits", "latncy_s<=1", "latency_s<=x", "bound=memory", "latency_s<=1e-9"])]
    if command == "diff":
        words += ["--against"] + r.choice([["--gpu", "h100"], ["--batch", "64"], ["--dtype", "fp8"], ["--tp", "2"], ["--tp", "3"], [], ["--gpu"], ["x"]])
    if r.random() < 0.1: words.insert(r.randrange(len(words)), odd_text(r))
    case.args = [command] + words
    answer(r, case, ["table", "json", "html"])


def csv_case(r, s, case):
    case.kind = "ops CSV"
    end = r.choice([b"\n", b"\n", b"\r\n", b"\r"])
    lines = [r.choice([b"op,dtype,shape", b"op,dtype,shape,note", b"shape,op", b"op,dtype,shape,error", b"\xef\xbb\xbfop,dtype,shape"])]
    for _ in range(r.randrange(8)):
        op, words = shape_words(r, s)
        line = (op if isinstance(op, str) else "x").encode() + b",bf16," + b";".join(words)
        lines.append(mutated_bytes(r, line) if r.random() < 0.3 else line)
    data = end.join(lines) + r.choice([b"", end])
    case.stdin = mutated_bytes(r, data) if r.random() < 0.3 else data
    case.args = ["ops", "--gpu", "h200"]
    case.format = "ops"
    if r.random() < 0.3: case.out = True; case.args += ["--out", "OUT"]


ROWS = b"""op,dtype,shape,measured_us,clock,gpu,stack,measured_W
gemm,bf16,M=64;N=64;K=64,4,burst,h200,vllm-0.11,
gemm,bf16,M=16;N=4096;K=4096,14,steady,h200,,350
attention_decode,bf16,B=2;Hq=8;Hkv=8;D=128;S=512,9,steady,h100,vllm-0.11,
"""


def recording():
    """The first cases of a shipped one."""
    lines = (DATA / "measurements/h200/repeat.json").read_bytes().split(b"\n")[:12]
    return b"\n".join(lines).rstrip(b",") + b"\n ]\n}\n"


def rows_case(r, s, case):
    case.program, case.kind = "validate", "rows"
    case.files["m.csv"] = mutated_bytes(r, ROWS)
    case.args = r.choice([["compare", "m.csv"], ["compare", "m.csv", "--gpu", "h200"], ["power", "m.csv"], ["sides", "m.csv"]])
    if case.args[0] == "compare": report(r, case, ["table", "json", "csv", "html"])
    if case.args[0] == "power": report(r, case, ["table", "json", "csv"])


WHOLE_ROWS = b"""model,phase,batch,prompt,context,output,dtype,kv-dtype,stack,clock,gpus,tp,ep,attention-dp,measured_ms,measured_W,id
llama-3.2-1b,generate,8,1024,,64,bf16,,trt-llm,,,,,,900,,a
llama-3.2-1b,decode,4,,2048,,fp8,fp8,vllm,burst,1,,,,3.5,350,b
gpt2,prefill,2,512,,,,,,,,,,,4,,c
mixtral-8x7b,decode,64,,1024,,,,trt-llm,,8,4,8,,12,,d
"""


def whole_rows_case(r, s, case):
    case.program, case.kind = "validate", "whole rows"
    case.files["m.csv"] = mutated_bytes(r, WHOLE_ROWS)
    case.args = r.choice([["compare", "m.csv"], ["compare", "m.csv", "--gpu", "h200"], ["sides", "m.csv"]])
    if case.args[0] == "compare": report(r, case, ["table", "json", "csv", "html"])


def recording_case(r, s, case):
    case.program, case.kind = "validate", "recording"
    case.files["m.json"], case.files["ok.json"] = mutated_bytes(r, recording()), recording()
    case.args = ["replay", "m.json"] + (["--repeat", "ok.json"] if r.random() < 0.2 else [])
    report(r, case, ["table", "json", "csv", "html"])


VALIDATE_WORDS = ["--gpu", "h200", "h20", "--set", "tdp=9 W", "--where", "S>=3", "op=gemm", "--ops", "gemm", "gem", "--format", "json", "csv", "html",
                  "--fail-over", "5", "nan", "-1", "ok.csv", "ok.json", "--stack", "vllm", "vlm", "--kernels", "ideal", "--attention", "trtllm",
                  "--min-us", "1e3", "", "--", "-", "--repeat", "--least-cap", "--clock", "steady", "--study", "--calibration", "--phase", "decode",
                  "--batch", "0", "llama-3.1-8b", "--check", "--quick", "--kernels-table", "--report", "/nowhere/x", "x" * 3000]


def validate_case(r, s, case):
    case.program, case.kind = "validate", "commands"
    case.files["ok.csv"], case.files["ok.json"] = ROWS, recording()
    measuring = [] if os.path.exists("/dev/nvidiactl") else ["run", "step"]  # with a card they would measure it
    command = r.choice(["compare", "replay", "accuracy", "coverage", "power", "sides", "comapre", odd_text(r)] + measuring)
    # of all committed rows they would take as long as a busy machine likes
    operand = ["ok.json"] if command in ("accuracy", "coverage") else []
    case.args = [command] + operand + [r.choice(VALIDATE_WORDS) if r.random() < 0.9 else odd_text(r) for _ in range(r.randrange(7))]
    case.format = "any"


VALIDATE_KINDS = [rows_case, whole_rows_case, recording_case, validate_case, measuring_case, steps_case]
KINDS = [model_case, model_case, graph_case, graph_case, gpu_case, calibration_case, op_case, flags_case, csv_case, parallel_case, parallel_case, plan_case, cluster_case, sweep_case, sweep_case, what_if_case]


def kinds_of(shipped, name=None):
    """All, or those of the functions `NAME_case`."""
    kinds = KINDS + VALIDATE_KINDS if shipped.validate else KINDS
    return kinds if name is None else [kind for kind in kinds if kind.__name__ == name + "_case"]


def case_of(seed, index, shipped, kind=None):
    r = random.Random(f"{seed}:{index}")
    case = Case()
    r.choice(kinds_of(shipped, kind))(r, shipped, case)
    return case


# --- the check ------------------------------------------------------------------------------------------------------

def shown(data):
    """None when these bytes may go to a terminal, else why not."""
    try: text = data.decode("utf-8")
    except UnicodeDecodeError as error: return f"no UTF-8 at byte {error.start}"
    for at, c in enumerate(text):
        if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c in "\u2028\u2029\u202a\u202b\u202c\u202d\u202e": return f"control character {ord(c):#x} at {at}"
    return None


def broken_rule(case, code, out, err, before, folder):
    validate = case.program == "validate"
    if code not in ((0, 1, 2, 3, 4) if validate else (0, 1, 2, 3)): return f"exit code {code}"
    for line in err.splitlines(keepends=True) if code < 2 else [err] if err else []:
        if len(line) > 500: return f"a message of {len(line)} bytes"
        if line.count(b"\n") != 1 or line[-1:] != b"\n": return "a message that is not one line"
    if (why := shown(err)): return "message: " + why
    if code == 2 and not err: return "refused without a message"
    left = {name for name in os.listdir(folder) if b"partial" in name}
    if left: return f"half-written: {left}"
    path = folder + b"/OUT"
    there = open(path, "rb").read() if os.path.exists(path) else None
    if code == 2:
        if out and case.format != "ops": return "refused with something on stdout"
        return "refused, but --out changed" if there != before else None
    if case.out and not asked_for_help(case):
        if out: return "--out, and something on stdout"
        out = there if there is not None and there != before else b"" if code == 3 else None
        if out is None: return "--out was not written"
    return broken_output(case, code, out)


def asked_for_help(case): return any(re.match(rb"--version|--help|-h", os.fsencode(word)) for word in case.args)


def broken_output(case, code, out):
    if case.format == "ops":
        widths = {len(row) for row in csv.reader(io.StringIO(out.decode("utf-8", "replace").replace("\0", "0"), newline=""), strict=True) if row}
        return f"rows of {sorted(widths)} fields" if len(widths) > 1 else None
    if (why := shown(out)): return "output: " + why
    if out and not asked_for_help(case) and case.format in ("json", "trace"): json.loads(out)
    return None


def run_case(program, seed, index, shipped, timeout, kind=None):
    case = case_of(seed, index, shipped, kind)
    with tempfile.TemporaryDirectory(prefix="plumbline-fuzz-") as folder:
        folder = folder.encode()
        for name, data in case.files.items():
            with open(os.path.join(folder, name if isinstance(name, bytes) else name.encode()), "wb") as file: file.write(data)
        before = None
        if case.out and index % 2 == 0:
            before = b"earlier"
            with open(folder + b"/OUT", "wb") as file: file.write(before)
        args = [os.path.join(os.path.dirname(program), case.program)] + case.args
        try:
            done = subprocess.run(args, cwd=folder, input=case.stdin, capture_output=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return case, -1, f"longer than {timeout} s", b""
        try:
            return case, done.returncode, broken_rule(case, done.returncode, done.stdout, done.stderr, before, folder), done.stderr
        except (ValueError, csv.Error) as error:
            return case, done.returncode, f"output: {error}", done.stderr


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--count", type=int, default=1 << 60)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--only", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=20)
    parser.add_argument("--kind")
    asked = parser.parse_args()
    program = os.path.abspath(os.path.join(asked.bin, "predict-model"))
    shipped = Shipped(program)
    if not kinds_of(shipped, asked.kind): parser.error(f"--kind: expected one of {sorted({kind.__name__[:-5] for kind in kinds_of(shipped)})}")
    if asked.count == 1 << 60 and asked.seconds == 1e9 and asked.only is None: asked.count = 1000
    if asked.only is not None:
        case, code, rule, err = run_case(program, asked.seed, asked.only, shipped, asked.timeout, asked.kind)
        print(case.kind, case.args, case.files, case.stdin, code, rule, err, sep="\n")
        return 1 if rule else 0
    start, tried, codes, failures = time.monotonic(), 0, collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        while tried < asked.count and time.monotonic() - start < asked.seconds and failures < 20:
            part = range(tried, min(tried + 50 * asked.jobs, asked.count))
            for index, (case, code, rule, err) in zip(part, pool.map(lambda i: run_case(program, asked.seed, i, shipped, asked.timeout, asked.kind), part)):
                codes[case.kind, code] += 1
                if rule is None: continue
                failures += 1
                print(f"{case.kind} {index}: {rule}; {err[:300]!r}\n  again: {sys.argv[0]} {asked.bin} --seed {asked.seed} --only {index}{' --kind ' + asked.kind if asked.kind else ''}", flush=True)
            tried = part[-1] + 1
    kinds = sorted({kind for kind, _ in codes})
    for kind in kinds:
        counts = {code: n for (k, code), n in sorted(codes.items()) if k == kind}
        print(f"  {kind:12} {sum(counts.values()):6}  " + ", ".join(f"exit {code}: {n}" for code, n in counts.items()))
    print(f"programs: {tried} inputs of seed {asked.seed} in {time.monotonic() - start:.0f} s, {failures} broke a rule")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
