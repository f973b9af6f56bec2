"""Ctrl-C in the middle of every kind of work: what is there comes back, or KeyboardInterrupt, soon.

The work is done in a process of its own, which is sent the signal from outside. It would all take
minutes at least.
"""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: What all kinds share; then of each kind what is prepared, what is interrupted, and what is said.
#: A first iteration derives and compiles all that is needed.
PREAMBLE = """
import numpy as np, sympy as sp, kinesym as ks
from kinesym import hybrid as kh

t = ks.t
x, v, u = ks.dynamicsymbols("x v u")
k, c = sp.symbols("k c")
swing = ks.Model("swing", [x, v], [], [k, c], [x.diff(t) - v, v.diff(t) + k * sp.sin(x) + c * v],
                 values={k: 4.0, c: 0.1})
driven = ks.Model("driven", [x, v], [u], [], [x.diff(t) - v, v.diff(t) + 9.81 * sp.sin(x) - u])
decay = ks.Model("decay", [x], [], [k], [x.diff(t) + k * x])
toy = kh.Hybrid(swing)
start = {x: 0.5, v: 0.0}
far = 2_000_000_000

def measured(nodes):
    time = np.linspace(0.0, 500.0, nodes)
    return ks.Experiment(time, measurements={x: np.sin(time)})

def shooting(nodes):
    return ks.Shooting(swing, measured(nodes), {k: (0.1, 9.0), c: (0.0, 9.0)}, initial=start)

def swing_up(nodes):
    ends = [ks.at_start(x), ks.at_start(v), ks.at_end(x) - sp.pi, ks.at_end(v)]
    return ks.Collocation(driven, ks.Experiment(np.linspace(0.0, 2.5, nodes)), boundary=ends,
                          objective=ks.Integral(u**2), unknown_inputs={u: (-6, 6)})

def ball():
    y, w, lam = ks.dynamicsymbols("y w lam")
    model = ks.Model("ball", [y, w], [lam], [], [y.diff(t) - w, w.diff(t) + 9.81 - lam])
    floor = kh.Contact("floor", y, lam, restitution=1.0)
    return kh.Hybrid(model, contacts=[floor]), {y: 1.0, w: 0.0}

def forever(function, *arguments):
    while True:
        function(*arguments)
"""

SAID_RUN = "returned: interrupted at t = "
SAID_FIT = "returned: interrupted: this is the best iterate"
CLEAN = "KeyboardInterrupt"
KINDS = {
    "rk4": (
        "ks.simulate(swing, [0.0, 1e-3], start)",
        "ks.simulate(swing, [0.0, 1.0], start, substeps=far).message",
        SAID_RUN,
    ),
    "rk4, many nodes": (
        "",
        "ks.simulate(swing, np.linspace(0, 1, 100_001), start, substeps=far // 1000).message",
        SAID_RUN,
    ),
    "trapezoid": (
        "ks.simulate(swing, [0.0, 1e-3], start, method='trapezoid')",
        "ks.simulate(swing, [0.0, 1.0], start, substeps=far, method='trapezoid').message",
        SAID_RUN,
    ),
    "dormand-prince": (
        "ks.simulate(decay, [0, 1], {x: 1.0}, {k: 1.0}, method='dormand-prince')",
        "ks.simulate(decay, np.linspace(0, 2, 201), {x: 1.0}, {k: 1e9}, method='dormand-prince')"
        ".message",
        SAID_RUN,
    ),
    "ensemble": (
        "many = {x: np.linspace(0, 1, 999), v: 0.0}; ks.simulate(swing, [0.0, 1e-3], many)",
        "ks.simulate(swing, [0.0, 1.0], many, substeps=far).failures[0].message",
        SAID_RUN,
    ),
    "ensemble with one stiff member": (
        "rates = np.append(np.ones(99), 1e9);"
        "ks.simulate(decay, [0, 1e-9], {x: 1.0}, {k: rates}, method='dormand-prince')",
        "ks.simulate(decay, np.linspace(0, 2, 201), {x: 1.0}, {k: rates}, method='dormand-prince')"
        ".failures[-1].message",
        SAID_RUN,
    ),
    "hybrid": (
        "ks.simulate(toy, [0.0, 1.0], start)",
        "ks.simulate(toy, [0.0, 1e9], start).message",
        SAID_RUN,
    ),
    "hybrid with impacts": (
        "jumper, begin = ball(); ks.simulate(jumper, [0.0, 1.0], begin)",
        "ks.simulate(jumper, [0.0, 1e9], begin, method='rk4', substeps=10**10).message",
        SAID_RUN,
    ),
    "hybrid ensemble": (
        "",
        "ks.simulate(toy, [0.0, 1e9], {x: np.linspace(0, 1, 20), v: 0.0}).member(19).message",
        SAID_RUN,
    ),
    "sensitivities": (
        "ks.sensitivities(toy, [0.0, 1.0], start)",
        "ks.sensitivities(toy, [0.0, 1e9], start).run.message",
        SAID_RUN,
    ),
    "gradient by shooting": (
        "task = shooting(100_001); at = task.pack({k: 4.0, c: 0.1})",
        "forever(lambda: task.gradient(at * (1.0 + 1e-9 * np.random.rand())))",
        CLEAN,
    ),
    "steepest descent": (
        "task = shooting(100_001);"
        "task.solve({k: 4.0, c: 0.1}, 'steepest-descent', max_iterations=1)",
        "task.solve({k: 4.0, c: 0.1}, 'steepest-descent', tolerance=1e-300, max_iterations=10**6)"
        ".message",
        SAID_FIT,
    ),
    "shooting by IPOPT": (
        "task = shooting(100_001); task.solve({k: 4.0, c: 0.1}, 'ipopt', max_iterations=1)",
        "task.solve({k: 4.0, c: 0.1}, 'ipopt', tolerance=1e-300, max_iterations=10**6,"
        "options={'acceptable_iter': 0, 'tiny_step_tol': 0.0}).message",
        SAID_FIT,
    ),
    "hybrid shooting": (
        "task = ks.Shooting(toy, measured(20_001), {k: (0.1, 9.0)}, initial=start);"
        "task.solve({k: 4.0}, 'least-squares', max_iterations=1)",
        "task.solve({k: 4.0}, 'least-squares', tolerance=1e-300, max_iterations=10**6).message",
        SAID_FIT,
    ),
    "collocation": (
        "task = swing_up(100_001)",
        "task.solve(max_iterations=10**6).message",
        "returned: after .*: interrupted: this is the last iterate",
    ),
    "collocation through cyipopt": (
        "task = swing_up(20_001)",
        "task.solve(driver='cyipopt', linear_solver='mumps', max_iterations=10**6).message",
        "returned: after .*: interrupted: this is the last iterate",
    ),
}

#: Waits for the name of a kind, prepares it, says so, and does it.
WORKER = """
import signal, sys, warnings
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("ignore")
while True:
    prepared, work = sys.stdin.readline().split("|")
    exec(prepared)
    print("ready", flush=True)
    try:
        print("returned:", eval(work), flush=True)
    except KeyboardInterrupt:
        print("KeyboardInterrupt", flush=True)
    except BaseException as error:
        print(repr(error), flush=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""

#: Processor time after which the work is well under way, that which may pass until the signal is
#: heard, and time on a busy machine [s].
UNDER_WAY, SOON, PATIENCE = 1.0, 3.0, 240.0


class Worker:
    """The process, started anew after it had to be ended."""

    def __init__(self):
        self.process = None

    def answer(self):
        """The next line, and the processor time until then; none if there is no answer."""
        began, spent = time.monotonic(), self.spent()
        while time.monotonic() - began < PATIENCE:
            if select.select([self.process.stdout], [], [], 0.05)[0]:
                line = self.process.stdout.readline().strip()
                if line:
                    return line, self.spent() - spent
                break
        self.end()
        return "no answer", PATIENCE

    def work_on(self):
        """Wait until the process has been at work for some processor time."""
        began, spent = time.monotonic(), self.spent()
        while self.spent() - spent < UNDER_WAY and time.monotonic() - began < PATIENCE:
            time.sleep(0.02)

    def spent(self):
        """By the process so far [s]; where the system does not say, it is the time of the day."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():
            return time.monotonic()
        ticks = stat.read_text().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def ask(self, prepared, work):
        if self.process is None:
            code = PREAMBLE + WORKER
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self.process.stdin.write(f"{prepared}|{work}\n")
        self.process.stdin.flush()

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
        self.process = None


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    yield made
    made.end()


@pytest.mark.parametrize("kind", KINDS)
def test_interrupt(worker, kind):
    prepared, work, expected = KINDS[kind]
    worker.ask(prepared, work)
    assert worker.answer()[0] == "ready"
    worker.work_on()
    worker.process.send_signal(signal.SIGINT)
    said, spent = worker.answer()
    assert re.match(expected, said), said
    assert spent < SOON
