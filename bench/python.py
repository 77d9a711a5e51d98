"""Times a sweep from Python against the program's, and single predictions: bench/python.py PREDICT_MODEL [POINTS]."""

import os
import subprocess
import sys
import tempfile
import time

import plumbline as pl

WORDS = ("llm", "--model", "llama-3.1-70b", "--gpu", "h200", "--phase", "decode", "--tp", "1,2,4,8")
PATH, FROM, TO, STEP = "memory.bandwidth", 4, 8, 0.5


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(program, points=100_000):
    contexts = max(1, points // (4 * 9 * 64))
    lengths = f"1024:{1024 + 64 * (contexts - 1)}:64"
    bandwidths = f"{FROM}:{TO}:{STEP}TB/s"
    with tempfile.TemporaryDirectory() as folder:
        words = ["sweep", *WORDS, "--context", lengths, "--batch", "1:64:1", "--set", f"{PATH}={bandwidths}"]
        command = [program, *words, "--out", os.path.join(folder, "out.csv")]
        def theirs():
            return subprocess.run(command, check=True)

        def mine():
            return pl.sweep("llama-3.1-70b", "h200", tp=[1, 2, 4, 8], context=lengths, batch="1:64:1",
                            set={PATH: bandwidths})  # fmt: skip

        pairs = [(seconds(theirs), seconds(mine)) for _ in range(3)]
    program_s, python_s = (min(each) for each in zip(*pairs))
    count = 4 * 9 * 64 * contexts
    print(f"sweep of {count} points: program {program_s:.2f} s, Python {python_s:.2f} s ({python_s / program_s:.2f} of it)")
    for name, ask in (("step", lambda: pl.predict("llama-3.1-8b", "h200")),
                      ("operator", lambda: pl.op("gemm", "h200", M=64, N=4096, K=4096))):  # fmt: skip
        ask()
        print(f"one {name} from Python: {min(seconds(ask) for _ in range(50)) * 1e3:.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1], *(int(each) for each in sys.argv[2:]))
