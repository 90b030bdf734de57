"""write_models.py FOLDER [large]: models of every family with random weights, each in a folder with its logits.

They are small, except for one of the size of ESM-2 8M, and with "large" one of the size of GPT-2 small.

FOLDER/NAME has what Hugging Face's library would save; FOLDER/NAME.tokens the tokens, FOLDER/NAME.logp the
log-probabilities of the reference, one row a token. Needs NumPy alone.
"""

import json
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference"))
import families  # noqa: E402
import safetensors_file  # noqa: E402
import vision  # noqa: E402


def save(folder, config, tensors, kind, shards):
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=2)
        f.write("\n")
    if shards == 1:
        safetensors_file.write(os.path.join(folder, "model.safetensors"), tensors, kind)
        return
    names, where = list(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[i::shards]}
        safetensors_file.write(os.path.join(folder, file), part, kind)
        where.update(dict.fromkeys(part, file))
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"metadata": {}, "weight_map": where}, f)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def write(root, name, model, length=19, kind="F32", shards=1, tokens=None, types=None, files=None,
          older=False):
    """older: norms have gamma and beta, as in the published bert-base-uncased."""
    config, tensors, logits = model
    for key in tensors:  # the reference computes with what is left in the file
        tensors[key] = safetensors_file.rounded(tensors[key], kind)
    if tokens is None:
        tokens = np.random.default_rng(7).integers(0, config["vocab_size"], length)
    folder = os.path.join(root, name)
    names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"} if older else {}
    saved = {re.sub(r"LayerNorm\.\w+$", lambda m: names.get(m[0], m[0]), key): x for key, x in tensors.items()}
    save(folder, config, saved, kind, shards)
    for file, text in (files or {}).items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
            f.write(text)
    expected = logits(tokens) if types is None else logits(tokens, types)
    np.savetxt(folder + ".logp", log_softmax(expected), fmt="%.9g")
    np.savetxt(folder + ".tokens", np.asarray(tokens)[None], fmt="%d")


def changed(model, **keys):
    """The same model with other keys in its config.json, of which those that are ... are left out."""
    config, tensors, logits = model
    return {k: x for k, x in (config | keys).items() if x is not ...}, tensors, logits


MERGES = ["t h", "th e", "Ġ the", "i n", "Ã ©", "Ċ Ċ"]
NO_LIMIT = '{"do_lower_case": true, "model_max_length": 1000000000000000019884624838656}'
ESM2 = "<cls> <pad> <eos> <unk> L A G V S E R T I D P K Q N F Y M H W C X B U Z O . - <null_1> <mask>"


def byte_level():
    """vocab.json and merges.txt in the form of GPT-2: all bytes, the results of six merges, and <|endoftext|> as token 299."""
    seen = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 256)]
    rest = [b for b in range(256) if b not in seen]
    letters = [chr(b) for b in seen] + [chr(256 + i) for i in range(len(rest))]
    vocab = {x: i for i, x in enumerate(letters + [m.replace(" ", "") for m in MERGES])}
    vocab["<|endoftext|>"] = 299
    return {"vocab.json": json.dumps(vocab, ensure_ascii=False), "merges.txt": "#version: 0.2\n" + "\n".join(MERGES) + "\n"}


def all_models(root):
    write(root, "gpt2", families.gpt2())
    write(root, "gpt2-text", families.gpt2(vocab=300, positions=64, seed=20), files=byte_level())
    write(root, "gpt2-bare-f16", families.gpt2(prefix="", seed=11), kind="F16")
    write(root, "gpt2-untied", families.gpt2(tied=False, seed=12, layers=3), shards=2)
    write(root, "neox", families.neox())
    write(root, "neox-sequential", families.neox(parallel=False, share=1.0, seed=13), kind="BF16")
    write(root, "llama", families.llama(), shards=3)
    write(root, "llama-tied-bf16", families.llama(tied=True, groups=1, seed=14), kind="BF16")
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 15}
    write(root, "llama-3", families.llama(seed=26, rule=llama3))
    write(root, "llama-linear", families.llama(seed=27, rule={"type": "linear", "rope_type": "linear", "factor": 2.5}))
    linear = families.llama(seed=27, rule={"rope_type": "linear", "factor": 2.5})  # base 500,000
    rule, plain = linear[0]["rope_scaling"], {"rope_type": "default", "rope_theta": 10000.0}
    own = rule | {"rope_theta": 500000.0}
    write(root, "llama-both", changed(linear, rope_parameters=plain))  # of which the first counts
    write(root, "llama-own-base", changed(linear, rope_scaling=own, rope_theta=10000.0))
    write(root, "llama-newer", changed(linear, rope_scaling={}, rope_parameters=own, rope_theta=...))
    write(root, "mistral", families.llama(family="mistral", groups=4, seed=15))
    write(root, "mistral-window", families.llama(family="mistral", seed=24, window=5))
    write(root, "qwen2", families.llama(family="qwen2", seed=16))
    write(root, "qwen2-window", families.llama(family="qwen2", seed=25, window=8))
    eight = families.llama(family="mistral", n_head=16, groups=8, head=2, seed=28)
    write(root, "mistral-8-heads", changed(eight, num_key_value_heads=...))
    all_heads = families.llama(family="mistral", n_head=16, groups=16, head=2, seed=29)
    write(root, "mistral-all-heads", changed(all_heads, num_key_value_heads=None))
    many = families.llama(family="qwen2", width=128, n_head=64, groups=32, head=2, seed=31)
    write(root, "qwen2-32-heads", changed(many, num_key_value_heads=...))
    write(root, "bert", families.bert())
    write(root, "bert-pairs", families.bert(seed=17), tokens=[2, 9, 9, 3, 5, 3, 11], types=[0, 0, 0, 0, 1, 1, 1],
          files={"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\nword\n", "tokenizer_config.json": NO_LIMIT})
    write(root, "bert-bare", families.bert(seed=18, bare=True))
    write(root, "bert-older", families.bert(seed=23), older=True)
    write(root, "roberta", families.bert("roberta"))
    write(root, "roformer", families.bert("roformer"))
    esm = families.esm()
    write(root, "esm", esm, tokens=[0, 5, 32, 7, 9, 32, 4, 4, 20, 2], files={"vocab.txt": ESM2.replace(" ", "\n") + "\n"})
    write(root, "esm-unmasked", families.esm(seed=19))
    write(root, "esm-relu", changed(families.esm(seed=35), hidden_act="relu"))  # a key that it does not read
    write(root, "esm-8m", families.esm(layers=6, width=320, n_head=20, seed=21))  # the size of esm2_t6_8M


def write_vit(root, name, *, mean=(0.5,) * 3, std=(0.5,) * 3, files=None, **kind):
    """A model of images; the tokens are the bytes of FOLDER/NAME.png."""
    side, channels = kind.get("side", 12), kind.get("channels", 3)
    image = vision.picture(side, channels)
    if files is None:
        files = {"preprocessor_config.json": json.dumps(vision.processor(mean, std, side))}
    write(root, name, vision.vit(mean=mean, std=std, **kind), tokens=image.reshape(-1), files=files)
    vision.write_png(os.path.join(root, name + ".png"), image)


def all_images(root):
    write_vit(root, "vit", labels=["cat", "dog, hound", "owl", "fox", "bee"])
    write_vit(root, "vit-deit", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), seed=32, ff=24)
    write_vit(root, "vit-gray", channels=1, side=14, patch=7, seed=33, files={})


def large_models(root):
    """The size of GPT-2 small (124 million parameters), and of ViT-B/16 (86 million)."""
    names = [f"class {i}, number {i}" for i in range(1000)]
    write_vit(root, "vit-base", layers=12, width=768, n_head=12, side=224, patch=16, classes=1000, ff=3072, seed=34,
              labels=names)
    write(root, "gpt2-small", families.gpt2(layers=12, width=768, n_head=12, vocab=50257, positions=1024, seed=22))


if __name__ == "__main__":
    if sys.argv[2:] == ["large"]:
        large_models(sys.argv[1])
    else:
        all_models(sys.argv[1])
        all_images(sys.argv[1])
