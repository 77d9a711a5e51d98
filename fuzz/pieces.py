"""What malformed inputs are made of (programs.py): odd numbers and bytes, mutated documents, what is shipped."""
import json, os, pathlib, re, subprocess

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"

ODD_NUMBERS = ["0", "-1", "0.5", "1e308", "1e-308", "-0", "9" * 400, "1e999", "NaN", "Infinity", "-Infinity", "2147483649",
               "9007199254740993", "00", "1.", "0x10", "1_000", "true", "null"]
ODD_BYTES = [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\x1b[31m", b"\x1b]0;t\x07", b"\x00", b"\r", b"\n", b"\x9b", b"\xe2\x80\xae",
             b"\xc2\x9b", b"\x7f", b"\t", b"\xef\xbb\xbf", "größe".encode(), "日本".encode(), b"<b>&\"'", b"%s%n", b"=1+1", b"../", b"'"]


def odd_text(r, most=12):
    """Bytes without a zero, so that they can be an argument."""
    parts = [r.choice(ODD_BYTES + [b"a", b"h200", b"=", b",", b"1"]) for _ in range(r.randrange(1, 4))]
    if r.random() < 0.05:
        parts.append(b"x" * r.choice([100, 600, 10000]))
    return b"".join(parts).replace(b"\0", b"0")[: 20000]


def odd_value(r, depth=0):
    pick = r.randrange(9)
    if pick == 0: return r.choice([None, True, False])
    if pick == 1: return r.choice([0, 1, -1, 0.5, 3, 2**31, 2**53 + 1, 1e300, -1e-300, 10**400])
    if pick == 2: return odd_text(r).decode("utf-8", "replace")
    if pick == 3: return r.choice(["", "auto", "8 GB", "3.35 TB/s", "1980 MHz", "700", "12 parsecs", "bf16", "fp7", "llama"])
    if pick == 4 and depth < 3: return [odd_value(r, depth + 1) for _ in range(r.randrange(4))]
    if pick == 5 and depth < 3: return {odd_text(r).decode("utf-8", "replace"): odd_value(r, depth + 1) for _ in range(r.randrange(3))}
    if pick == 6: return [[[]]]
    if pick == 7: return {}
    return r.randrange(-5, 200000)


def places(node, found):
    """Every (container, key) of a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        found.append((node, key))
        places(value, found)
    return found


def mutated_json(r, text):
    """Another document, or text that is none."""
    if r.random() < 0.3: return mutated_bytes(r, text.encode())
    root = json.loads(text)
    for _ in range(r.randrange(1, 4)):
        found = places(root, [])
        if not found: break
        node, key = r.choice(found)
        what = r.randrange(7)
        if what == 0: del node[key]
        elif what in (1, 2): node[key] = odd_value(r)
        elif what == 3 and isinstance(node[key], (int, float)) and abs(node[key]) < 1e300: node[key] = node[key] * r.choice([-1, 0, 0.5, 2, 7, 1000, 1e30])
        elif what == 4 and isinstance(node[key], str): node[key] = r.choice([node[key][:-1], node[key] + "x", node[key].upper()])
        elif what == 5 and isinstance(node, dict): node[str(key) + r.choice(["_size", "s", "_layers", "\x1b", " "])] = odd_value(r)
        elif isinstance(node, dict): node[odd_text(r).decode("utf-8", "replace")] = node[key]
    out = json.dumps(root, ensure_ascii=r.random() < 0.5).encode("utf-8", "surrogatepass")
    if r.random() < 0.1 and out.startswith(b"{\""):  # a key twice
        out = b"{" + out[1:].split(b",")[0] + b"," + out[1:] if b"," in out else out
    if r.random() < 0.1: out = out.replace(b": 1", b": " + r.choice(ODD_NUMBERS).encode(), 1)
    if r.random() < 0.02: out = b"[" * r.choice([190, 250, 100000]) + out
    return out


def mutated_bytes(r, data):
    data = bytearray(data)
    for _ in range(r.randrange(1, 6)):
        at = r.randrange(len(data) + 1)
        what = r.randrange(6)
        if what == 0: data[at:at] = r.choice(ODD_BYTES)
        elif what == 1: del data[at:at + r.randrange(1, 40)]
        elif what == 2 and data: data[min(at, len(data) - 1)] = r.randrange(256)
        elif what == 3: data[at:at] = data[at:at + r.randrange(1, 200)]
        elif what == 4: data = data[:at] if r.random() < 0.3 else data
        else: data[at:at] = r.choice([b"{", b"}", b"[", b"]", b"\"", b",", b":", b"9" * 50, b"-", b"\\", b"\\u0000"])
    return bytes(data)


class Shipped:
    """What the inputs are mutated from."""

    def __init__(self, program):
        self.program = program
        self.validate = os.path.exists(os.path.join(os.path.dirname(program), "validate"))
        self.models = sorted((DATA / "models").glob("*.json"))
        self.gpus = sorted((DATA / "gpus").glob("*.json"))
        self.calibrations = sorted((DATA / "calibration").glob("*.json"))
        self.clusters = sorted((DATA / "clusters").glob("*.json"))
        # "attention_prefill   B,Hq,Hkv,D,S,causal (0/1) [Skv,window]" -> name, keys that it needs, keys that it may have
        self.ops = []
        for line in self.listed(program, "ops"):
            name, keys = line.split(maxsplit=1)
            needed, _, optional = re.sub(r"\([^)]*\)", "", keys).partition("[")
            self.ops.append((name, re.findall(r"\w+", needed), re.findall(r"\w+", optional)))
        self.gpu_names = [line.split()[0] for line in self.listed(program, "gpus")]
        self.model_names = [path.stem for path in self.models]

    @staticmethod
    def listed(program, what):
        return subprocess.run([program, "list", what], capture_output=True, text=True, check=True).stdout.splitlines()[1:]


class Case:
    def __init__(self):
        self.program = "predict-model"
        self.kind, self.args, self.files, self.stdin, self.format, self.out = "", [], {}, b"", "table", False


def a_size(r):
    return r.choice(["1", "2", "7", "64", "4096", "131072", "0", "-1", "1099511627776", "9223372036854775808", "1e6", "8k", "0x10", "",
                     "1.5", " 4", "NaN"]) if r.random() < 0.4 else str(r.choice([1, 3, 8, 16, 100, 1000, 4096]))


def machine(r, s, case, broken=0.15):
    args = ["--gpu", r.choice(s.gpu_names)]
    if r.random() < broken: args[1] = odd_text(r)
    if r.random() < 0.2: args += ["--set", set_text(r)]
    for flag, words in (("--kernels", ["own", "library", "ideal", "owm"]), ("--clock", ["burst", "steady", "stead"]),
                        ("--stack", ["own", "trt-llm", "vllm", "ideal", "nobody"]), ("--power-cap", ["400", "400 W", "0", "-3", "nan", "1e9"]),
                        ("--data", ["zeros", "normal", "ones"]), ("--attention", ["flash-attention", "cudnn", "x"])):
        if r.random() < 0.12: args += [flag, r.choice(words) if r.random() < 0.9 else odd_text(r)]
    return args


def set_text(r):
    path = r.choice(["sm_count", "boost_clock", "memory.bandwidth", "memory.latency", "memory.capacity", "l2.size", "l2.bandwidth", "tdp",
                     "sm.registers", "memory", "a.b.c", "", ".", "tensor.bf16", "links.nvlink", "name"])
    value = r.choice(["6TB/s", "160", "0", "-1", "2000 MHz", "1e9", "NaN", "\"x\"", "null", "[]", "{", "700 W", "330ns", "9" * 60, "50 MiB"])
    text = (path + "=" + value).encode()
    return mutated_bytes(r, text).replace(b"\0", b"0") if r.random() < 0.3 else text


def answer(r, case, formats):
    if r.random() < 0.5:
        case.format = r.choice(formats)
        case.args += ["--format", case.format]
    if r.random() < 0.3:
        case.out = True
        case.args += ["--out", "OUT"]


def report(r, case, formats):
    if r.random() < 0.5:
        case.format = r.choice(formats)
        case.args += ["--format", case.format]
    if r.random() < 0.3:
        case.out = True
        case.args += ["--report", "OUT"]
