"""The launches of one training iteration, from PyTorch's profiler to a line of traces.jsonl.gz (tools/trace_training.py)."""
import gzip
import json
import os
import statistics

import torch

from trace_transformers import synchronize


def export_trace(iteration, args, trace):
    """Writes the Chrome trace of one iteration behind two others to the file `trace` (rank 0; the others run along)."""
    if args.rank > 0:
        for _ in range(3):
            iteration.step()
        synchronize(args.device)
        return
    activities = [torch.profiler.ProfilerActivity.CPU]
    if args.device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True,
                                schedule=torch.profiler.schedule(wait=0, warmup=2, active=1, repeat=1),
                                on_trace_ready=lambda profile: profile.export_chrome_trace(trace)) as profile:
        for _ in range(3):
            iteration.step()
            synchronize(args.device)  # so that no launch of another iteration runs while one is traced
            profile.step()


class Trace:
    """A Chrome trace by kind: launches on the device in their order, operators, calls of the driver, phases of the iteration."""

    def __init__(self, path, dry):
        with open(path, encoding="utf-8", errors="replace") as text:
            events = json.load(text)["traceEvents"]
        self.operators, self.calls, self.phases = {}, {}, []
        for event in events:
            kind = event.get("cat")
            if kind == "cpu_op":
                self.operators[event["args"].get("External id")] = event
            elif kind in ("cuda_runtime", "cuda_driver"):
                self.calls[event["args"].get("correlation")] = event["ts"]
            elif kind == "user_annotation" and event["name"].startswith("phase:"):
                self.phases.append((event["ts"], event["ts"] + event["dur"], event["name"][6:]))
        self.device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
        if not self.device and dry:  # operators stand for launches
            self.device = [e for e in events if e.get("cat") == "cpu_op"]
        self.device.sort(key=lambda e: e["ts"])


def summarize(path, record, out):
    """Runs in a process of its own: a line of traces.jsonl.gz from the trace in `path`, which it removes."""
    dry = record["machine"]["gpu"] == "cpu"
    trace = Trace(path, dry)
    os.unlink(path)
    device, strings, index = trace.device, [], {}

    def named(text):
        if text not in index:
            index[text] = len(strings)
            strings.append(text)
        return index[text]
    groups, order, launches, starts, last = {}, {}, [], [], None
    for event in device:
        args = event["args"]
        operator = trace.operators.get(args.get("External id"))
        about = operator["args"] if operator else {}
        called = trace.calls.get(args.get("correlation"), event["ts"] if dry else -1)
        phase = next((name for begin, end, name in trace.phases if begin <= called <= end), "")
        key = (named(event["name"][:240]), named(operator["name"] if operator else ""),
               named(json.dumps(about.get("Input Dims", []))[:2000]), named(json.dumps(about.get("Input type", []))[:1000]),
               named(json.dumps(about.get("Input Strides", []))[:2000]),
               named(json.dumps([args.get("grid"), args.get("block"), args.get("bytes")])), named(phase),
               args.get("stream", 0))
        if key not in groups:
            groups[key] = []
            order[key] = len(order)
        launches.append(order[key])
        starts.append(round((event["ts"] - (event["ts"] if last is None else last)) * 1e3))
        last = event["ts"]
        groups[key].append(event["dur"])
    rows = [list(key) + [len(groups[key]), round(statistics.median(groups[key]), 3), round(min(groups[key]), 3),
                         round(max(groups[key]), 3), round(sum(groups[key]), 3)] for key in order]
    record = {**record, "launches": launches, "starts_ns": starts, "groups": rows, "strings": strings,
              "busy_us": round(sum(e["dur"] for e in device), 2),
              "span_us": round(device[-1]["ts"] + device[-1]["dur"] - device[0]["ts"], 2) if device else None,
              "phases_us": {name: round(end - begin, 1) for begin, end, name in trace.phases}}
    with gzip.open(out, "at", encoding="utf-8") as file:
        file.write(json.dumps(record, separators=(",", ":")) + "\n")
    return f"{record['model']} {record['batch']}x{record['tokens']}: {len(launches)} launches, busy {record['busy_us']} us"
