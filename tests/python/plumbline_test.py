"""Python's plumbline against predict-model: the same numbers, the same refusals. PLUMBLINE_BIN is where the program lies."""

import json
import math
import os
import random
import subprocess
import threading
import time
import unittest

import plumbline as pl

PROGRAM = os.path.join(os.environ["PLUMBLINE_BIN"], "predict-model")


def printed(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def answered(*words):
    code, out, err = printed(*words, "--format", "json")
    assert code in (0, 1), err
    return json.loads(out)


class SameNumbers(unittest.TestCase):
    """JSON's numbers have all their digits: equal values are equal bits."""

    def test_every_machine(self):
        for gpu in pl.gpus():
            code, out, err = printed("llm", "--model", "llama-3.2-1b", "--gpu", gpu, "--phase", "decode", "--format=json")
            try:
                self.assertEqual(pl.predict("llama-3.2-1b", gpu), json.loads(out), gpu)
            except pl.Error as refusal:  # one that has no bf16
                self.assertEqual((code, str(refusal) + "\n"), (2, err))

    def test_some_models(self):
        for model in random.Random(7).sample(pl.models(), 4) + ["llama-3.1-70b", "deepseek-v3"]:
            for phase, length in (("decode", "context"), ("prefill", "prompt")):
                mine = pl.predict(model, "h100", phase=phase, tp=8, batch=4, **{length: 777})
                words = ("--phase", phase, "--tp", "8", "--batch", "4", f"--{length}", "777")
                self.assertEqual(mine, answered("llm", "--model", model, "--gpu", "h100", *words), model)

    def test_flags_toggles_and_edits(self):
        gpu = pl.gpu("h200")
        gpu.memory.bandwidth_TBps = 6
        gpu.sm_count = "+20%"
        mine = pl.predict("llama-3.1-8b", gpu, phase="prefill", prompt=512, tp=2, sp=True, power_cap=500, explain=True)
        theirs = answered("llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "prefill", "--prompt", "512",
                          "--tp", "2", "--sp", "--power-cap", "500", "--explain", "--set", "memory.bandwidth=6TB/s",
                          "--set", "sm_count=+20%")  # fmt: skip
        self.assertEqual(mine.latency_s, theirs["latency_s"])
        self.assertEqual([each.explain for each in mine.ops], [each["explain"] for each in theirs["ops"]])
        self.assertEqual(mine.parallel.sp, True)

    def test_operators(self):
        mine = pl.op("gemm", "a100_sxm", M=64, N=4096, K=4096, dtype="fp16", clock="steady")
        self.assertEqual(mine, answered("op", "gemm", "M=64", "N=4096", "K=4096", "--dtype", "fp16", "--clock", "steady",
                                        "--gpu", "a100_sxm"))  # fmt: skip

    def test_studies_of_a_point(self):
        words = ("llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--batch", "32")
        asked = {"model": "llama-3.1-8b", "gpu": "h200", "batch": 32}
        self.assertEqual(pl.sensitivity(**asked), answered("sensitivity", *words))
        target = "latency_s<=0.006"
        self.assertEqual(pl.solve(**asked, vary="memory.bandwidth", target=target),
                         answered("solve", *words, "--vary", "memory.bandwidth", "--target", target))  # fmt: skip
        self.assertEqual(pl.diff(**asked, against={"gpu": "h100", "set": {"tdp": "500W"}}),
                         answered("diff", *words, "--against", "--gpu", "h100", "--set", "tdp=500W"))  # fmt: skip
        self.assertEqual(pl.diff(op="gemm", gpu="h200", M=64, N=4096, K=700, against={"K": 704}),
                         answered("diff", "op", "gemm", "--gpu", "h200", "M=64", "N=4096", "K=700", "--against",
                                  "K=704"))  # fmt: skip

    def test_plans_and_graphs(self):
        self.assertEqual(pl.plan("llama-3.1-8b", "h200", 4, batch=16),
                         answered("plan", "--model", "llama-3.1-8b", "--gpu", "h200", "--gpus", "4", "--batch", "16"))
        code, out, _ = printed("llm", "--model", "llama-3.1-8b", "--format", "graph")
        self.assertEqual((code, pl.graph("llama-3.1-8b")), (0, json.loads(out)))

    def test_what_does_not_fit_is_answered(self):
        self.assertFalse(pl.predict("llama-3.1-405b", "h200").fits)


class Sweeps(unittest.TestCase):
    ASKED = {"context": [512, 4096], "set": {"memory.bandwidth": "4:6:1TB/s"}, "batch": "1:64:x4", "tp": [1, 3]}
    WORDS = ("llm", "--model", "llama-3.2-1b", "--gpu", "h200", "--phase", "decode", "--context", "512,4096", "--batch",
             "1:64:x4", "--tp", "1,3", "--set", "memory.bandwidth=4:6:1TB/s")  # fmt: skip

    def lines(self, *more):
        _, out, _ = printed("sweep", *self.WORDS, *more, "--format", "jsonl")
        return [json.loads(line) for line in out.splitlines()]

    def same(self, table, lines):
        self.assertEqual(table.rows, len(lines))
        for row, line in zip(table.records(), lines):
            for key, value in row.items():
                expected = line.get(key)
                if expected is None and isinstance(value, float):
                    self.assertTrue(math.isnan(value), key)
                else:
                    self.assertEqual(value, expected, key)

    def test_have_the_lines_of_the_program(self):
        columns = ["latency_s", "tokens_per_J", "fits", "bound"]
        table = pl.sweep("llama-3.2-1b", "h200", columns=columns, **self.ASKED)
        lines = self.lines("--columns", ",".join(columns))
        self.same(table, lines)
        self.assertEqual(list(table), ["context", "batch", "tp", "set.memory.bandwidth", *columns, "error"])
        self.assertEqual(table.axes, ["context", "batch", "tp", "set.memory.bandwidth"])
        self.assertEqual((table.points, table.kept, table.refused), (48, 48, 24))  # three ranks share no 8 heads of KV
        self.assertTrue(all((error is None) == (tp == 1) for error, tp in zip(table["error"], table["tp"])))

    def test_choose(self):
        where = ["fits", "tp<=1"]
        self.same(pl.sweep("llama-3.2-1b", "h200", where=where, threads=2, **self.ASKED),
                  self.lines("--where", "fits", "--where", "tp<=1"))  # fmt: skip
        self.same(pl.sweep("llama-3.2-1b", "h200", objective="max tokens_per_J", top=3, **self.ASKED),
                  self.lines("--objective", "max tokens_per_J", "--top", "3"))  # fmt: skip
        front = ["tokens_per_s", "latency_s"]
        self.same(pl.sweep("llama-3.2-1b", "h200", pareto=front, **self.ASKED), self.lines("--pareto", ",".join(front)))

    def test_read_study_files_and_operators(self):
        ladder = os.path.join(pl.data_folder(), "studies", "whatif", "dtype_ladder.json")
        self.assertEqual(pl.sweep(ladder)["dtype"][1], "fp8")
        table = pl.sweep(op="gemm", gpu=["h100", "h200"], M=[1, 16], N=4096, K=4096)
        self.assertEqual(list(table["gpu"]), ["h100", "h100", "h200", "h200"])
        self.assertEqual(table["latency_s"][3], pl.op("gemm", "h200", M=16, N=4096, K=4096).latency_s)

    def test_tell_how_far_they_are_and_stop_when_told(self):
        seen = []
        pl.sweep("llama-3.2-1b", "h200", batch="1:300:1", progress=lambda done, points: seen.append((done, points)))
        self.assertEqual(seen[-1], (300, 300))

        def stop(done, points):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            pl.sweep("llama-3.2-1b", "h200", batch="1:300:1", progress=stop)

    def test_frames(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        frame = pandas.DataFrame(pl.sweep("llama-3.2-1b", "h200", columns=["latency_s", "fits"], **self.ASKED))
        self.assertEqual(frame.shape, (48, 7))
        self.assertEqual(len(pandas.DataFrame(pl.predict("llama-3.1-8b", "h200").ops)["latency_s"].dropna()),
                         len(pl.predict("llama-3.1-8b", "h200").ops))  # fmt: skip


class Machines(unittest.TestCase):
    def test_numbers_are_attributes_with_units(self):
        gpu = pl.gpu("h200")
        self.assertEqual(gpu.memory.bandwidth, 4.8e12)
        self.assertEqual(gpu.memory.bandwidth_GBps, 4800)
        gpu.memory.bandwidth_GBps = 6000
        self.assertEqual(gpu.memory.bandwidth, 6e12)
        gpu.memory.bandwidth = 5e12
        self.assertEqual(gpu["memory.bandwidth"], 5e12)
        gpu.memory.bandwidth = "x2"
        self.assertEqual(gpu.memory.bandwidth, 9.6e12)
        gpu.boost_clock_MHz = 1500
        self.assertEqual(gpu.boost_clock, 1.5e9)
        gpu.memory.latency_ns = 500
        self.assertAlmostEqual(gpu.memory.latency, 5e-7)
        self.assertEqual(set(gpu.changes), {"memory.bandwidth", "boost_clock", "memory.latency"})
        self.assertIn("bandwidth", dir(gpu.memory))

    def test_each_number_set_to_itself_changes_nothing(self):
        chance = random.Random(3)
        for name in pl.gpus():
            gpu = pl.gpu(name)
            paths = [path for path in gpu if gpu[path]]
            for path in paths if name == "h200_sxm" else chance.sample(paths, 1):
                value = gpu[path]
                gpu[path] = value
                self.assertAlmostEqual(gpu[path] / value, 1, places=12, msg=f"{name} {path}")

    def test_what_is_derived_follows(self):
        gpu = pl.gpu("h200")
        before = gpu.l2.bandwidth
        gpu.sm_count = 2 * gpu.sm_count
        self.assertEqual(gpu.l2.bandwidth, 2 * before)

    def test_copies_are_their_own(self):
        gpu = pl.gpu("h200")
        other = gpu.copy()
        other.tdp_W = 500
        self.assertEqual((gpu.tdp, other.tdp), (700, 500))

    def test_names_and_numbers_that_there_are_none_of(self):
        gpu = pl.gpu("h200")
        with self.assertRaisesRegex(pl.BadInput, "did you mean 'memory.bandwidth'"):
            gpu.memory.bandwith_GBps = 6000
        with self.assertRaisesRegex(pl.BadInput, "did you mean 'sm_count'"):
            gpu.sm_counts = 5
        with self.assertRaisesRegex(pl.BadInput, "expected GB/s, TB/s, found 'MHz'"):
            gpu.memory.bandwidth_MHz = 5
        with self.assertRaises(pl.BadInput):
            gpu.sm_count = 0
        self.assertEqual(gpu.changes, {})


class Refusals(unittest.TestCase):
    def same_line(self, ask, *words):
        code, _, err = printed(*words)
        with self.assertRaises(pl.BadInput if code == 2 else pl.NotModelled) as caught:
            ask()
        self.assertEqual(str(caught.exception) + "\n", err)

    def test_have_the_line_of_the_program(self):
        self.same_line(lambda: pl.predict("llama-3.1-8c", "h200"),
                       "llm", "--model", "llama-3.1-8c", "--gpu", "h200", "--phase", "decode")  # fmt: skip
        self.same_line(lambda: pl.predict("llama-3.1-8b", "h200", bacth=3),
                       "llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--bacth=3")  # fmt: skip
        self.same_line(lambda: pl.op("gemm", "h200", M=1, N=2, L=3), "op", "gemm", "M=1", "N=2", "L=3", "--gpu", "h200")
        self.same_line(lambda: pl.sweep("llama-3.1-8b", "h200", batch=[1, 1]),
                       "sweep", "llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--batch", "1,1")
        self.same_line(lambda: pl.predict("llama-3.1-8b", "h200", attention="own"),
                       "llm", "--model", "llama-3.1-8b", "--gpu", "h200", "--phase", "decode", "--attention", "own")

    def test_are_errors_of_values(self):
        with self.assertRaises(ValueError):
            pl.predict("llama-3.1-8b", "h200", batch=[1, 2])
        with self.assertRaises(pl.Error):
            pl.predict("llama-3.1-8b", "h200", format="csv")
        with self.assertRaisesRegex(AttributeError, "did you mean 'latency_s'"):
            pl.op("gemm", "h200", M=1, N=8, K=8).latency

    def test_any_text_is_refused_or_answered(self):
        chance = random.Random(11)
        for _ in range(60):
            text = "".join(chance.choice("abc019-_=,:x% \t\n\0é\"'{}/.") for _ in range(chance.randrange(12)))
            for ask in (
                lambda: pl.predict(text, "h200"),
                lambda: pl.op("gemm", "h200", M=text, N=8, K=8),
                lambda: pl.sweep("llama-3.2-1b", "h200", batch=text, columns=[text]),
                lambda: pl.gpu(text),
            ):
                try:
                    ask()
                except pl.Error:
                    pass


class Threads(unittest.TestCase):
    def test_others_run_while_it_predicts(self):
        """Another thread counts on while a sweep runs in one: the lock of the interpreter is free."""
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1
                time.sleep(0.0005)

        other = threading.Thread(target=count)
        other.start()
        start = time.monotonic()
        pl.sweep("llama-3.1-8b", "h200", batch="1:3000:1", threads=1)
        took = time.monotonic() - start
        done.set()
        other.join()
        self.assertGreater(counted[0], took / 0.1)  # held, the lock would be free once a switch of 5 ms at the ends alone

    def test_answer_alike(self):
        found = []
        threads = [threading.Thread(target=lambda: found.append(pl.predict("llama-3.1-8b", "h200", batch=8).latency_s))
                   for _ in range(8)]  # fmt: skip
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(set(found), {pl.predict("llama-3.1-8b", "h200", batch=8).latency_s})
        self.assertEqual(len(found), 8)


class Package(unittest.TestCase):
    def test_has_one_version(self):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with open(os.path.join(root, "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn(f'\nversion = "{pl.__version__}"\n', file.read())


class Plots(unittest.TestCase):
    def test_draw_what_there_is(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("matplotlib is not installed")
        matplotlib.use("Agg")
        ax = pl.sweep("llama-3.1-8b", ["h100", "h200"], batch=[1, 2]).plot(x="batch", by="gpu")
        self.assertEqual([len(line.get_xdata()) for line in ax.lines], [2, 2])
        asked = {"model": "llama-3.1-8b", "gpu": "h200"}
        self.assertEqual(len(pl.sensitivity(**asked).plot(top=5).patches), 5)
        self.assertGreater(len(pl.diff(**asked, against={"gpu": "h100"}).plot().patches), 5)
        self.assertGreater(len(pl.predict(**asked).plot().patches), 5)


if __name__ == "__main__":
    unittest.main()
