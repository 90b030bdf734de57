"""ViT in NumPy, and small models of it with random weights; pictures as PNG files.

Written from Dosovitskiy et al. 2021 (equations 1 to 4) and the published configurations. Arithmetic is in double;
weights are float32. vit() makes (config, tensors, logits): logits(image) is (1, classes) for bytes (side, side, channels)
in any shape.
"""

import struct
import zlib

import numpy as np

from families import Draws, attention, gelu, heads, layer_norm, linear


def vit(layers=2, width=24, n_head=3, side=12, patch=4, channels=3, classes=5, ff=40, seed=30, bare=False,
        mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), labels=None):
    d, C, eps, p = Draws(seed), width, 1e-12, "" if bare else "vit."
    across = side // patch
    d.weight(p + "embeddings.cls_token", 1, 1, C, spread=0.5)
    d.weight(p + "embeddings.position_embeddings", 1, across * across + 1, C, spread=0.5)
    d.weight(p + "embeddings.patch_embeddings.projection.weight", C, channels, patch, patch, spread=0.2)
    d.weight(p + "embeddings.patch_embeddings.projection.bias", C)
    for i in range(layers):
        h = f"{p}encoder.layer.{i}."
        for name in ("query", "key", "value"):
            d.linear(f"{h}attention.attention.{name}", C, C)
        d.linear(h + "attention.output.dense", C, C)
        d.linear(h + "intermediate.dense", C, ff)
        d.linear(h + "output.dense", ff, C)
        d.norm(h + "layernorm_before", C)
        d.norm(h + "layernorm_after", C)
    d.norm(p + "layernorm", C)
    if bare:
        d.linear("pooler.dense", C, C)
    else:
        d.linear("classifier", C, classes)
    t = d.tensors
    labels = labels or [f"LABEL_{i}" for i in range(classes)]
    config = {"model_type": "vit", "architectures": ["ViTModel" if bare else "ViTForImageClassification"],
              "num_hidden_layers": layers, "num_attention_heads": n_head, "hidden_size": C, "intermediate_size": ff,
              "hidden_act": "gelu", "layer_norm_eps": eps, "image_size": side, "patch_size": patch,
              "num_channels": channels, "qkv_bias": True, "id2label": {str(i): name for i, name in enumerate(labels)}}

    def logits(image):
        x = (np.asarray(image, np.float64).reshape(side, side, channels) / 255 - mean[:channels]) / std[:channels]
        kernel = t[p + "embeddings.patch_embeddings.projection.weight"].astype(np.float64)
        rows = [t[p + "embeddings.cls_token"][0, 0].astype(np.float64)]
        for y in range(0, side, patch):  # the convolution, patch by patch
            for z in range(0, side, patch):
                square = x[y : y + patch, z : z + patch]
                rows.append(np.einsum("yxc,ocyx->o", square, kernel))
                rows[-1] += t[p + "embeddings.patch_embeddings.projection.bias"]
        x = np.stack(rows) + t[p + "embeddings.position_embeddings"][0]
        for i in range(layers):
            h = f"{p}encoder.layer.{i}."
            a = layer_norm(t, h + "layernorm_before", x, eps)
            q, k, v = (heads(linear(t, f"{h}attention.attention.{name}", a), n_head) for name in ("query", "key", "value"))
            x = x + linear(t, h + "attention.output.dense", attention(q, k, v, False))
            b = layer_norm(t, h + "layernorm_after", x, eps)
            x = x + linear(t, h + "output.dense", gelu(linear(t, h + "intermediate.dense", b)))
        x = layer_norm(t, p + "layernorm", x, eps)[:1]
        return x if bare else linear(t, "classifier", x)

    return config, t, logits


def processor(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), side=12, **more):
    return {"do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": list(mean),
            "image_std": list(std), "image_processor_type": "ViTImageProcessor", "resample": 2,
            "rescale_factor": 1 / 255, "size": {"height": side, "width": side}, **more}


def picture(side=12, channels=3, seed=31):
    return np.random.default_rng(seed).integers(0, 256, (side, side, channels), dtype=np.uint8)


def write_png(path, image):
    """An image (height, width, channels), without filters."""
    height, width, channels = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n")
        f.write(chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)))
        f.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
