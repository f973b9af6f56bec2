"""Command line: kinesym list | run | export | study | verify | rerun | bench | doctor | cache."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import pkgutil
import select
import subprocess
import sys
import traceback
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, get_args, get_origin

# What only one command needs is imported there: an example should not wait for it.
from kinesym import examples
from kinesym.base.extras import NotInstalled, required
from kinesym.base.files import content_of
from kinesym.base.lazy import docstring_of, homes_of
from kinesym.examples import gallery, studies
from kinesym.runtime.library.cache import CacheError, cache_folder, clear, summary

#: Most failures that are listed.
_FAILURES = 20
#: The status of a command whose output is no longer read, as shells give it: 128 + SIGPIPE.
_CLOSED = 141


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the command `kinesym`; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = _parser(next((word for word in given if not word.startswith("-")), ""))
    options, own = parser.parse_known_args(given)
    if own and options.action is not _run:
        parser.error(f"unrecognized arguments: {' '.join(own)}")
    options.own = own
    try:
        status = int(options.action(options))
        print(end="", flush=True)
    except BrokenPipeError:
        if not _reader_left():
            raise
        return _CLOSED
    except (NotInstalled, ValueError, OSError) as error:  # what was given, in a sentence
        return _refused(_sentence(error))
    return status


def _reader_left() -> bool:
    """Whether nobody reads what is printed any more, as after `kinesym list | head`; what is left
    of it goes nowhere then."""
    output = select.poll()
    output.register(sys.stdout.fileno(), 0)
    left = bool(output.poll(0))
    if left:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return left


def _sentence(error: Exception) -> str:
    """An error in words; those of the system as what they are about, and why."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror.lower()}"
    return str(error)


def _parser(command: str) -> argparse.ArgumentParser:
    """Parser of all commands; the options of one whose code knows them are there if it is that."""
    parser = argparse.ArgumentParser(
        prog="kinesym",
        description="Symbolic models of motion, compiled to C, identified from data.",
    )
    parser.add_argument("--version", action="version", version=version("kinesym"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="models and examples")
    listing.set_defaults(action=_list)
    run = commands.add_parser("run", help="run an example", add_help=False)
    run.add_argument("example", help="one of those that `kinesym list` shows", nargs="?")
    run.add_argument("-h", "--help", action="store_true", help="this, and options of the example")
    run.add_argument("--nodes", type=int, help="number of nodes, for a quick look")
    run.add_argument("--out", type=Path, default=Path("."), help="folder for pictures")
    run.epilog = "an example may have options of its own: kinesym run EXAMPLE --help"
    run.set_defaults(action=_run, parser=run)
    _add_export(commands, command == "export")
    _add_study(commands)
    for name, action, told in (
        ("verify", _verify, "check a bundle, which kinesym.bundle wrote, without solving"),
        ("rerun", _rerun, "solve the problem of a bundle again"),
    ):
        part = commands.add_parser(name, help=told)
        part.add_argument("file", type=Path, help="such as fit.kin")
        part.set_defaults(action=action)
    bench = commands.add_parser("bench", help="measure speed, against other packages")
    bench.add_argument(
        "name",
        nargs="?",
        default="report",
        help="a file of benchmarks/, or a Python file with a problem of your own; without one, "
        "all of benchmarks/, into a report",
    )
    bench.add_argument("rest", nargs=argparse.REMAINDER, help="its own options, such as --quick")
    bench.set_defaults(action=_bench)
    doctor = commands.add_parser("doctor", help="what works here, and what to do about the rest")
    doctor.set_defaults(action=_doctor)
    kept = commands.add_parser("cache", help="built libraries: where they are, how much they take")
    kept.add_argument("--clear", action="store_true", help="remove them; they are built again")
    kept.set_defaults(action=_cache)
    return parser


def _add_export(commands: Any, asked: bool) -> None:
    export = commands.add_parser("export", help="write the code of a model, for other programs")
    export.add_argument(
        "model",
        help="one that `kinesym list` shows, a file that `Model.write` wrote, or FILE.py:NAME, a "
        "model or a function that makes it",
    )
    export.add_argument("folder", type=Path, help="a new folder, or one written before")
    export.add_argument("--target", default="c99", help="a language or format (c99, fmu)")
    export.set_defaults(action=_export, given=())
    if not asked:
        return
    from kinesym.exporting import options_of_files

    told = {str: str, int: int, float: float}
    options = options_of_files()
    for name, kind in options.items():
        inner = next((each for each in get_args(kind) if each is not NoneType), kind)
        words = f"see {name} of kinesym.export"
        if inner in told:
            export.add_argument(f"--{name}", type=told[inner], help=words)
        elif get_origin(inner) is Mapping:
            pairs = {"nargs": "+", "metavar": "NAME=VALUE", "type": _pair}
            export.add_argument(f"--{name}", help=words, **pairs)
    export.set_defaults(given=tuple(options))


def _pair(text: str) -> tuple[str, float]:
    """A name and its number."""
    name, _, value = text.rpartition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"write NAME=VALUE, got {text!r}")
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"the value of {name} is no number: {value!r}") from None


def _export(options: argparse.Namespace) -> int:
    from kinesym.exporting import export

    every = {name: getattr(options, name, None) for name in options.given}
    given = {k: dict(v) if isinstance(v, list) else v for k, v in every.items() if v is not None}
    print(export(_model(options.model), options.folder, options.target, **given))
    return 0


def _model(text: str) -> Any:
    """The model of a name: a ready-made one, or what a file has. Raises `ValueError`."""
    from kinesym import models

    path, _, name = text.rpartition(":")
    if path:
        home: Any = _loaded(Path(path))
        there = [key for key in vars(home) if not key.startswith("_")]
    elif Path(text).suffix == ".json":
        from kinesym.symbolic.hybrid.model import read_system

        return read_system(text)
    elif Path(text).suffix == ".py":
        raise ValueError(f"name the model in it, or the function that makes it: {text}:NAME")
    else:
        name, home, there = text, models, sorted(homes_of(str(models.__file__)))
    if name not in there:
        where = path or "kinesym.models"
        raise ValueError(f"{where} has no {name}; it has {', '.join(there)}")
    found = getattr(home, name)
    try:
        return found() if callable(found) else found
    except TypeError as error:
        raise ValueError(
            f"{error}; make the model in a function without arguments, FILE.py:NAME"
        ) from error


def _checked(script: Path) -> None:
    """Raise `ValueError`, or `OSError` in a sentence, for what is no Python file."""
    content = content_of(script)
    try:
        compile(content, script, "exec")
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.lineno else ""
        raise ValueError(f"{script} is no Python file: {at}{error.msg}") from error
    except ValueError as error:  # null bytes
        raise ValueError(f"{script} is no Python file: {error}") from error


def _loaded(script: Path) -> ModuleType:
    """A script as a module. What it says of its arguments is said with its line."""
    _checked(script)
    path = str(script.absolute())
    loader = SourceFileLoader("kinesym_script", path)
    spec = importlib.util.spec_from_file_location(loader.name, path, loader=loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    try:
        loader.exec_module(made)
    except (ValueError, OSError) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == path]
        at = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"{script}{at}: {_sentence(error)}") from error
    return made


def _add_study(commands: Any) -> None:
    parts = commands.add_parser("study", help="run a study, or see how far it is")
    actions = parts.add_subparsers(required=True, metavar="ACTION")
    run = actions.add_parser("run", help="run the tasks that a script adds to its studies")
    run.add_argument("script", type=Path, help="a Python file that makes a kinesym.Study")
    run.add_argument("--workers", type=int, help="processes; default: one per core")
    run.add_argument("--retries", type=int, default=1, help="of a task that fails (1)")
    run.add_argument("--timeout", type=float, help="of a task [s]")
    run.add_argument("--resume", action="store_true", help="go on with a study that has begun")
    run.set_defaults(action=_run_study)
    status = actions.add_parser("status", help="how many tasks are done, and which have failed")
    status.add_argument("folder", type=Path, help="the folder of a study")
    status.set_defaults(action=_study_status)


def _run_study(options: argparse.Namespace) -> int:
    from kinesym.study import Study

    pickles = required("cloudpickle")
    made = _loaded(options.script)
    pickles.register_pickle_by_value(made)  # workers cannot import it
    studies = [value for value in vars(made).values() if isinstance(value, Study)]
    if not studies:
        return _refused(
            f"{options.script} makes no study: a line like study = kinesym.Study('folder'), and "
            "tasks, outside of functions and of if __name__ == '__main__'"
        )
    for study in studies:
        begun = sum(study.counts().values()) - study.counts().get("pending", 0)
        if begun and not options.resume:
            return _refused(f"{study} has begun: add --resume to go on, or name another folder")
        study.run(workers=options.workers, retries=options.retries, timeout=options.timeout)
        print(study)
    return 0 if all({*study.counts()} <= {"done"} for study in studies) else 1


def _study_status(options: argparse.Namespace) -> int:
    from kinesym.study import Study

    if not (options.folder / "index.sqlite").is_file():
        return _refused(f"there is no study in {options.folder}")
    study = Study(options.folder)
    table = study.table()
    print(study)
    if "message" in table:
        failed = table[table["message"] != ""]
        labels = list(table.columns[: list(table.columns).index("status")])
        for _, row in failed.head(_FAILURES).iterrows():
            print(f"  {', '.join(f'{k}={row[k]}' for k in labels)}: {row['message']}")
        if len(failed) > _FAILURES:
            print(f"  and {len(failed) - _FAILURES} more")
    return 0


def example_names(folder: ModuleType = examples) -> list[str]:
    """Names of the examples in a folder, without those in folders within."""
    return sorted(m.name for m in pkgutil.iter_modules(folder.__path__) if not m.ispkg)


def _examples() -> dict[str, str]:
    """Modules of all examples, by name."""
    return {
        name: f"{folder.__name__}.{name}"
        for folder in (examples, studies, gallery)
        for name in example_names(folder)
    }


def _list(options: argparse.Namespace) -> int:
    from kinesym import models

    found, homes = _examples(), homes_of(str(models.__file__))
    width = max(map(len, (*homes, *found)))
    print("models (kinesym.models)")
    for name, home in sorted(homes.items()):
        print(f"  {name:<{width}} {docstring_of(home, name).splitlines()[0]}")
    print("examples (kinesym run NAME)")
    for name, path in found.items():
        print(f"  {name:<{width}} {docstring_of(path).splitlines()[0]}")
    return 0


def _refused(words: str, status: int = 2) -> int:
    print(words, file=sys.stderr)
    return status


def _run(options: argparse.Namespace) -> int:
    found = _examples()
    if options.example is None:
        options.parser.print_help()
        return 0 if options.help else 2
    if options.example not in found:
        there = ", ".join(found)
        return _refused(f"there is no example {options.example}; there are {there}")
    if options.nodes is not None and options.nodes < 2:
        return _refused(f"--nodes must be at least 2, got {options.nodes}")
    if options.out.exists() and not options.out.is_dir():
        return _refused(f"--out {options.out} is a file; name a folder")
    os.environ.setdefault("MPLBACKEND", "Agg")  # pictures go to files
    module = importlib.import_module(found[options.example])
    own = argparse.ArgumentParser(
        prog=f"kinesym run {options.example} [--nodes NODES] [--out OUT]",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    getattr(module, "add_arguments", lambda parser: None)(own)
    if options.help:
        own.print_help()
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    given = vars(own.parse_args(options.own))
    try:
        for path in module.main(options.out, options.nodes, **given):
            print(f"wrote {path}")
    except (KeyError, ImportError) as error:  # what was given, in a sentence
        return _refused(str(error.args[0]) if isinstance(error, KeyError) else str(error))
    return 0


def _verify(options: argparse.Namespace) -> int:
    from kinesym.bundles import Bundle

    verdict = Bundle.read(options.file).verify()
    print(verdict)
    return 0 if verdict.holds else 1


def _rerun(options: argparse.Namespace) -> int:
    from kinesym.bundles import Bundle

    given = Bundle.read(options.file)
    found = given.rerun()
    print(found)
    print(f"objective as recorded: {given.solution.objective:.10g}, now: {found.objective:.10g}")
    return 0 if found.success else 1


def _bench(options: argparse.Namespace) -> int:
    """Benchmarks come with the sources, whose package is the folder api/."""
    package = Path(__file__).resolve().parent
    folder = package.with_name("benchmarks")
    names = sorted(path.stem for path in folder.glob("*.py")) if package.name == "api" else []
    if not names:
        return _refused(
            "the benchmarks come with the sources of kinesym, not with the installed package; "
            f"get the sources, and run 'make setup' and '.venv/bin/kinesym bench {options.name}' "
            "there"
        )
    own = options.name.endswith(".py")
    if not own and options.name not in names:
        return _refused(
            f"there is no benchmark {options.name}; there are {', '.join(names)}; a problem of "
            "your own is named by its file, such as mine.py"
        )
    if own:
        _checked(Path(options.name))
    script, rest = ("own", [options.name, *options.rest]) if own else (options.name, options.rest)
    command = [sys.executable, str(folder / f"{script}.py"), *rest]
    return subprocess.run(command, check=False).returncode


def _doctor(options: argparse.Namespace) -> int:
    from kinesym.doctor import diagnosis

    healthy = True
    for name, good, text in diagnosis():
        print(f"{'ok     ' if good else 'MISSING'} {name:<15} {text}")
        healthy = healthy and good
    return 0 if healthy else 1


def _cache(options: argparse.Namespace) -> int:
    folder = cache_folder()
    try:
        print(summary(folder))
    except CacheError as error:
        return _refused(str(error), 1)
    if not options.clear:
        return 0
    left = clear(folder)
    if left:
        return _refused(f"{left} files in {folder} cannot be removed; are they yours?", 1)
    print("removed")
    return 0
