#!/usr/bin/env python3
"""Writes tests/golden/base/repr.txt: bit patterns of doubles and Python's repr of them.

Usage: make_repr.py > tests/golden/base/repr.txt
"""
import math
import random
import struct

values = [0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3, 1e22, 1e23, 5e-324, math.inf, -math.inf, math.nan]
values += [math.nextafter(math.inf, 0), 2.2250738585072014e-308, 2.225073858507201e-308]
values += [123456789012345678.0, 9007199254740993.0, 0.00001, 0.0001, 0.00012345, 1e15, 1e16, 9999999999999998.0]
values += [10.0**k for k in range(-30, 31)]
# Doubles are unevenly spaced around powers of two: the shortest text is not always the nearest one.
for k in range(-1074, 1024, 2):
    values.append(2.0**k)
    if k % 32 == 0:
        values += [math.nextafter(2.0**k, 0), math.nextafter(2.0**k, math.inf)]
random.seed(20260)
for _ in range(500):
    values.append(struct.unpack("<d", random.randbytes(8))[0])
for _ in range(250):
    values.append(float(struct.unpack("<f", random.randbytes(4))[0]))
    values.append(round(random.uniform(-1000, 1000), random.randrange(8)))
    values.append(float(random.randrange(-(10**17), 10**17)))
for v in values:
    if v != v:
        v = math.nan  # one NaN pattern
    print(f"{struct.unpack('<Q', struct.pack('<d', v))[0]:016x} {v!r}")
