"""Fits a LoRA adapter on worked answers and writes it as a GGUF file that llama.cpp loads.

The model is read from its GGUF file, so that the adapter is fitted to the weights it will sit on,
rounding included. The loss is taken on the answer alone. With --dev, the adapted model then answers
those questions greedily and the share it got right is printed.

    adapt.py MODEL.gguf --data train.jsonl --out adapter.gguf [--dev dev.jsonl]

MODEL may also be the Hugging Face folder that scripts/engines/hugging_face.py makes of the GGUF file:
reading that is quicker. Needs torch, transformers and gguf; a GPU makes it minutes.
"""

import argparse
import json
import math
import pathlib
import random
import re
import time

import gguf
import torch
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

import worked

GGUF_NAMES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--dev", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--layers", default="q,k,v,o,gate,up,down", help="which projections")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--limit", type=int, help="only the first N questions, of both files")
    parser.add_argument("--explain-first", action="store_true", help="worked answers as they come")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank correction."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.a = nn.Parameter(torch.empty(rank, base.in_features, dtype=torch.float32))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank, dtype=torch.float32))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x):
        low = nn.functional.linear(x, self.a.to(x.dtype))
        # The scale is alpha / rank with alpha = 2 * rank.
        return self.base(x) + 2.0 * nn.functional.linear(low, self.b.to(x.dtype))


def adapt(model, layers, rank):
    """Wraps the named projections of every layer; returns them by (layer, projection)."""
    adapted = {}
    for name, module in list(model.named_modules()):
        projection = name.rsplit(".", 1)[-1]
        if projection in layers and isinstance(module, nn.Linear):
            layer = int(re.search(r"layers\.(\d+)\.", name).group(1))
            wrapped = Adapted(module, rank).to(module.weight.device)
            setattr(model.get_submodule(name.rsplit(".", 1)[0]), projection, wrapped)
            adapted[layer, projection] = wrapped
    return adapted


def end_of_turn(tokenizer):
    """The token the chat template puts behind an answer; the tokenizer's own end may be another."""
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    ids = tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False)
    answer = tokenizer.encode("b", add_special_tokens=False)[-1]
    return ids[len(ids) - ids[::-1].index(answer)]


def encoded(tokenizer, rows, explain_first):
    examples, end = [], end_of_turn(tokenizer)
    print(f"answers end with {tokenizer.convert_ids_to_tokens(end)}", flush=True)
    for row in rows:
        prompt = prompt_ids(tokenizer, row)
        answer = tokenizer.encode(worked.answer(row, explain_first), add_special_tokens=False)
        examples.append((prompt, answer + [end]))
    return examples


def prompt_ids(tokenizer, row):
    return tokenizer.apply_chat_template(
        worked.messages(row), add_generation_prompt=True, tokenize=True, return_dict=False
    )


def batches(examples, size, rng):
    """Of similar length, in random order."""
    order = sorted(range(len(examples)), key=lambda i: sum(map(len, examples[i])) + rng.random() * 16)
    groups = [order[i : i + size] for i in range(0, len(order), size)]
    rng.shuffle(groups)
    return [[examples[i] for i in group] for group in groups]


def loss_of(model, batch, pad, device):
    width = max(len(p) + len(a) for p, a in batch)
    ids = torch.full((len(batch), width), pad)
    labels = torch.full((len(batch), width), -100)
    mask = torch.zeros((len(batch), width), dtype=torch.long)
    for i, (prompt, answer) in enumerate(batch):
        end = len(prompt) + len(answer)
        ids[i, :end] = torch.tensor(prompt + answer)
        labels[i, len(prompt) : end] = torch.tensor(answer)
        mask[i, :end] = 1
    ids, labels, mask = ids.to(device), labels.to(device), mask.to(device)
    logits = model(input_ids=ids, attention_mask=mask).logits
    wanted = labels[:, 1:] != -100
    return nn.functional.cross_entropy(logits[:, :-1][wanted].float(), labels[:, 1:][wanted])


def fit(model, adapted, examples, pad, options, device):
    rng = random.Random(options.seed)
    parameters = [p for module in adapted.values() for p in (module.a, module.b)]
    optimizer = torch.optim.AdamW(parameters, lr=options.learning_rate, weight_decay=0.0)
    total = options.epochs * math.ceil(len(examples) / options.batch)
    warm = max(1, total // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda i: min((i + 1) / warm, 0.5 * (1 + math.cos(math.pi * min(1.0, i / total)))),
    )
    step, skipped, started = 0, 0, time.time()
    for epoch in range(options.epochs):
        for batch in batches(examples, options.batch, rng):
            loss = loss_of(model, batch, pad, device)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            if torch.isfinite(norm):
                optimizer.step()
            else:
                skipped += 1
            optimizer.zero_grad(set_to_none=True)
            schedule.step()
            step += 1
            if step % 50 == 0 or step == total:
                seconds = time.time() - started
                print(f"epoch {epoch + 1} step {step}/{total} loss {loss.item():.3f} {seconds:.0f} s", flush=True)
    if skipped:
        print(f"{skipped} steps had gradients that were not finite and were skipped")


@torch.no_grad()
def answers(model, tokenizer, prompts, device, size=200, most=110):
    """Greedy answers to prompts of token ids."""
    texts = []
    for begin in range(0, len(prompts), size):
        group = prompts[begin : begin + size]
        width = max(map(len, group))
        pad = tokenizer.eos_token_id
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in group], device=device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in group], device=device)
        out = model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=most, do_sample=False,
            temperature=None, top_p=None, top_k=None, repetition_penalty=1.0, pad_token_id=pad,
            eos_token_id=end_of_turn(tokenizer),
        )
        texts += tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)
    return texts


def permuted(rows, heads):
    """llama.cpp keeps the rows of a llama's q and k in another order."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


def write(path, adapted, config, options):
    architecture = config.model_type
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, 2.0 * options.rank)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for (layer, projection), module in sorted(adapted.items()):
        a, b = module.a.detach().cpu().numpy(), module.b.detach().cpu().numpy()
        if architecture == "llama" and projection in heads:
            b = permuted(b, heads[projection])
        name = f"blk.{layer}.{GGUF_NAMES[projection]}.weight"
        writer.add_tensor(f"{name}.lora_a", a.astype("float16"))
        writer.add_tensor(f"{name}.lora_b", b.astype("float16"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def main():
    options = arguments()
    torch.manual_seed(options.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.model.is_dir():
        source = {"pretrained_model_name_or_path": str(options.model)}
    else:
        folder, name = str(options.model.parent), options.model.name
        source = {"pretrained_model_name_or_path": folder, "gguf_file": name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    precision = torch.bfloat16 if device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=precision).to(device)
    model.requires_grad_(False)
    layers = {f"{name}_proj" for name in options.layers.split(",")}
    adapted = adapt(model, layers, options.rank)
    print(f"{options.model.name} on {device}: {len(adapted)} projections adapted, rank {options.rank}", flush=True)

    rows = worked.read(options.data)[: options.limit]
    rows = [row for row in rows if worked.is_whole(row)]
    print(f"{len(rows)} worked answers", flush=True)
    examples = encoded(tokenizer, rows, options.explain_first)
    model.train()
    fit(model, adapted, examples, tokenizer.eos_token_id, options, device)
    write(options.out, adapted, model.config, options)

    if options.dev:
        model.eval()
        questions = worked.read(options.dev)[: options.limit]
        texts = answers(model, tokenizer, [prompt_ids(tokenizer, q) for q in questions], device)
        right = [worked.chosen(text) == row["answerKey"] for text, row in zip(texts, questions)]
        with open(options.out.with_suffix(".dev.jsonl"), "w") as file:
            for text, row in zip(texts, questions):
                file.write(json.dumps({"id": row["id"], "answer": row["answerKey"], "text": text}) + "\n")
        print(f"dev accuracy {sum(right) / len(right):.3f} of {len(right)}; for example: {texts[0]!r}")


main()
