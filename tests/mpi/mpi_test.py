"""Sweeps under mpirun: the bytes of one process, and nothing lost where a rank is killed: mpi_test.py FOLDER_OF_PROGRAMS."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.path.join(sys.argv.pop(1), "predict-model")
MPIRUN = shutil.which("mpirun")
WORDS = ["sweep", "llm", "--model", "llama-3.2-1b", "--gpu", "h200", "--phase", "decode", "--tp", "1,2,4,8", "--threads", "1"]
SMALL = [*WORDS, "--batch", "1:16:1", "--context", "128:2048:128"]
LARGE = [*WORDS, "--batch", "1:64:1", "--context", "128:16384:128"]
BEST = ["--pareto", "tokens_per_s,latency_s", "--columns", "tokens_per_s,latency_s"]
TOP = ["--objective", "max tokens_per_J", "--top", "9", "--format", "table"]


def under_mpi(words, ranks=4):
    return [MPIRUN, "-n", str(ranks), "--oversubscribe", "--allow-run-as-root", PROGRAM, *words]


def children(pid):
    """Processes that mpirun started, in their order."""
    found = []
    for each in os.listdir("/proc"):
        if each.isdigit():
            try:
                with open(f"/proc/{each}/stat", encoding="ascii", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            if int(text.rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(each))
    return sorted(found)


@unittest.skipUnless(MPIRUN and os.path.exists(PROGRAM + "-mpi"), "there is no mpirun, or no predict-model-mpi")
class Mpi(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.folder.name, "out")

    def tearDown(self):
        self.folder.cleanup()

    def written(self):
        with open(self.out, encoding="utf-8") as file:
            return file.read()

    def test_writes_the_bytes_of_one_process(self):
        for more in ([], BEST):
            alone = subprocess.run([PROGRAM, *SMALL, *more], capture_output=True, text=True, check=False)
            shared = subprocess.run(under_mpi([*SMALL, *more, "--out", self.out]), capture_output=True, text=True, check=False)
            self.assertEqual(shared.returncode, alone.returncode, shared.stderr)
            self.assertEqual(self.written(), alone.stdout)
            self.assertEqual(os.listdir(self.folder.name), ["out"])

    def test_says_what_is_wrong_once(self):
        done = subprocess.run(under_mpi([*SMALL, "--where", "latency<=1"], 2), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("predict-model sweep:"), 1, done.stderr)

    def test_loses_nothing_with_a_rank_that_is_killed(self):
        for more in ([], TOP):
            alone = subprocess.run([PROGRAM, *LARGE, *more], capture_output=True, text=True, check=False)
            words = [*LARGE, *more, "--resume", "--out", self.out]
            run = subprocess.Popen(under_mpi(words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while run.poll() is None and time.monotonic() < end:
                ranks = children(run.pid)
                begun = any(name.endswith((".state", ".best")) and os.path.getsize(os.path.join(self.folder.name, name))
                            for name in os.listdir(self.folder.name))  # fmt: skip
                if len(ranks) == 4 and begun:
                    os.kill(ranks[2], signal.SIGKILL)
                    break
                time.sleep(0.002)
            self.assertNotEqual(run.wait(timeout=60), 0)  # the launcher ends the others, and says so
            if not os.path.exists(self.out):
                again = subprocess.run(under_mpi(words, 3), capture_output=True, text=True, check=False)
                self.assertEqual(again.returncode, alone.returncode, again.stderr)
            self.assertEqual(self.written(), alone.stdout)
            self.assertEqual(os.listdir(self.folder.name), ["out"])
            os.unlink(self.out)


if __name__ == "__main__":
    unittest.main()
