"""Strands Decider at the 2B model's dimensions: the reference on PyTorch against assayd, on the same random weights, in one run.

    pip install strands-decider==0.2.0
    python benches/decider_torch.py [ROW ...]       e.g. 256+1 1024+1: tokens of the state, about, and questions

CPU seconds of all threads, since wall times mean little on a machine that does other things. The reference runs with merged
weights (kinder than how it serves an adapter), in fp32 as it does on a CPU, and in bf16, which it refuses there: that is the best
PyTorch can do. Answers in fp32 are compared too. Memory: one model at a time, 10 GiB at most.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # waiting threads sleep, so that waiting is not counted

import torch
from safetensors import safe_open
from strands_decider.infer import EngineConfig, SystemOneEngine
from strands_decider.modeling import StrandsDeciderConfig, StrandsDeciderModel
from strands_decider.schema import SystemOneRequest
from transformers import AutoTokenizer, Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5TextModel

THREADS = 2
REPEATS = 3  # what benches/decider.rs does
ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "tests/fixtures/decider/checkpoints/tiny-lora"
PREFIX = "model.language_model."


def request(seed, tokens, questions):
    """What `inquiry` of benches/decider.rs makes."""
    state, word = f"{seed:04} ", seed
    while len(state) < tokens - 18:
        word = (word * 7 + 13) % 97
        state += f"{word:02} "
    criteria = {"a": "", "b": "", "c": ""}
    asked = {str(i): {"type": "choice", "instructions": f"Which {i}?", "criteria": criteria} for i in range(questions)}
    return {"state": state, "questions": asked}


def ours(precision, rows):
    command = ["cargo", "bench", "--quiet", "--bench", "decider", "--", precision, *rows]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    print("\n".join(f"  {line}" for line in text.splitlines()), flush=True)
    cells = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    return {line[0]: (int(line[1]), float(line[2])) for line in cells if line[0] in rows}


def reference(folder, dtype):
    config = json.loads((folder / "config.json").read_text())
    decider = json.loads((folder / "strands_decider_config.json").read_text())
    known = {key: value for key, value in config.items() if key not in ("architectures", "model_type")}
    with torch.device("meta"):
        torso = Qwen3_5TextModel(Qwen3_5TextConfig(**known))
    rotary = type(torso.rotary_emb)(torso.config)  # its tables are no weights
    places = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    weights, head = {}, {}
    for file in sorted(set(places.values())):
        with safe_open(folder / file, "pt") as shard:
            for name in shard.keys():
                tensor = shard.get_tensor(name)
                if name.startswith(PREFIX):
                    weights[name.removeprefix(PREFIX)] = tensor.to(torch.bfloat16).to(dtype)  # as it loads them
                else:
                    head[name] = tensor
    torso.load_state_dict(weights, assign=True)
    torso.rotary_emb = rotary
    torso.config.use_cache = True
    model = StrandsDeciderModel(StrandsDeciderConfig(**decider), torso, AutoTokenizer.from_pretrained(TOKENIZER))
    model.head.load_state_dict(head)
    SystemOneEngine._upcast_torso_for_cpu = lambda engine: None
    return SystemOneEngine(model, EngineConfig(device="cpu", model_name="reference"))


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(engine, row, seed):
    """Fewer repeats than ours: what varies is how busy the machine is, and CPU seconds hardly show it."""
    tokens, questions = map(int, row.split("+"))
    best, answers = float("inf"), None
    for repeat in range(2 if tokens < 1000 else 1):
        asked = SystemOneRequest(**request(seed + repeat, tokens, questions))
        before = cpu_seconds()
        answered = engine.evaluate(asked)
        best = min(best, cpu_seconds() - before)
        answers = answers or [list(answer.probabilities.values()) for answer in answered.answers.values()]
    return best, answers, answered.usage.input_tokens


def main():
    rows = sys.argv[1:] or ["256+1", "256+4", "1024+1"]
    folder = Path(os.environ.get("ASSAYD_BENCH_DIR", tempfile.gettempdir())) / "assayd-bench-2b"
    torch.set_num_threads(THREADS)
    figures = {}
    for precision in ("f32", "bf16", "int8"):
        print(f"assayd, {precision}", flush=True)
        figures[precision] = ours(precision, rows)
    recorded = json.loads((folder / f"answers-{'-'.join(rows)}.json").read_text())
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        print(f"reference, {name}", flush=True)
        engine = reference(folder, dtype)
        seed, place, taken, worst = 1, 0, {}, 0.0
        for row in rows:
            start = time.perf_counter()
            taken[row], answers, tokens = measure(engine, row, seed)
            assert tokens == figures["f32"][row][0], (row, tokens, figures["f32"][row])
            for theirs, mine in zip(answers, recorded[place:]):
                worst = max(worst, max(abs(a - b) for a, b in zip(theirs, mine)))
            seed, place = seed + REPEATS, place + REPEATS * int(row.split("+")[1])
            print(f"  {row} | {taken[row]:.2f} CPU s ({time.perf_counter() - start:.0f} s of waiting)", flush=True)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        print(f"  peak {peak:.2f} GiB so far; answers (of four decimals) differ from assayd's in f32 by {worst:.5f} at most")
        figures[f"reference {name}"] = {row: (0, seconds) for row, seconds in taken.items()}
        del engine
    print(f"\ntorch {torch.__version__}, {THREADS} threads; CPU seconds, and how many times fewer")
    print("| state + questions | tokens | reference fp32 | reference bf16 | f32 | bf16 | int8 | f32 : fp32 | bf16 : bf16 | int8 : bf16 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        fp32, best = figures["reference fp32"][row][1], figures["reference bf16"][row][1]
        mine = [figures[precision][row][1] for precision in ("f32", "bf16", "int8")]
        ratios = [fp32 / mine[0], best / mine[1], best / mine[2]]
        cells = [f"{value:.2f}" for value in (fp32, best, *mine)] + [f"{ratio:.2f}" for ratio in ratios]
        print(f"| {row} | {figures['f32'][row][0]} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
