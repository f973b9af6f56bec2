"""A table of attacks on the cache of built libraries: each ends in the right number or a sentence.

Each attack gets a cache that holds two small libraries, spoils something, and asks for the library
whose function `number` returns 7, then once more, when it must be kept. It runs in a process of its
own, which may crash or hang. As a script with an empty folder, this file runs all and counts.
"""

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kinesym.runtime.library import build as building
from kinesym.runtime.library import cache
from kinesym.runtime.library.build import CompilerError, build, find_compiler
from kinesym.runtime.library.cache import CacheError
from kinesym.runtime.native import KKT_LIBRARY

LONGEST = 60  # s, of one attack
TABLE = """
#include "kinesym.h"
static const ks_library library = {KINESYM_ABI, %d};
__attribute__((visibility("default"))) const ks_library *kinesym_library(void) { return &library; }
"""
NUMBER = """
#include <math.h>
static const double table[4096] = {%d.0, 1.0, 2.0};
__attribute__((visibility("default"))) double number(int i) { return sqrt(table[i] * table[i]); }
"""


def program(number):
    return {"table.c": TABLE % number, "number.c": NUMBER % number}


def answer(number=7):
    """The number of the library that the cache gives, and whether it was compiled for it."""
    library, seconds = build(program(number))
    function = ctypes.CDLL(library.path).number
    function.restype = ctypes.c_double
    assert library.lanes == number
    return int(function(0)), seconds > 0.0


class Scene(SimpleNamespace):
    """What an attack can spoil: `cache` with the libraries `so` of 7 and `other` of 5, their
    objects `units` and `others`, the memory of compilers `json`; empty folders `aside`, `tmp`."""


def scene(folder):
    """Of a folder that holds a cache; it becomes that of the process."""
    kept, compiler = folder / "cache", find_compiler()
    os.environ["KINESYM_CACHE"] = str(kept)
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    for name in ("aside", "tmp"):
        (folder / name).mkdir()

    def key(files):
        return building._Recipe(files, compiler, compiler.flags).key

    libraries = [kept / f"{key(program(number))}.so" for number in (7, 5)]
    units = [
        [kept / "objects" / f"{key({name: text})}.o" for name, text in program(number).items()]
        for number in (7, 5)
    ]
    return Scene(
        cache=kept,
        so=libraries[0],
        other=libraries[1],
        units=units[0],
        others=units[1],
        json=next(kept.glob("*.json")),
        aside=folder / "aside",
        tmp=folder / "tmp",
    )


# -- how to spoil --------------------------------------------------------------------------------

Change = Callable[[bytes], bytes]

DAMAGES: dict[str, Change] = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "64 bytes": lambda data: data[:64],
    "1000 bytes": lambda data: data[:1000],
    "a page": lambda data: data[:4096],
    "a quarter": lambda data: data[: len(data) // 4],
    "half": lambda data: data[: len(data) // 2],
    "three quarters": lambda data: data[: 3 * len(data) // 4],
    "all but a byte": lambda data: data[:-1],
    "a byte more": lambda data: data + b"\0",
    "twice": lambda data: data + data,
    "zeros": lambda data: bytes(len(data)),
    "zeros behind 1000 bytes": lambda data: data[:1000] + bytes(max(len(data) - 1000, 0)),
    "zeros before the end": lambda data: bytes(max(len(data) - 512, 0)) + data[-512:],
    "a bit of the head": lambda data: data[:17] + bytes([data[17] ^ 1]) + data[18:],
    "the last bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "random": lambda data: bytes((i * i * 2654435761 >> 16) & 255 for i in range(len(data))),
    "text": lambda data: b"this is not a library\n",
    "a script": lambda data: b"#!/bin/sh\nexit 0\n",
}

RECORDS: dict[str, Change] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:20],
    "wrong checksum": lambda data: data[:-5] + b"0000\n",
    "wrong size": lambda data: re.sub(rb" \d+ ", b" 1 ", data),
    "size no number": lambda data: re.sub(rb" \d+ ", b" many ", data),
    "wrong name": lambda data: b"0" * 32 + data[32:],
    "binary": lambda data: bytes(range(256)),
    "a million words": lambda data: b"a b " * 500000,
}

KINDS = (
    "a folder",
    "a dangling link",
    "a link to itself",
    "a link to a foreign file",
    "a link to the other library",
    "a pipe",
    "a socket",
)


def record(path):
    return path.with_name(f"{path.name}.sum")


def lock(s):
    return s.so.with_suffix(".lock")


def spoil(path, change):
    """As an interrupted write, or a failing disk, would: in place."""
    path.write_bytes(change(path.read_bytes()))


def exchange(source, target):
    shutil.copy(source, target)
    shutil.copy(record(source), record(target))


def give_away(path):
    """To another user; where only root may do so, in the eyes of the cache."""
    try:
        os.lchown(path, 54321, 54321)
    except PermissionError:
        honest, taken = cache._trusted, os.lstat(path)
        with suppress(OSError):  # while it is open no other file gets its number
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        cache._trusted = lambda status: honest(status) and not os.path.samestat(status, taken)


def instead(s, path, kind):
    """Something that is no file at the place of a file."""
    path.unlink(missing_ok=True)
    if kind == "a folder":
        (path / "inner").mkdir(parents=True)
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a socket":
        os.chdir(path.parent)  # a whole path may be too long
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    elif kind == "a link to a foreign file":
        (s.aside / "foreign").write_bytes(b"not mine")
        give_away(s.aside / "foreign")
        path.symlink_to(s.aside / "foreign")
    else:
        path.symlink_to(
            {
                "a dangling link": s.aside / "nowhere",
                "a link to itself": path.name,
                "a link to the other library": s.other,
            }[kind]
        )


def link(s, target, name="link"):
    """A link beside the cache."""
    (s.aside / name).symlink_to(target)
    return s.aside / name


def move(folder):
    os.environ["KINESYM_CACHE"] = str(folder)


def read_only(s):
    for path in (s.cache, s.cache / "objects"):
        path.chmod(0o555)


def emptied(s):
    shutil.rmtree(s.cache)
    s.cache.mkdir(0o700)


def no_temporary(s):
    """No temporary folder can be written, nor the working one, which is the last resort."""
    s.aside.chmod(0o555)
    os.chdir(s.aside)
    tempfile._candidate_tempdir_list = lambda: [str(s.aside)]


def full(*folders):
    """No space is left below some folders."""
    place = cache._place

    def refuse(path, data):
        if any(folder in path.parents for folder in folders):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        place(path, data)

    cache._place = refuse


def bare(s):
    """No compiler: nothing is on the path."""
    os.environ["PATH"] = str(s.aside)


def script(s, text):
    """CC names a script."""
    path = s.aside / "mycc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    os.environ["CC"] = str(path)


# -- the table: name, what is done, how it ends, words of the warning or the sentence ------------

RIGHT, WARNED, SENTENCE = "right", "warned", "sentence"
ATTACKS: dict[str, tuple[Callable[[Scene], Any], str, str]] = {}
CC = shutil.which("cc") or "gcc"
STORED = "the cache folder .* cannot be used .* go to .*kinesym-.* name another folder in the env"
WRITE = r"others may write to the cache folder .*; run chmod go-w \S+, or name another folder"
FOREIGN = "the link .*/link on the way to the cache belongs to another user; name another folder"
NOWHERE = "no library can be stored and opened in the cache folder .*nor in a private one"
NONE = "no C compiler found; install one .*CC$"
NO_LIBRARY = "no C compiler found; install one .* holds no library of this model for this processor"
NOTHING = "wrote nothing for .* CC must name a C compiler that compiles and links"


def attack(name, do, ends=RIGHT, words=""):
    assert name not in ATTACKS
    ATTACKS[name] = (do, ends, words)


def relinked(name, do, ends=RIGHT, words=""):
    """An attack on what is needed when the library is gone."""
    attack(name, lambda s: (s.so.unlink(), do(s)), ends, words)


def files():
    """Damaged, exchanged, planted files."""
    for k, (name, change) in enumerate(DAMAGES.items()):
        attack(f"library: {name}", lambda s, c=change: spoil(s.so, c))
        relinked(f"object: {name}", lambda s, c=change, k=k % 2: spoil(s.units[k], c))
    for k, (name, change) in enumerate(RECORDS.items()):
        attack(f"record of the library: {name}", lambda s, c=change: spoil(record(s.so), c))
        relinked(
            f"record of an object: {name}",
            lambda s, c=change, k=k % 2: spoil(record(s.units[k]), c),
        )
    for kind in KINDS:
        attack(f"library: {kind}", lambda s, k=kind: instead(s, s.so, k))
        attack(f"record of the library: {kind}", lambda s, k=kind: instead(s, record(s.so), k))
        relinked(f"object: {kind}", lambda s, k=kind: instead(s, s.units[0], k))
    attack("library: gone", lambda s: s.so.unlink())
    attack("record of the library: gone", lambda s: record(s.so).unlink())
    relinked("record of an object: gone", lambda s: record(s.units[1]).unlink())
    relinked("both objects empty", lambda s: [os.truncate(path, 0) for path in s.units])
    attack("everything empty", lambda s: [os.truncate(path, 0) for path in s.cache.rglob("*.*")])
    attack("no records", lambda s: [path.unlink() for path in s.cache.rglob("*.sum")])
    attack("libraries exchanged", lambda s: shutil.copy(s.other, s.so))
    attack("libraries exchanged with their records", lambda s: exchange(s.other, s.so))
    relinked("objects exchanged with their records", lambda s: [*map(exchange, s.others, s.units)])
    attack("library: text with the right record", lambda s: cache.store(s.so, b"nonsense"))
    attack(
        "library: one of something else with the right record",
        lambda s: cache.store(s.so, Path(KKT_LIBRARY).read_bytes()),
        WARNED,
        "is not a kinesym model library",
    )
    attack("library: all may write", lambda s: (cache.store(s.so, b"planted"), s.so.chmod(0o666)))
    attack("library: of another user", lambda s: (cache.store(s.so, b"planted"), give_away(s.so)))
    attack("record of the library: of another user", lambda s: give_away(record(s.so)))
    attack("library and record: unreadable", lambda s: (s.so.chmod(0), record(s.so).chmod(0)))


def locks():
    """Locks, and what killed builds leave."""
    for kind in KINDS[:4]:
        relinked(f"lock: {kind}", lambda s, k=kind: instead(s, lock(s), k), WARNED, STORED)
    relinked("lock: a pipe", lambda s: os.mkfifo(lock(s)))
    relinked(
        "lock: of another user",
        lambda s: (lock(s).touch(0o400), give_away(lock(s))),
        WARNED,
        STORED,
    )
    relinked("lock: left by a killed build", lambda s: lock(s).touch())
    relinked("lock: held for ever", held, WARNED, STORED)
    relinked("remains of killed builds, old and young", remains)
    for where in range(8):
        attack(f"build killed at write {where}", partial(killed, where=where))


def held(s):
    cache._WAIT = 0.2
    fcntl.flock(os.open(lock(s), os.O_CREAT), fcntl.LOCK_EX)


def remains(s):
    old = [
        s.cache / "kinesym-work-a",
        s.cache / "objects" / "kinesym-work-b",
        s.cache / f"{'0' * 32}.lock",
        s.tmp / "kinesym-work-c",
    ]
    young, foreign = s.cache / "kinesym-work-d", s.cache / "notes.txt"
    for path in (*old[:3], young, foreign):
        path.touch()
    (old[3] / "inner").mkdir(parents=True)
    for path in (*old, foreign):
        os.utime(path, (0, 0))
    answer()
    assert not any(path.exists() for path in old) and young.exists() and foreign.exists()


def killed(s, where):
    """A build on an empty cache dies while it writes its file number `where`."""
    shutil.rmtree(s.cache)
    if os.fork() == 0:
        place, count = cache._place, iter(range(100))

        def deadly(path, data):
            if next(count) == where:
                (path.parent / "kinesym-work-half").write_bytes(data[:100])
                os.kill(os.getpid(), signal.SIGKILL)
            place(path, data)

        cache._place = deadly
        answer()
        os._exit(1)
    assert os.WIFSIGNALED(os.wait()[1])


def folders():
    """Folders that are gone, odd, or no folders."""
    attack("cache: gone", lambda s: shutil.rmtree(s.cache))
    attack("cache: removed between two uses", lambda s: (answer(), shutil.rmtree(s.cache)))
    relinked("cache: removed while something is built", removed, WARNED, STORED)
    relinked("objects: gone", lambda s: shutil.rmtree(s.cache / "objects"))
    relinked(
        "objects: a file",
        lambda s: (shutil.rmtree(s.cache / "objects"), (s.cache / "objects").touch()),
        WARNED,
        STORED,
    )
    attack("cache: a file", lambda s: (shutil.rmtree(s.cache), s.cache.touch()), WARNED, STORED)
    attack("cache: below a file", lambda s: move(s.so / "inner"), WARNED, STORED)
    attack("cache: a device", lambda s: move(os.devnull), WARNED, STORED)
    attack("cache: where nothing can be made", lambda s: move("/proc/nowhere"), WARNED, STORED)
    attack("cache: name too long", lambda s: move(s.aside / ("n" * 300)), WARNED, STORED)
    attack("cache: a dangling link", lambda s: move(link(s, "nowhere")), WARNED, STORED)
    attack("cache: a link to itself", lambda s: move(link(s, "link")), WARNED, STORED)
    attack(
        "cache: through links of the user",
        lambda s: (link(s, "two"), move(link(s, s.cache.parent, "two") / "cache")),
    )
    for name in ("with blanks", "ungewöhnlich/路径", "' and \" and $HOME;", "line\nbreak", "-o"):
        attack(f"cache named {name!r}", lambda s, n=name: move(s.aside / n))
    attack("cache: relative", lambda s: (os.chdir(s.aside), move("relative/path")))
    attack("cache: relative, full", lambda s: (os.chdir(s.cache.parent), move("cache"), kept(s)))
    attack("cache: made with umask 0", open_umask)
    attack("cache: made with umask 777", closed_umask)


def removed(s):
    linked = building._linked
    building._linked = lambda *given: (linked(*given), shutil.rmtree(s.cache, True))[0]


def kept(s):
    assert answer() == (7, False)


def open_umask(s):
    os.umask(0)
    move(s.aside / "new" / "cache")
    answer()
    for path in (s.aside / "new", *(s.aside / "new").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o644), path


def closed_umask(s):
    shutil.rmtree(s.cache)
    os.umask(0o777)
    cache.prepare(s.cache / "objects")
    os.umask(0o022)
    assert s.cache.stat().st_mode & 0o777 == 0o700


def owners():
    """Folders and links that others control."""
    for mode in (0o777, 0o775, 0o702, 0o720):
        attack(f"cache of mode {mode:o}", lambda s, m=mode: s.cache.chmod(m), SENTENCE, WRITE)
        attack(
            f"empty cache of mode {mode:o}",
            lambda s, m=mode: (emptied(s), s.cache.chmod(m)),
            SENTENCE,
            WRITE,
        )
        relinked(
            f"objects of mode {mode:o}",
            lambda s, m=mode: (s.cache / "objects").chmod(m),
            SENTENCE,
            WRITE,
        )
    attack(
        "cache of mode 1777",
        lambda s: s.cache.chmod(0o1777),
        SENTENCE,
        "others may write to .* rights; name another folder",
    )
    attack(
        "cache of another user",
        lambda s: (give_away(s.cache), s.cache.chmod(0o755)),
        SENTENCE,
        "cache folder .* belongs to another user; name another",
    )
    attack(
        "cache: a link of another user",
        lambda s: (move(link(s, s.cache)), give_away(s.aside / "link")),
        SENTENCE,
        FOREIGN,
    )
    attack(
        "cache: below a link of another user",
        lambda s: (move(link(s, s.cache.parent) / "cache"), give_away(s.aside / "link")),
        SENTENCE,
        FOREIGN,
    )
    attack(
        "cache: a link to a link of another user",
        lambda s: (move(link(s, "link", "first")), give_away(link(s, s.cache))),
        SENTENCE,
        FOREIGN,
    )
    attack("cache: in a folder like /tmp", lambda s: s.cache.parent.chmod(0o1777))
    attack("private folder of another user, not needed", lambda s: give_away(private()))
    relinked(
        "private folder of another user, needed",
        lambda s: (read_only(s), give_away(private())),
        SENTENCE,
        f"{NOWHERE}.*kinesym-.* belongs to another user",
    )
    relinked(
        "private folder with a planted library",
        lambda s: (
            read_only(s),
            cache.store(private() / s.so.name, s.other.read_bytes()),
            private().chmod(0o777),
        ),
        SENTENCE,
        f"{NOWHERE}.*others may",
    )
    relinked(
        "private folder: a link of another user",
        lambda s: (
            read_only(s),
            cache.private_folder().symlink_to(s.aside),
            give_away(cache.private_folder()),
        ),
        SENTENCE,
        f"{NOWHERE}.*the link .*kinesym-",
    )


def private():
    cache.private_folder().mkdir(exist_ok=True)
    return cache.private_folder()


def unwritable():
    """Caches that cannot be written, or are full."""
    attack("full cache, read only", lambda s: (read_only(s), kept(s)))
    attack(
        "full cache, read only, one damaged",
        lambda s: (spoil(s.so, DAMAGES["half"]), read_only(s)),
        WARNED,
        STORED,
    )
    attack("empty cache, read only", lambda s: (emptied(s), s.cache.chmod(0o555)), WARNED, STORED)
    relinked("objects: read only", lambda s: (s.cache / "objects").chmod(0o555), WARNED, STORED)
    attack("cache that cannot be entered", lambda s: s.cache.chmod(0), WARNED, STORED)
    relinked("private folder used again", again, WARNED, STORED)
    relinked("no space left in the cache", lambda s: full(s.cache), WARNED, "No space left")
    relinked(
        "no space left anywhere",
        lambda s: full(s.cache, s.tmp),
        SENTENCE,
        f"{NOWHERE}.*No space left",
    )
    attack("no space left, library kept", lambda s: full(s.cache, s.tmp))
    relinked(
        "no space left for the compiler",
        lambda s: script(s, "echo 'fatal error: No space left on device' >&2; exit 1"),
        SENTENCE,
        "failed on .*No space left on device",
    )
    attack("no temporary folder, library kept", no_temporary)
    attack(
        "no temporary folder to try the compiler in, library kept",
        lambda s: (no_temporary(s), building._find_compiler.cache_clear()),
    )
    relinked("no temporary folder", no_temporary, SENTENCE, "No usable temporary directory")
    for text in ("much", "-1", "0", "nan", "2 GB"):
        relinked(
            f"limit {text!r}",
            lambda s, t=text: os.environ.update(KINESYM_CACHE_LIMIT=t),
            SENTENCE,
            "KINESYM_CACHE_LIMIT must be a number of megabytes above 0",
        )
    for text in ("1e-9", "inf", "", " 100 "):
        relinked(f"limit {text!r}", lambda s, t=text: os.environ.update(KINESYM_CACHE_LIMIT=t))


def again(s):
    read_only(s)
    answer()
    assert cache.private_folder().stat().st_mode & 0o777 == 0o700
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept(s)


def compilers():
    """No compiler, or a useless one."""
    attack("no compiler, full cache", lambda s: (bare(s), kept(s)))
    attack("no compiler, full cache, read only", lambda s: (read_only(s), bare(s), kept(s)))
    attack("no compiler, full cache, no temporary folder", lambda s: (bare(s), no_temporary(s)))
    attack(
        "no compiler, library damaged",
        lambda s: (bare(s), spoil(s.so, DAMAGES["half"])),
        SENTENCE,
        NO_LIBRARY,
    )
    attack(
        "no compiler, cache of a lesser processor",
        lambda s: (bare(s), processor(lambda here: here | {"more"})),
    )
    attack(
        "no compiler, cache of a better processor",
        lambda s: (bare(s), processor(lambda here: frozenset(sorted(here)[1:]))),
        SENTENCE,
        NONE,
    )
    attack(
        "no compiler, cache of another C library",
        lambda s: (bare(s), setattr(building.platform, "libc_ver", lambda: ("glibc", "2.1"))),
        SENTENCE,
        NO_LIBRARY,
    )
    attack("no compiler, empty cache", lambda s: (bare(s), emptied(s)), SENTENCE, NONE)
    for name in ("empty", "half", "a bit of the head", "random", "text"):
        attack(
            f"no compiler, memory of compilers: {name}",
            lambda s, n=name: (bare(s), spoil(s.json, DAMAGES[n])),
            SENTENCE,
            NONE,
        )
    attack(
        "no compiler, memory of another version",
        lambda s: (bare(s), cache.store(s.json, b'{"processor": 1}')),
        SENTENCE,
        NONE,
    )
    for text, words in {
        "   ": "variable CC, '   ', holds no words; name a C compiler",
        "''": "holds no words; name a C compiler",
        "'": "cannot be read .No closing quotation.; name a C compiler",
        'gcc "-O2': "cannot be read .No closing quotation.",
        "no-such-compiler": "no-such-compiler named by CC was not found; install",
        "/nowhere/gcc": "/nowhere/gcc named by CC was not found",
        "/tmp": "/tmp named by CC was not found",
        "true": NOTHING,
        "false": "failed on",
        f"{CC} -E": NOTHING,
        f"{CC} -fsyntax-only": NOTHING,
        f"{CC} --version": NOTHING,
        f"{CC} -S": f"failed on|{NOTHING}",
        f"{CC} -no-such-option": "no-such-option",
    }.items():
        attack(f"CC={text}", lambda s, t=text: os.environ.update(CC=t), SENTENCE, words)
    attack(
        "CC: for another machine",
        lambda s: (script(s, ""), (s.aside / "mycc").write_bytes(b"\x7fELF" + bytes(100))),
        SENTENCE,
        "mycc cannot be tried: .*Exec format error",
    )
    attack("CC: writes text for libraries", lambda s: script(s, TEXT), SENTENCE, f"{NOWHERE}.*CC")
    attack(
        "CC: complains in no encoding",
        lambda s: script(s, r"printf '\377\376\300' >&2; exit 1"),
        SENTENCE,
        "failed on",
    )
    attack(
        "CC: relative",
        lambda s: (script(s, f'exec {CC} "$@"'), os.chdir(s.aside), os.environ.update(CC="./mycc")),
    )


TEXT = f'case "$*" in *library.so*) echo nonsense > library.so;; *) exec {CC} "$@";; esac'


def processor(change):
    here = change(building.abilities())
    building.abilities = lambda: here


def crowds():
    """Many processes at once."""
    attack("eight processes on an empty cache", lambda s: (shutil.rmtree(s.cache), eight(s)))
    attack(
        "eight processes on damaged files",
        lambda s: (spoil(s.so, DAMAGES["half"]), spoil(s.units[0], DAMAGES["zeros"]), eight(s)),
    )


def eight(s):
    code = f"from kinesym.runtime.library.build import build; print(build({program(7)!r})[0].lanes)"
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    many = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert [one.communicate()[0] for one in many] == ["7\n"] * 8
    assert not [*s.cache.glob("*.lock"), *s.cache.rglob("kinesym-work-*")]


for section in (files, locks, folders, owners, unwritable, compilers, crowds):
    section()


# -- running it ----------------------------------------------------------------------------------


def obey_modes():
    """Modes of files bind root as they bind everybody."""
    if os.geteuid() == 0 and sys.platform == "linux":
        header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        library = ctypes.CDLL(None, use_errno=True)
        assert library.capget(header, sets) == 0
        for part in range(2):  # effective, permitted
            sets[part] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        assert library.capset(header, sets) == 0


def attempt(do, folder):
    """How an attack ends, and the sentence or the warnings."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            do(scene(folder))
            number, once_more = answer()[0], answer()
        except (CompilerError, CacheError) as error:
            return SENTENCE, str(error)
        except BaseException as error:
            return "raised", repr(error)
    if number != 7 or once_more != (7, False):
        return "wrong", f"{number}, then {once_more}"
    said = {str(warning.message) for warning in heard}
    return (WARNED, "\n".join(said)) if said else (RIGHT, "")


def run(name, template, folder):
    """One attack in a process of its own, on a copy of the cache."""
    folder.mkdir()
    shutil.copytree(template, folder / "cache")
    child = os.fork()
    if child == 0:
        signal.alarm(LONGEST)
        end = attempt(ATTACKS[name][0], folder)
        Path(f"{folder}.json").write_text(json.dumps(end))
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        died = os.WTERMSIG(status)
        return "hung" if died == signal.SIGALRM else "crashed", signal.Signals(died).name
    return json.loads(Path(f"{folder}.json").read_text())


def main(folder):
    """Run all attacks; what each ends in, as JSON on the last line."""
    obey_modes()
    os.umask(0o022)
    for name in ("CC", "KINESYM_CACHE_LIMIT"):
        os.environ.pop(name, None)
    template = Path(folder) / "template"
    move(template)
    for number in (7, 5):
        answer(number)
    ends = {name: run(name, template, Path(folder) / f"{k}") for k, name in enumerate(ATTACKS)}
    kinds = Counter(kind for kind, _ in ends.values())
    kinds[RIGHT] += kinds.pop(WARNED, 0)
    counts = (f"{kinds.pop(kind, 0)} {kind}" for kind in (RIGHT, SENTENCE, "crashed", "hung"))
    print(f"tried {len(ends)}: {', '.join(counts)}, {sum(kinds.values())} other")
    print(json.dumps(ends))


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    command = [sys.executable, __file__, str(tmp_path_factory.mktemp("attacks"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.study
@pytest.mark.parametrize("name", ATTACKS)
def test_attack(name, ends):
    _, expected, pattern = ATTACKS[name]
    kind, words = ends[name]
    assert kind == expected, words
    assert re.search(pattern, words, re.DOTALL), words


if __name__ == "__main__":
    main(sys.argv[1])
