#!/usr/bin/env python3
"""Products of cuBLAS in bf16 through PyTorch: their energy in short bursts far below the power cap and at the cap, and one
call of each for `ncu` to count bytes by.

Bursts: a CUDA graph of some 8 ms, then a pause of 30 ms, for 1.6 s: the clock stays as set, and what a call takes is the
energy beyond that of pauses alone, divided by the calls. At the cap: half a second to settle, 1.2 s read. Energy is that
of NVML's counter. One JSON object a line.

usage: measure_products.py OUT.jsonl [--shapes MxNxK,...]
       ncu --profile-from-start off --nvtx --clock-control none --cache-control none --csv --page raw --log-file LOG \\
           --metrics METRICS python3 tools/measure_products.py --count [--shapes MxNxK,...]
       measure_products.py --convert LOG > counts.csv
       measure_products.py --rows|--bursts RECORDED.jsonl... > rows.csv

--shapes: these in place of SHAPES, all of them at the cap too. METRICS are those of COLUMNS. The last two forms need no PyTorch:
one line a launch; products at the cap as rows that `validate` reads (of recordings of measure_steady.py, weights [N,K]),
without those that had not settled; bursts as rows of a board that would hold their clock: what it draws in pauses and what a
call takes beyond that, for `validate fit-power` alone.
"""
import csv
import json
import re
import sys
import time

# Our column -> the profiler's metric, and what one of it is; amounts of the whole launch.
COLUMNS = {
    "dram_read_B": ("dram__bytes_read.sum", 1),
    "dram_write_B": ("dram__bytes_write.sum", 1),
    "l2_asked_B": ("lts__t_sectors_srcunit_tex.sum", 32),
    "l2_other_partition_B": ("lts__t_sectors_srcunit_ltcfabric.sum", 32),
    "arrived_in_SMs_B": ("l1tex__m_xbar2l1tex_read_bytes.sum", 1),
    "smem_read_B": ("l1tex__data_bank_reads.sum", 4),
    "smem_write_B": ("l1tex__data_bank_writes.sum", 4),
    "warp_instructions": ("smsp__inst_executed.sum", 1),
    "uniform_instructions": ("smsp__inst_executed_pipe_uniform.sum", 1),
    "sm_cycles": ("sm__cycles_elapsed.sum", 1),
    "profiled_ns": ("gpu__time_duration.sum", 1),
}
SHAPES = [(8192, 8192, 8192), (4096, 14336, 4096), (8192, 2048, 8192), (8192, 128256, 4096), (4096, 6400, 1600),
          (4096, 4096, 4096), (2048, 8192, 16384), (16384, 4096, 4096)]
AT_THE_CAP = 5  # of them, the first
IDLE_SECONDS, PAUSE_SECONDS = 0.6, 0.03


def name(shape):
    return "M=%d;N=%d;K=%d" % shape


def convert(log):
    with open(log, encoding="utf-8") as text:
        rows = list(csv.reader(line for line in text if not line.startswith("==")))
    at = {column: i for i, column in enumerate(rows[0])}
    marked = next(i for i, column in enumerate(rows[0]) if "Push/Pop_Range" in column)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["shape", "kernel", *COLUMNS])
    for row in rows[2:]:
        shape = re.search(r"M=\d+;N=\d+;K=\d+", row[marked]).group()
        amounts = [f"{each * float(row[at[metric]].replace(',', '')):.14g}" for metric, each in COLUMNS.values()]
        out.writerow([shape, row[at["Kernel Name"]], *amounts])


def put_rows(files, bursts):
    settled = 710  # watts of a card of 700 W
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("op,dtype,shape,measured_us,measured_W,board_MHz,clock,stack,kernel,id".split(","))
    for file in files:
        with open(file, encoding="utf-8") as text:
            lines = [json.loads(line) for line in text]
        idle = None  # the first: later ones still hold what came before
        for number, row in enumerate(lines, 1):
            if row.get("case") == "idle" and idle is None:
                idle = row["J"] / row["seconds"]
            if "card" in row:
                idle = None
            product = re.fullmatch(r"mm (?:nk )?(M=\d+;N=\d+;K=\d+)", row.get("case", ""))
            if not product or (row.get("mode") == "paused") != bursts:
                continue
            watts = row["watts"] if "watts" in row else row["J"] / row["seconds"]
            if bursts:
                watts = idle + (row["J"] - idle * row["seconds"]) / row["calls"] / row["measured_us"] * 1e6
            if bursts or watts < settled:
                out.writerow(["gemm", "bf16", product[1], f"{row['measured_us']:.6g}", f"{watts:.6g}", f"{row['sm_MHz']:.6g}",
                              "steady", "torch-2.11.0+cu130", "mm", f"{file.split('/')[-1]}:{number}"])


if sys.argv[1:2] == ["--convert"]:
    convert(sys.argv[2])
    sys.exit()
if sys.argv[1:2] in (["--rows"], ["--bursts"]):
    put_rows(sys.argv[2:], sys.argv[1] == "--bursts")
    sys.exit()

if "--shapes" in sys.argv:
    SHAPES = [tuple(map(int, shape.split("x"))) for shape in sys.argv[sys.argv.index("--shapes") + 1].split(",")]
    AT_THE_CAP = len(SHAPES)

import torch

from nvml_board import Board


def products(m, n, k):
    """Calls on operands that rotate over three times L2."""
    count = max(2, min(12, (180 << 20) // (2 * (m * k + n * k + m * n)) + 1))
    normal = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
    x, w = [normal(m, k) for _ in range(count)], [normal(n, k).t() for _ in range(count)]
    y = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    return [lambda i=i: torch.mm(x[i], w[i], out=y[i]) for i in range(count)]


def timed(call):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def graph_of(calls, milliseconds):
    run = lambda: [call() for call in calls]
    run()
    each = timed(run) / len(calls)
    count = max(1, round(milliseconds / each))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            calls[i % len(calls)]()
    graph.replay()
    torch.cuda.synchronize()
    return graph, count


def median(values):
    return sorted(values)[len(values) // 2]


def paused(board, replay, count, seconds):
    joules, begin = board.joules(), time.perf_counter()
    us, clocks = [], []
    while time.perf_counter() - begin < seconds:
        us.append(1e3 * timed(replay) / count)
        clocks.append(board.sm_MHz())
        time.sleep(PAUSE_SECONDS)
    return {"J": board.joules() - joules, "seconds": time.perf_counter() - begin, "calls": count * len(us),
            "measured_us": median(us), "sm_MHz": median(clocks), "celsius": board.celsius()}


def steady(board, graph, count):
    begin = time.perf_counter()
    while time.perf_counter() - begin < 0.5:
        graph.replay()
        torch.cuda.synchronize()
    joules, begin, calls, clocks = board.joules(), time.perf_counter(), 0, []
    while time.perf_counter() - begin < 1.2:
        graph.replay()
        clocks.append(board.sm_MHz())
        torch.cuda.synchronize()
        calls += count
    seconds = time.perf_counter() - begin
    return {"J": board.joules() - joules, "seconds": seconds, "calls": calls, "measured_us": 1e6 * seconds / calls,
            "sm_MHz": median(clocks), "celsius": board.celsius()}


def count_each():
    for shape in SHAPES:
        calls = products(*shape)
        calls[0]()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        torch.cuda.nvtx.range_push("mm " + name(shape))
        calls[1]()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        torch.cuda.profiler.stop()
        del calls
        torch.cuda.empty_cache()


def main(path):
    board = Board()
    with open(path, "w", encoding="utf-8") as out:
        def put(row):
            out.write(json.dumps(row) + "\n")
            out.flush()

        put({"card": torch.cuda.get_device_name(), "uuid": board.uuid(), "torch": torch.__version__,
             "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
        few = torch.zeros(1 << 20, device="cuda")
        idle = lambda seconds: paused(board, lambda: few.add_(1), 1, seconds)
        idle(1.0)
        put({"case": "idle", "mode": "paused", **idle(2.0)})
        for number, shape in enumerate(SHAPES):
            calls = products(*shape)
            graph, count = graph_of(calls, 8.0)
            case = {"case": "mm " + name(shape)}
            put({**case, "mode": "paused", "in_graph": count, **paused(board, graph.replay, count, 1.6)})
            if number < AT_THE_CAP:
                put({**case, "mode": "steady", **steady(board, graph, count)})
            del calls, graph
            torch.cuda.empty_cache()
            put({"case": "idle", "mode": "paused", **idle(IDLE_SECONDS)})


if sys.argv[1:2] == ["--count"]:
    count_each()
elif len(sys.argv) >= 2 and not sys.argv[1].startswith("-"):
    main(sys.argv[1])
else:
    sys.exit(__doc__)
