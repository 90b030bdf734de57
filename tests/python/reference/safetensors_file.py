"""safetensors written and read with NumPy alone; bfloat16 is rounded to nearest even from float32."""

import json
import struct

import numpy as np

TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64}


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(x, kind):
    """x as rounded by a file of this type."""
    return from_bf16(to_bf16(x)) if kind == "BF16" else x.astype(TYPES[kind]).astype(np.float32)


def write(path, tensors, kind="F32", meta={"format": "pt"}):
    header, data, size = {"__metadata__": meta} if meta else {}, [], 0
    for name, x in tensors.items():
        raw = (to_bf16(x) if kind == "BF16" else x.astype(TYPES[kind])).tobytes()
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [size, size + len(raw)]}
        data.append(raw)
        size += len(raw)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.writelines(data)
