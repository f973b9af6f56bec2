"""C3D files byte by byte, after the manual of the format (c3d.org), for tests of readers."""

import struct

import numpy as np

INTEL, DEC, MIPS = 84, 85, 86


def integers(values, processor, kind="i2"):
    return np.asarray(values).astype((">" if processor == MIPS else "<") + kind).tobytes()


def reals(values, processor):
    flat = np.asarray(values, np.float32).ravel()
    if processor == DEC:
        return (4.0 * flat).astype("<f4").view("<u2").reshape(-1, 2)[:, ::-1].tobytes()
    return flat.astype(">f4" if processor == MIPS else "<f4").tobytes()


def parameter(group, name, value, processor):
    """One parameter; arrays of bytes, of integers, of reals, or texts."""
    array = np.atleast_1d(np.asarray(value))
    flat = array.ravel(order="F")
    if array.dtype.kind == "U":
        length = max(map(len, flat))
        kind, sizes = -1, [length, *array.shape]
        data = "".join(text.ljust(length) for text in flat).encode()
    elif array.dtype.kind == "f":
        kind, sizes, data = 4, array.shape, reals(flat, processor)
    elif array.dtype.itemsize == 1:
        kind, sizes, data = 1, array.shape, flat.tobytes()
    else:
        kind, sizes, data = 2, array.shape, integers(flat, processor)
    body = struct.pack("bB", kind, len(sizes)) + bytes(sizes) + data + b"\0"
    head = struct.pack("bb", len(name), group) + name.encode()
    return head + integers([2 + len(body)], processor, "u2") + body


def write_bytes(
    path, groups, points, analogs=None, processor=INTEL, scale=-1.0, first=1, after=b""
):
    """A file at 100 Hz. groups : parameters by group and name. points : (M, 3, N), NaN where
    missing, integers in units of a `scale` that is not negative. analogs : (C, K N) as stored.
    after : bytes behind the samples."""
    (count, _, frames), rows = points.shape, b""
    for number, (group, content) in enumerate(groups.items(), 1):
        rows += struct.pack("bb", len(group), -number) + group.encode()
        rows += integers([3], processor) + b"\0"
        for name, value in content.items():
            rows += parameter(number, name, value, processor)
    blocks = -(-(len(rows) + 8) // 512)
    ratio = 0 if analogs is None else analogs.shape[1] // frames
    of_frame = 0 if analogs is None else ratio * len(analogs)
    numbers = [count, of_frame, min(first, 65535), min(first + frames - 1, 65535), 0]
    head = bytes([2, 80]) + integers(numbers, processor, "u2") + reals([scale], processor)
    head += integers([2 + blocks, ratio], processor) + reals([100.0], processor)
    missing = np.isnan(points).any(axis=1)
    quads = np.concatenate([np.nan_to_num(points), np.where(missing, -1.0, 0.0)[:, None]], axis=1)
    quads[:, :3] /= scale if scale > 0.0 else 1.0
    samples = quads.transpose(2, 0, 1).reshape(frames, -1)
    if analogs is not None:
        stored = analogs.reshape(len(analogs), frames, ratio).transpose(1, 2, 0)
        samples = np.concatenate([samples, stored.reshape(frames, -1)], axis=1)
    data = reals(samples, processor) if scale < 0.0 else integers(np.round(samples), processor)
    told = (bytes([1, 80, blocks, processor]) + rows).ljust(512 * blocks, b"\0")
    data = data.ljust(-(-len(data) // 512) * 512, b"\0")
    path.write_bytes(head.ljust(512, b"\0") + told + data + after)
    return path
