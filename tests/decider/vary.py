"""Strands Decider checkpoints of random shapes, with the reference's answers to random requests.

    pip install strands-decider==0.2.0
    python tests/decider/vary.py FOLDER FIRST LAST            a checkpoint for each seed, from FIRST up to LAST
    ASSAYD_VARIED=FOLDER cargo test --lib checkpoints_of_many_shapes

With `--small` they are as small as those in tests/fixtures/decider/varied, which are seeds 1, 2, 5, 8, 9 and 12 of it. What varies:
form (adapter under either config name, adapter none, merged), layout and shards of the base, stored and rounded types, every
dimension, the pattern of layers, rotary share, LoRA's targets, rank and scale, the head, temperatures, window and tokenizer.
"""

import argparse
import json
import math
import os
import random
import shutil
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import load_file, save_file
from strands_decider import infer
from strands_decider.infer import EngineConfig, SystemOneEngine
from strands_decider.modeling import StrandsDeciderConfig, StrandsDeciderModel
from strands_decider.schema import SystemOneRequest
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig
from transformers.models.qwen3_5.tokenization_qwen3_5 import PRETOKENIZE_REGEX

TARGETS = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj in_proj_qkv in_proj_z in_proj_a in_proj_b out_proj".split()
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|image_pad|>"]
PLAIN = ["<think>", "</think>"]
WORDS = "the customer wrote again about an invoice agent called billing tool returned error asked for refund code Paris".split()
ODD = [
    "12,345.67", "\n", "\t", "\r\n", "—", "e\u0301", "\u212b", "ﬁ", "👩‍👩‍👧", "नमस्ते", "你好，世界。", "\u00a0", "\u2003", "\x1c",
    "\u0085", "\x00", "\x7f", "\ufeff", "I'll", "DON'T", "<|im_end|>", "<think>", "</state>", "<answer>", "a.b.c", "ß", "😀",
    "\u200b", "\u202e", "1.", "..", "—.\n", "र्", "ก็", "한국어", "עברית", "'s", "½", "٣", "\n\n\n", "   ",
]  # fmt: skip
NUMBERS = [0, -1, 7.0, 1e16, 1e-5, 1.5e300, 123456789012345678901234567890, 0.1, -0.0, 5e-324, 100000.0, 9007199254740993]
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def write(path, value):
    path.write_text(json.dumps(value, indent=1))


class Requests:
    """Random requests: unicode, structured values, many options, states and questions that must be cut."""

    def __init__(self, rng, window):
        self.rng, self.window = rng, window

    def text(self, words):
        glue = " " if self.rng.random() < 0.8 else ""
        return glue.join(self.rng.choice(WORDS + ODD) for _ in range(words))

    def value(self, depth=0):
        chance = self.rng.random()
        if depth < 3 and chance < 0.2:
            return {self.text(2): self.value(depth + 1) for _ in range(self.rng.randrange(4))}
        if depth < 3 and chance < 0.35:
            return [self.value(depth + 1) for _ in range(self.rng.randrange(4))]
        return self.rng.choice([None, True, False, "", self.text(3), *NUMBERS])

    def content(self, words):
        chance = self.rng.random()
        if chance < 0.6:
            return self.text(words)
        if chance < 0.8:
            return {self.text(1): self.value() for _ in range(self.rng.randrange(5))}
        return [self.value() for _ in range(self.rng.randrange(5))]

    def description(self):
        structured = self.rng.choice([{self.text(1): self.value(2)}, [self.value(2), 1.0], {}, []])
        return self.rng.choice([None, "", self.text(self.rng.randrange(1, 8)), self.text(3), structured])

    def question(self):
        rng = self.rng
        words = rng.randrange(12) if rng.random() < 0.9 else self.window // 2
        question = {"type": rng.choice(["noul", "choice", "score"]), "instructions": self.content(words)}
        if question["type"] == "noul" and rng.random() < 0.4:
            sides = rng.sample(["true", "false"], rng.randrange(3))
            question["criteria"] = rng.choice([None, {side: self.description() for side in sides}])
        if question["type"] == "choice":
            count = rng.choice([2, 2, 3, 4, 5, 8, 12, 20, 40, 90])
            options = {}
            while len(options) < count:
                number = str(len(options)) if rng.random() < 0.8 or count > 12 else ""
                options[self.text(rng.randrange(3)) + number] = self.description() if count < 20 else None
            question["criteria"] = options
        if question["type"] == "score":
            levels = range(rng.choice([2, 2, 3, 5, 7, 10]))
            question["criteria"] = [rng.choice([self.text(rng.randrange(4)), " x "]) for _ in levels]
        if rng.random() < 0.15:
            question.pop("type")
        return question

    def request(self, many):
        count = self.rng.choice([1, 1, 1, 2, 3, 4, many])
        state = self.content(self.rng.choice([0, 1, 5, 20, self.window, 3 * self.window]))
        return {"state": state, "questions": {self.text(1) + str(index): self.question() for index in range(count)}}


def tokenizer(rng, folder, small):
    tok = Tokenizer(models.BPE(fuse_unk=False, byte_fallback=False))
    tok.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated", invert=False)
    bytelevel = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tok.pre_tokenizer = pre_tokenizers.Sequence([split, bytelevel])
    tok.post_processor = processors.ByteLevel(trim_offsets=rng.random() < 0.3)
    prompt = '<state>\n</state>\n<question type="choice">\n<options>\n1. a — b.\n2. b\n</options>\n</question>\n<answer>'
    corpus = [" ".join(rng.choice(WORDS) for _ in range(60)) + "\n" + prompt for _ in range(40)]
    trainer = trainers.BpeTrainer(
        vocab_size=rng.choice([280, 320] if small else [270, 300, 400, 700, 1100]),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tok.train_from_iterator(corpus, trainer)
    tok.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in SPECIAL])
    tok.add_tokens([AddedToken(word, special=False, normalized=False) for word in PLAIN])
    tok.save(str(folder / "tokenizer.json"))
    write(folder / "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "eos_token": SPECIAL[0], "pad_token": SPECIAL[0]})
    return tok.get_vocab_size(with_added_tokens=True)


def layer_types(rng, count, interval):
    every = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(count)]
    drawn = [rng.choice(["full_attention", "linear_attention"]) for _ in range(count)]
    types = list(rng.choice([every, every, drawn, ["full_attention"] * count]))
    if "full_attention" not in types:  # the reference's prefix cache needs one
        types[rng.randrange(count)] = "full_attention"
    return types, types == every


def text_config(rng, vocab, small):
    head_dim = rng.choice([8, 16, 24] if small else [8, 16, 24, 32, 40])
    kv_heads, key_heads = rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3] if small else [1, 2, 3, 4])
    share = rng.choice([0.25, 0.25, 0.5, 1.0, 0.75])
    interval = rng.choice([1, 2, 3, 4])
    layers = rng.choice([2, 3, 4] if small else [1, 2, 3, 4, 5, 6, 8])
    types, regular = layer_types(rng, layers, interval)
    config = {
        "model_type": "qwen3_5_text",
        "vocab_size": vocab + rng.choice([0, 1, 7, 64]),
        "hidden_size": rng.choice([16, 24, 32] if small else [16, 24, 32, 48, 64, 80, 96, 130]),
        "intermediate_size": rng.choice([24, 40] if small else [24, 40, 96, 160, 210]),
        "num_hidden_layers": layers,
        "num_attention_heads": kv_heads * rng.choice([1, 2] if small else [1, 2, 3, 4]),
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "linear_conv_kernel_dim": rng.choice([4, 4, 4, 4, 2, 3]),
        "linear_key_head_dim": rng.choice([8, 16] if small else [8, 16, 20, 32]),
        "linear_value_head_dim": rng.choice([8, 16, 24] if small else [8, 16, 24, 32, 40]),
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * rng.choice([1, 1, 2, 3]),
        "full_attention_interval": interval,
        "layer_types": types,
        "rms_norm_eps": rng.choice([1e-6, 1e-6, 1e-5, 1e-3]),
        "tie_word_embeddings": rng.random() < 0.6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": rng.choice([10000000, 10000.0, 1e6, 500000]),
            "partial_rotary_factor": share if int(head_dim * share) % 2 == 0 else 0.5,
        },
    }
    return config, regular


def random_weights(config, generator):
    """Large enough that answers are not uniform."""
    known = {key: value for key, value in config.items() if key not in ("model_type", "full_attention_interval")}
    weights = {}
    for name, shape in Qwen3_5ForCausalLM(Qwen3_5TextConfig(**known)).model.state_dict().items():
        normal = torch.randn(shape.shape, generator=generator)
        uniform = torch.rand(shape.shape, generator=generator)
        if name.endswith("A_log"):
            weights[name] = torch.log(uniform * 1.5 + 0.02)
        elif name.endswith("dt_bias"):
            weights[name] = uniform * 4.0 - 4.0
        elif name.endswith("linear_attn.norm.weight"):
            weights[name] = 1.0 + 0.25 * normal
        elif "conv1d" in name or "embed_tokens" in name:
            weights[name] = (0.5 if "conv1d" in name else 0.8) * normal
        else:
            weights[name] = normal * (0.25 if normal.dim() == 1 else 1.3 / math.sqrt(normal.shape[1]))
    return weights


def stored(rng, kind, name, tensor):
    """As Qwen publishes them, all in one type, or all mixed."""
    is_wide = name.endswith("A_log") or name.endswith("linear_attn.norm.weight")
    kinds = {"qwen": "f32" if is_wide else "bf16", "mixed": rng.choice(list(TYPES))}
    return tensor.to(TYPES[kinds.get(kind, kind)]).contiguous()


def save_shards(rng, folder, tensors):
    count = rng.choice([1, 1, 2, 3])
    names = list(tensors)
    rng.shuffle(names)
    if count == 1 and rng.random() < 0.5:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    stem, end = rng.choice([("model.safetensors", ""), ("model", ".safetensors")])
    places = {}
    for index in range(count):
        file = f"{stem}-{index + 1:05d}-of-{count:05d}{end or ''}"
        file = file if file.endswith(".safetensors") else file + ".safetensors"
        part = {name: tensors[name] for name in names[index::count]}
        save_file(part, folder / file, metadata={"format": "pt"})
        places.update(dict.fromkeys(part, file))
    write(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": dict(sorted(places.items()))})


def write_base(rng, folder, config, regular, weights):
    kind = rng.choice(["qwen", "qwen", "bf16", "f16", "f32", "mixed"])
    multimodal = rng.random() < 0.5
    prefix = "model.language_model." if multimodal else "model."
    tensors = {prefix + name: stored(rng, kind, name, tensor) for name, tensor in weights.items()}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = torch.zeros(config["vocab_size"], config["hidden_size"], dtype=torch.bfloat16)
    written = dict(config)
    if regular and rng.random() < 0.5:
        written.pop("layer_types")
    if multimodal:
        tensors["model.visual.patch_embed.proj.weight"] = torch.zeros(8, 3, 2, 4, 4, dtype=torch.bfloat16)
        tensors["mtp.fc.weight"] = torch.zeros(4, 8, dtype=torch.bfloat16)
        written = {"model_type": "qwen3_5", "text_config": written, "tie_word_embeddings": config["tie_word_embeddings"]}
    save_shards(rng, folder, tensors)
    write(folder / "config.json", written)
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix) and "visual" not in name}


def randomise(model, generator):
    def normal(parameter, scale, around=0.0):
        parameter.copy_(around + scale * torch.randn(parameter.shape, generator=generator))

    with torch.no_grad():
        head = model.head
        normal(head.norm.weight, 0.2, 1.0)
        normal(head.norm.bias, 0.2)
        for linear in (head.q, head.k):
            normal(linear.weight, 1.3 / math.sqrt(linear.in_features))
            normal(linear.bias, 0.3)
        for name, parameter in model.torso.named_parameters():
            if "lora_A" in name:
                normal(parameter, 1 / math.sqrt(parameter.shape[1]))
            elif "lora_B" in name:
                normal(parameter, 0.12)


def merge(rng, folder, base, base_config, decider):
    """The standalone form, in place of the adapter's; gives what the reference can load of it, in a folder beside it."""
    weights, scale, adapter = dict(base), 1.0, {}
    if decider["use_lora"]:
        lora = json.loads((folder / "lora/adapter_config.json").read_text())
        scale = lora["lora_alpha"] / (math.sqrt(lora["r"]) if lora["use_rslora"] else lora["r"])
        adapter = load_file(folder / "lora/adapter_model.safetensors")
    for name, tensor in base.items():
        pair = [adapter.get(f"base_model.model.{name.removesuffix('.weight')}.lora_{side}.weight") for side in "AB"]
        if pair[0] is not None:
            weights[name] = (tensor.float() + (pair[1] @ pair[0]) * scale).to(tensor.dtype).contiguous()
    head = load_file(folder / "head.safetensors")
    theirs = Path(tempfile.mkdtemp())
    save_file({f"model.{name}": tensor for name, tensor in weights.items()}, theirs / "model.safetensors", metadata={"format": "pt"})
    save_file(head, theirs / "head.safetensors", metadata={"format": "pt"})
    write(theirs / "config.json", {**base_config, "architectures": ["Qwen3_5ForCausalLM"]})
    write(theirs / "strands_decider_config.json", {**decider, "use_lora": False, "base_model": str(theirs)})
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / file, theirs)
    shutil.rmtree(folder / "lora", ignore_errors=True)
    (folder / "head.safetensors").unlink()
    save_shards(rng, folder, {**{f"model.language_model.{name}": tensor for name, tensor in weights.items()}, **head})
    write(folder / "config.json", {**base_config, "architectures": ["StrandsDeciderForDecision"]})
    return theirs


class Recorder:
    """What the reference's engine does for a request, without changing it."""

    def __init__(self, engine):
        self.engine, self.calls = engine, []
        for name in ("_slot_probs_batched", "_slot_probs_shared_prefix"):
            setattr(engine, name, self.watched(getattr(engine, name)))

    def watched(self, inner):
        def outer(state, questions, options, kinds, offsets, rendered=None):
            probabilities, tokens = inner(state, questions, options, kinds, offsets, rendered=rendered)
            for ids, places, question, row, count in zip(questions, offsets, rendered, probabilities, options):
                self.calls.append({
                    "state": list(state),
                    "token_ids": list(ids),
                    "option_token_idx": infer._option_token_index(places, question.option_spans, 0),
                    "probabilities": [float(p) for p in row[:count]],
                })  # fmt: skip
            return probabilities, tokens

        return outer

    def line(self, identity, request):
        self.calls.clear()
        try:
            answered = self.engine.evaluate(SystemOneRequest(**request))
        except ValueError as refusal:
            return {"id": identity, "request": request, "status": 422, "detail": str(refusal)}
        states = [self.calls[first].pop("state") for first in range(0, len(self.calls), 32)]
        return {
            "id": identity,
            "request": request,
            "response": json.loads(answered.model_dump_json()),
            "chunks": [{"state_token_ids": state} for state in states],
            "questions": {name: {k: v for k, v in call.items() if k != "state"} for name, call in zip(request["questions"], self.calls)},
        }  # fmt: skip


def make(root, seed, small):
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    shutil.rmtree(root, ignore_errors=True)
    base, folder = root / "base", root / "model"
    base.mkdir(parents=True)
    folder.mkdir()
    vocab = tokenizer(rng, base, small)
    config, regular = text_config(rng, vocab, small)
    tensors = write_base(rng, base, config, regular, random_weights(config, generator))
    present = [target for target in TARGETS if any(f".{target}.weight" in name for name in tensors)]
    targets = present if rng.random() < 0.4 else rng.sample(present, rng.randrange(1, len(present)))
    window = rng.choice([150, 300, 640] if small else [64, 150, 300, 640, 1500])
    decider = StrandsDeciderConfig(
        base_model=str(base),
        head_type="pointer",
        torch_dtype=rng.choice(["bfloat16"] * 4 + ["float32", "float16"]),
        use_lora=rng.random() < 0.8,
        lora_targets=targets,
        lora_r=rng.choice([1, 2, 4] if small else [1, 2, 4, 8, 16]),
        lora_alpha=rng.choice([1, 4, 8, 16]),
        ordinal_smoothing=rng.choice([0.0, 0.1, 0.1, 0.5, 4.0]),
        temperature=rng.choice([1.0, 1.3, 0.7, 2.2]),
        temperature_by_kind={kind: rng.choice([0.3, 0.93, 1.4]) for kind in rng.sample(["noul", "choice", "score"], rng.randrange(4))},
        max_length=window,
        pointer_dim=rng.choice([1, 4, 16] if small else [1, 4, 16, 24, 48]),
    )
    model = StrandsDeciderModel.from_pretrained_base(decider)
    randomise(model, generator)
    model.save_pretrained(str(folder))
    pickled = folder / "slot_head.pt"
    if pickled.exists():  # what exporting does
        save_file({name: tensor.contiguous() for name, tensor in torch.load(pickled).items()}, folder / "head.safetensors")
        pickled.unlink()
    (folder / "lora/README.md").unlink(missing_ok=True)
    if decider.use_lora and rng.random() < 0.2:
        path = folder / "lora/adapter_config.json"
        write(path, {**json.loads(path.read_text()), "use_rslora": True})
    path = folder / "strands_decider_config.json"
    written = json.loads(path.read_text())
    for key in ("num_slots", "base_revision", "force_bos", "host_embeddings"):
        if rng.random() < 0.3:
            written.pop(key, None)
    write(path, written)
    merged = rng.random() < 0.25
    theirs = merge(rng, folder, tensors, config, written) if merged else folder
    with torch.inference_mode():
        engine = SystemOneEngine(StrandsDeciderModel.load(str(theirs)), EngineConfig(device="cpu", model_name="model"))
    recorder, requests = Recorder(engine), Requests(rng, window)
    asked = [requests.request(many=34) for _ in range(6 if small else 10)]
    lines = [recorder.line(str(index), request) for index, request in enumerate(asked)]
    (root / "golden.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write(path, {**written, "base_model": "base"})
    chance = rng.random()
    if not merged and chance < 0.3:
        path.rename(folder / "hobson_config.json")
    elif not merged and chance < 0.4:  # the new name wins
        write(folder / "hobson_config.json", {**written, "base_model": "base", "temperature": 99.0})
    if merged:
        shutil.rmtree(theirs)
        shutil.rmtree(base)
    else:
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (base / file).unlink()
    kind = "merged" if merged else "adapter" if decider.use_lora else "no adapter"
    types = "".join(name[0] for name in config["layer_types"])
    refused = sum("detail" in line for line in lines)
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) >> 10
    print(f"{root}: {kind}, {decider.torch_dtype}, layers {types}, {len(lines)} requests, {refused} refused, {size} KiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(arguments.first, arguments.last):
        make((arguments.folder / f"{seed:04d}").absolute(), seed, arguments.small)


if __name__ == "__main__":
    main()
