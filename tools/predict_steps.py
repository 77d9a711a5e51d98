#!/usr/bin/env python3
"""What `validate step --study LIST` will be held against, before a card is at hand: the prediction of every step of a list
(columns model, phase, batch, context, prompt, tp or dp, clock; the stack `own`), as CSV. Such a file is committed before its run.
Steps of a model's first layers (a column `layers` that is filled) are refused: predict-model has no such flag.

usage: predict_steps.py PREDICT_MODEL LIST.csv GPU > predicted.csv
"""
import csv
import json
import subprocess
import sys

COLUMNS = ("model", "phase", "batch", "context", "prompt", "tp", "clock")


def prediction(predict_model, gpu, step):
    length = ("--context", step["context"]) if step["phase"] == "decode" else ("--prompt", step["prompt"])
    said = subprocess.run(
        [predict_model, "llm", "--model", step["model"], "--gpu", gpu, "--phase", step["phase"], "--batch", step["batch"], *length,
         "--stack", "own", "--tp", step.get("tp", "1"), "--dp", step.get("dp", "1"), "--clock", step["clock"], "--format", "json"],
        stdout=subprocess.PIPE, text=True, check=False)
    if said.returncode not in (0, 1):  # 1: it does not fit the memory; the figures are there
        sys.exit(f"{step}: exit code {said.returncode}")
    return json.loads(said.stdout)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    predict_model, steps, gpu = sys.argv[1:]
    out = csv.writer(sys.stdout, lineterminator="\n")
    with open(steps, encoding="utf-8") as text:
        columns = [c if c != "tp" or "dp" not in (csv.DictReader(text).fieldnames or ()) else "dp" for c in COLUMNS]
    out.writerow([*columns, "latency_us", "latency_low_us", "latency_high_us", "exposed_network_us", "energy_per_gpu_J", "mean_power_of_a_gpu_W",
                  "sm_clock_MHz"])
    with open(steps, encoding="utf-8") as text:
        for line, step in enumerate(csv.DictReader(text), 2):
            if step.get("layers"):
                sys.exit(f"{steps}:{line}: layers={step['layers']}: predict-model has no such flag; leave the column empty")
            p = prediction(predict_model, gpu, step)
            gpus = int(step.get("tp", 1)) * int(step.get("dp", 1))
            figures = (1e6 * p["latency_s"], 1e6 * p["latency_low_s"], 1e6 * p["latency_high_s"], 1e6 * p["network_s"]["exposed"],
                       p["energy_J"] / gpus, p["power_W"], 1e-6 * p["sm_clock_Hz"])
            out.writerow([step.get(c, "" if c == "context" else "1") for c in columns] + [f"{f:.7g}" for f in figures])


if __name__ == "__main__":
    main()
