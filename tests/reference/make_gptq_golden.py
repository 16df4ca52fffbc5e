#!/usr/bin/env python3
"""Writes tests/golden/gptq/case.safetensors: a small matrix, a Hessian, tables, and the indices that GPTQ gives (specs: quantization
4.1), computed with NumPy in FP64 from the formulas of the paper (arXiv 2210.17323, equations 2 and 3) and no factorization: with
F the columns that are left, and their inverse Hessian B = (H_F)^-1, column q is rounded, the others take

    w_F -= (w_q - quant(w_q)) / B_qq * B_:q

and q is then eliminated from B by one step of Gauss: B -= B_:q B_q: / B_qq.

A decision that FP32 could take otherwise would make the golden worthless: the first seed is taken that leaves each a margin. Run
without arguments; the output does not depend on anything else."""
import json
import struct
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parent.parent / "golden" / "gptq" / "case.safetensors"
ROWS, COLS, DAMP, MARGIN = 12, 40, 0.01, 3e-5
DTYPES = {np.uint8: "U8", np.int8: "I8", np.float16: "F16", np.float32: "F32", np.float64: "F64"}


class Close(Exception):
    pass


def write(path, tensors):
    header, blobs, at = {}, [], 0
    for name, values in tensors.items():
        blob = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": DTYPES[values.dtype.type], "shape": list(values.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def scales(W, int8):
    if int8:
        return np.float16(np.abs(W).max(axis=1) / np.float32(127)).astype(np.float64)
    return np.float16(np.sqrt(np.mean(W.astype(np.float64) ** 2, axis=1))).astype(np.float64)


def quantize(w, s, table, weight):
    """Codes of a column [rows] and what they stand for."""
    if table is None:
        x = w / s
        if np.any(np.abs(x - np.floor(x) - 0.5) < MARGIN):
            raise Close
        code = np.clip(np.rint(x), -127, 127)
        return code.astype(np.int8), code * s
    d = table.shape[1]
    x, weight = (w / s).reshape(-1, 1, d), weight.reshape(-1, 1, d)
    dist = (weight * (x - table[None]) ** 2).sum(axis=2)
    two = np.sort(dist, axis=1)
    if np.any(two[:, 1] - two[:, 0] < MARGIN * two[:, 1]):
        raise Close
    code = dist.argmin(axis=1)
    return code.astype(np.uint8), table[code].reshape(-1) * s


def gptq(W, H, table, s, weight, act):
    n = H.shape[0]
    perm = np.argsort(-np.diag(H), kind="stable") if act else np.arange(n)
    W, H = W[:, perm].astype(np.float64), H[np.ix_(perm, perm)]
    B = np.linalg.inv(H + DAMP * np.mean(np.diag(H)) * np.eye(n))
    Q, codes = np.zeros_like(W), []
    for q in range(n):
        code, Q[:, q] = quantize(W[:, q], s, table, weight)
        codes.append(code)
        W -= np.outer((W[:, q] - Q[:, q]) / B[q, q], B[:, q])
        B = B - np.outer(B[:, q], B[q]) / B[q, q]
    back = np.argsort(perm)
    return np.stack(codes, axis=1)[:, back], Q[:, back]


def case(seed):
    rng = np.random.default_rng(seed)
    W = np.float32(rng.normal(size=(ROWS, COLS)) * 0.05 * np.exp(0.4 * rng.normal(size=(ROWS, 1))))
    x = rng.normal(size=(200, COLS)) @ (rng.normal(size=(COLS, COLS)) / np.sqrt(1 + np.arange(COLS))[:, None])
    H = x.T @ x / len(x)
    importance = np.float32(np.exp(rng.normal(size=ROWS)))
    tables = {
        "v2x16": np.float16(np.sort(rng.normal(size=(16, 2)), axis=0)[:, [0]] * [[1, 0]] + rng.normal(size=(16, 2)) * [[0, 1]]),
        "v2x64": np.float16(rng.normal(size=(64, 2)) * 1.2),
        "lut4": np.float16(np.sort(rng.normal(size=(16, 1)) * 1.3, axis=0)),
        "int8": None,
        "lut6": np.float16(np.sort(rng.normal(size=(64, 1)) * 1.3, axis=0)),
    }
    out = {"W": W, "H": H, "importance": importance}
    for f, table in tables.items():
        if table is not None:
            table = table[np.lexsort((table[:, -1], table[:, 0]))]
            out[f"{f}.lut"] = table
            table = table.astype(np.float64)
        s = scales(W, table is None)
        for act in (True, False):
            for weighted in (False, True) if f.startswith("v2") else (False,):
                codes, Q = gptq(W, H, table, s, s ** 2 * (importance.astype(np.float64) if weighted else 1), act)
                E = W.astype(np.float64) - Q
                name = f"{f}.{'act' if act else 'none'}.{'weighted' if weighted else 'plain'}"
                out[f"{name}.codes"] = codes
                out[f"{name}.error"] = np.array([np.trace(E @ H @ E.T)])
                print(seed, name, out[f"{name}.error"][0] / np.trace(W.astype(np.float64) @ H @ W.astype(np.float64).T))
    return out


def main():
    seed = 0
    while True:
        try:
            write(OUT, case(seed))
            break
        except Close:
            seed += 1
    print(OUT.stat().st_size, "bytes")


main()
