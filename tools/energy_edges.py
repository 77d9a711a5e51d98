#!/usr/bin/env python3
"""Mean power of a stretch of time by the board's energy counter. The counter moves in steps: a difference between readings of any
two moments is off by up to a step at either end, one between two moments at which it was seen to move is not. A process of its
own watches it, so that the one that is measured is left alone:

    tools/energy_edges.py GPU FILE      appends a line (CLOCK_MONOTONIC seconds, millijoules, SM clock in MHz) at each movement

Lies beside the tool that takes it. Needs nvidia-ml-py.
"""
import subprocess
import sys
import tempfile
import time

PART = 8


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def watch(index, path):
    import pynvml
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    last = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    with open(path, "a", encoding="utf-8", buffering=1) as out:
        while True:
            value = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
            if value != last:
                out.write(f"{now():.6f} {value} {pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)}\n")
                last = value
            time.sleep(0.002)


class EnergyEdges:
    """The watcher of GPU `index`, from now to stop()."""

    def __init__(self, index):
        self.path = tempfile.NamedTemporaryFile(suffix=".edges", delete=False).name
        self.process = subprocess.Popen([sys.executable, __file__, str(index), self.path])

    def between(self, begin, end):
        """Of a record: mean power from the first movement behind `begin` to the last before `end`, how often the counter moved,
        the mean time between two movements in milliseconds, and least, median and largest clock at them; of a long stretch the
        mean power of each of its parts of PART movements, some 0.8 s, as short records have."""
        with open(self.path, encoding="utf-8") as text:
            seen = [tuple(map(float, line.split())) for line in text if line.count(" ") == 2]
        seen = [each for each in seen if begin <= each[0] <= end]
        if len(seen) < 3:
            return {"moves": len(seen)}
        seconds, clocks = seen[-1][0] - seen[0][0], sorted(each[2] for each in seen)
        parts = [seen[i:i + PART + 1] for i in range(0, len(seen) - PART, PART)]
        means = [round((part[-1][1] - part[0][1]) / 1e3 / (part[-1][0] - part[0][0]), 1) for part in parts]
        return {"watts": round((seen[-1][1] - seen[0][1]) / 1e3 / seconds, 1), "moves": len(seen),
                **({"parts_W": means} if len(means) > 1 else {}),
                "move_ms": round(seconds / (len(seen) - 1) * 1e3, 1), "clocks_MHz": [clocks[0], clocks[len(clocks) // 2], clocks[-1]]}

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


if __name__ == "__main__":
    watch(int(sys.argv[1]), sys.argv[2])
