#!/usr/bin/env python3
"""What studies take, a part at a time: bench/studies.py PREDICT_MODEL [PART...] [--points N] [--kills N].

  points    1,000,000 points of Llama-3.1-70B (batch x context x bandwidth x SMs x TP): seconds, rate, most memory
  kills     the same, ended by -9 at random moments and resumed: the bytes are those of one run
  mpi       the same under `mpirun -n 4`, more ranks than cores; and with a rank that is killed
  whatif    one process of sensitivity, solve and diff: the fastest and the median of twenty
Without a part all of them. Run it on a machine that does nothing else; exit code 1: bytes differ."""

import argparse
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time

STEP = ["llm", "--model", "llama-3.1-70b", "--gpu", "h200", "--phase", "decode"]
AXES = ["--tp", "1,2,4,8", "--batch", "1:25:1", "--set", "memory.bandwidth=4:8:0.2TB/s", "--set", "sm_count=112:150:2"]
WHATIF = {
    "sensitivity": ["sensitivity", *STEP, "--tp", "4", "--batch", "32"],
    "solve": ["solve", *STEP, "--gpus", "4", "--vary", "batch", "--target", "latency_s<=0.030", "--target", "power_W<=600"],
    "diff": ["diff", *STEP, "--tp", "4", "--batch", "32", "--against", "--gpu", "h100"],
}


def study(points):
    """Words of a sweep of about so many points: 42,000 for each context."""
    contexts = max(1, round(points / (4 * 25 * 21 * 20)))
    return ["sweep", *STEP, *AXES, "--context", f"1024:{1024 * contexts}:1024"]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read()).hexdigest()


def timed(words, **more):
    begin = time.perf_counter()
    done = subprocess.run(words, stdout=subprocess.DEVNULL, check=False, **more)
    return time.perf_counter() - begin, done.returncode


class Bench:
    def __init__(self, program, points, kills, folder):
        self.program, self.kills, self.folder = program, kills, folder
        self.words = [program, *study(points)]
        self.whole, self.seconds, self.same = None, 0, True

    def out(self, name):
        return os.path.join(self.folder, name)

    def of_one_run(self):
        """The bytes of a run that nothing disturbs."""
        if self.whole is None:
            self.seconds, code = timed([*self.words, "--out", self.out("whole.csv")])
            assert code in (0, 3), code
            self.whole = digest(self.out("whole.csv"))
        return self.whole

    def compare(self, path, what):
        same = digest(path) == self.of_one_run()
        self.same = self.same and same
        print(f"{what}: {'the same bytes' if same else 'OTHER BYTES'}")

    def points(self):
        self.of_one_run()
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        with open(self.out("whole.csv"), "rb") as file:
            count = sum(1 for _ in file) - 1
        print(f"{count} points in {self.seconds:.1f} s, {count / self.seconds:.0f} a second, {most:.0f} MiB at most, {os.cpu_count()} cores")

    def interrupted(self):
        self.of_one_run()
        path, killed = self.out("killed.csv"), 0
        for _ in range(self.kills):
            run = subprocess.Popen([*self.words, "--resume", "--out", path], stdout=subprocess.DEVNULL)
            try:
                run.wait(timeout=random.uniform(0.01, 2 * self.seconds / self.kills))
                break
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGKILL)
                run.wait()
                killed += 1
        if not os.path.exists(path):
            timed([*self.words, "--resume", "--out", path])
        self.compare(path, f"killed {killed} times and resumed")

    def mpi(self):
        mpirun = shutil.which("mpirun")
        if mpirun is None or not os.path.exists(self.program + "-mpi"):
            print("mpi: there is no mpirun, or no predict-model-mpi")
            return
        ranks = [mpirun, "-n", "4", "--oversubscribe", "--allow-run-as-root", *self.words]
        path = self.out("ranks.csv")
        seconds, code = timed([*ranks, "--out", path])
        assert code in (0, 3), code
        self.compare(path, f"four ranks in {seconds:.1f} s")
        path = self.out("lost.csv")
        run = subprocess.Popen([*ranks, "--resume", "--out", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.4 * seconds)
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(run.pid)], capture_output=True, text=True, check=False)
        os.kill(int(listed.stdout.split()[2]), signal.SIGKILL)
        code = run.wait()
        if not os.path.exists(path):
            timed([*ranks, "--resume", "--out", path])
        self.compare(path, f"a rank killed (mpirun's code {code}) and resumed")

    def whatif(self):
        for name, words in WHATIF.items():
            times = sorted(timed([self.program, *words])[0] for _ in range(20))
            print(f"{name}: {1e3 * times[0]:.1f} ms the fastest, {1e3 * times[10]:.1f} ms in the median of 20 processes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=20)
    asked = parser.parse_args()
    known = {"points": Bench.points, "kills": Bench.interrupted, "mpi": Bench.mpi, "whatif": Bench.whatif}
    for part in asked.parts:
        if part not in known:
            parser.error(f"expected points, kills, mpi or whatif, found '{part}'")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(os.path.abspath(asked.program), asked.points, asked.kills, folder)
        for part in asked.parts or known:
            known[part](bench)
    return 0 if bench.same else 1


if __name__ == "__main__":
    raise SystemExit(main())
