# SPDX-License-Identifier: Apache-2.0
"""The table of offload() in docs/pytorch.md: steps within a limit beside steps without, taken in turn.

    export LIBDAO_TORCH_CPU=build/release/integrations/libdao_torch_cpu.so PYTHONPATH=python
    OPENBLAS_NUM_THREADS=1 /usr/bin/python3 bench/torch_offload.py --model mobilenet --limits 100,70,50,35

Two processes train the same model from the same seed and take their steps in turn: one without a limit, one
with. Both have libdao's host place under their tensors. Per limit: the most bytes in use, the bytes above the
limit that were in use or taken from the system in any step, the least time of the last half of the steps over
the least without, and whether all losses are the same in every bit. Needs a fast BLAS, such as
libopenblas0-pthread."""
import argparse
import json
import subprocess
import sys
import time

import torch

import dao.torch
from dao.torch import library
from torch_models import make, run_again

UNLIMITED = 2**40


def train(model, optimizer, batch):
    x, y = batch
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def work(options):
    """Takes a step for each line that comes in, and answers with a line of its figures."""
    torch.set_num_threads(1)
    loaded = library.load(options.limit or UNLIMITED)
    model, batch_of = make(options.model)
    if options.recompute and options.limit:
        run_again(model)
    optimizer = torch.optim.Adam(model.parameters())
    o = dao.torch.offload(model, optimizer, options.limit or UNLIMITED, f"file:{options.folder}")
    if not options.limit:
        o.close()
    for step, _ in enumerate(sys.stdin):
        batch = batch_of(step)
        loaded.check(loaded.stats_reset_peaks(library.HOST))
        begin, cpu = time.perf_counter(), time.process_time()
        if options.limit:
            try:
                with o.step():
                    loss = train(model, optimizer, batch)
            except dao.torch.OffloadError as error:
                print(json.dumps({"error": str(error)}), flush=True)
                return
        else:
            loss = train(model, optimizer, batch)
        figures = {"s": time.perf_counter() - begin, "cpu_s": time.process_time() - cpu, "loss": loss.hex()}
        stats = loaded.stats()
        figures["used"] = max(stats.peak_used_bytes, o.figures.get("peak_bytes", 0) if options.limit else 0)
        figures["reserved"] = stats.peak_reserved_bytes
        if options.limit:
            plan = o.last_plan
            figures.update(out=o.figures["out_bytes"], planned=o.planned_count,
                           forecast=plan.step_ns / 1e9 if plan else 0)
        print(json.dumps(figures), flush=True)
    if options.limit and options.report:
        print(o.report(), file=sys.stderr)


class Worker:
    def __init__(self, options, limit):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--model", options.model, "--folder", options.folder, "--limit",
             str(limit), *(["--report"] if options.report else []),
             *(["--recompute"] if options.recompute else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.steps = []

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.steps.append(json.loads(self.process.stdout.readline()))
        return self.steps[-1]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def least(steps, name):
    return min(step[name] for step in steps[len(steps) // 2:])


def compare(options, percent, peak_bytes):
    plain, limited = Worker(options, 0), Worker(options, int(peak_bytes * percent / 100))
    for _ in range(options.steps):
        plain.step()
        if "error" in limited.step():
            plain.end()
            limited.end()
            print(f"| {percent} % | {limited.steps[-1]['error'].split(' (')[0]} |")
            return
    plain.end()
    limited.end()
    same = [step["loss"] for step in plain.steps] == [step["loss"] for step in limited.steps]
    limit = int(peak_bytes * percent / 100)
    most, taken = (max(step[name] for step in limited.steps) for name in ("used", "reserved"))
    print(f"| {percent} % | {limit / 1e6:.1f} | {most / 1e6:.1f} | {max(0, max(most, taken) - limit)} "
          f"| {limited.steps[-1]['out'] / 1e6:.0f} "
          f"| {least(limited.steps, 's') / least(plain.steps, 's'):.2f} "
          f"| {least(limited.steps, 'cpu_s') / least(plain.steps, 'cpu_s'):.2f} "
          f"| {limited.steps[-1]['planned']} of {options.steps} | {'the same' if same else 'DIFFERENT'} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="mobilenet")
    parser.add_argument("--limits", default="100,70,50,35", help="percent of the peak without a limit")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", default="/tmp", help="of the file")
    parser.add_argument("--limit", type=int, help="bytes: one process of the two, for this program itself")
    parser.add_argument("--recompute", action="store_true",
                        help="within the limit, layers of transformers are run again for the backward pass")
    parser.add_argument("--report", action="store_true", help="print o.report() of each limit")
    options = parser.parse_args()
    if options.limit is not None:
        work(options)
        return
    worker = Worker(options, 0)
    for _ in range(4):
        worker.step()
    worker.end()
    peak_bytes = max(step["used"] for step in worker.steps)
    print(f"{options.model}: {peak_bytes / 1e6:.1f} MB without a limit\n")
    print("| limit | MB | most in use, MB | bytes above | out, MB a step | wall | processor | as planned "
          "| losses |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    for percent in options.limits.split(","):
        compare(options, int(percent), peak_bytes)


if __name__ == "__main__":
    main()
