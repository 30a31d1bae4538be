"""The embedded model in PyTorch against the one in assayd, in CPU seconds, on this machine.

    pip install torch transformers
    python benches/decide_torch.py

CPU seconds of all threads, the best of seven rounds: they hold steady on a shared machine, where wall times do not.
"""

import json
import os
import resource
import subprocess
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads sleep, so that waiting is not counted

import torch
from transformers import BertForSequenceClassification
from transformers.utils import logging

THREADS = 2
ROUNDS = 7
ROOT = Path(__file__).resolve().parent.parent


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def torch_pass(model, claims: int, tokens: int) -> tuple[float, float]:
    ids = torch.full((claims, tokens), 2344)
    types = torch.zeros_like(ids)
    types[:, 9:] = 1
    passes = max(2, 8192 // (claims * tokens))
    cpu = wall = float("inf")
    with torch.inference_mode():
        model(input_ids=ids, token_type_ids=types)
        for _ in range(ROUNDS):
            start, before = time.perf_counter(), cpu_seconds()
            for _ in range(passes):
                model(input_ids=ids, token_type_ids=types)
            cpu = min(cpu, (cpu_seconds() - before) / passes)
            wall = min(wall, (time.perf_counter() - start) / passes)
    return cpu, wall


def main() -> None:
    logging.set_verbosity_error()
    torch.set_num_threads(THREADS)
    model = BertForSequenceClassification.from_pretrained(ROOT / "models" / "starter", attn_implementation="sdpa")
    model = model.float().eval()
    command = ["cargo", "bench", "--quiet", "--bench", "decide", "--", "--cpu-seconds"]
    ours = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    print(f"torch {torch.__version__}, {THREADS} threads; milliseconds of CPU (wall) for one forward pass")
    print(f"{'claims x tokens':>16} {'torch':>16} {'assayd':>16} {'speed-up':>9}")
    for line in ours.splitlines():
        row = json.loads(line)
        cpu, wall = torch_pass(model, row["claims"], row["tokens"])
        shape = f"{row['claims']} x {row['tokens']}"
        theirs = f"{cpu * 1e3:.1f} ({wall * 1e3:.1f})"
        mine = f"{row['cpu'] * 1e3:.1f} ({row['wall'] * 1e3:.1f})"
        print(f"{shape:>16} {theirs:>16} {mine:>16} {cpu / row['cpu']:>8.2f}x")


if __name__ == "__main__":
    main()
