"""How fast is exported C, against CasADi's, and does it keep a loop of 1 kHz?

Ten links on a cart, 22 states: x', its derivatives by the states, a step of the classical
Runge-Kutta method, and one with its derivatives. *kinesym* is what
`ks.export` writes, *CasADi* the C of its code generator from the closed form of `stepping.py`, all
operations unrolled (SX), with common subexpressions shared. Both must give the same numbers. One
program calls both, in turns; nanoseconds of CPU per call, the least of 20 rounds. A step with
derivatives by states, parameters and the force has no peer here: unrolled by CasADi, it is a
function that gcc takes longer than ten minutes to compile.

In the loop a step is taken every millisecond, as a controller would: the time of each, and how late
it is done, in microseconds, on an ordinary kernel without priority.

    python benchmarks/exported.py [--seconds 10]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from record import table
from report import leave, machine, number, parsed, ratio
from stepping import NODES, WEIGHTS, chain_form

import kinesym as ks
from kinesym.codegen.exported import exported_functions
from kinesym.runtime.library.build import find_compiler

FLAGS = ["-O3", "-march=native"]
#: What is called, in the order of the program.
TASKS = ("x'", "derivatives of x' by the states", "step", "step with derivatives")
#: A program of POSIX around both.
PROGRAM = r"""
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "n_link_10.h"
#include "theirs.h"

enum { N = N_LINK_10_N_STATES, Q = N + N_LINK_10_N_INPUTS + N_LINK_10_N_PARAMETERS };
static double x[N], u[1] = {0.3}, p[N_LINK_10_N_PARAMETERS], h = 0.001, ours[N*Q], more[N*Q];
static const double *given[] = {x, u, p};
static double theirs[N*Q], others[N*Q], w[1000000];
static casadi_int iw[10000];

static void rhs(void) { n_link_10_rhs(x, u, p, 0, ours); }
static void jacobian(void) { n_link_10_rhs_jacobian_states(x, u, p, 0, ours); }
static void step(void) { n_link_10_step_rk4(x, u, p, 0, h, ours); }
static void derived(void) { n_link_10_step_rk4_sensitivities(x, u, p, 0, h, ours, more); }
"""
MAIN = r"""
static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return 1e9*(double)t.tv_sec + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static void loop(int count) {
    double *took = malloc(sizeof *took*(size_t)count), *late = malloc(sizeof *late*(size_t)count);
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (int k = 0; k < count; k++) {
        due.tv_nsec += 1000000;
        if (due.tv_nsec >= 1000000000) due.tv_nsec -= 1000000000, due.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        const double begin = now(CLOCK_MONOTONIC);
        n_link_10_step_rk4(x, u, p, 0.001*k, h, ours);
        for (int i = 0; i < N; i++) x[i] = ours[i];
        const double end = now(CLOCK_MONOTONIC);
        took[k] = (end - begin)/1e3;
        late[k] = (end - 1e9*(double)due.tv_sec - (double)due.tv_nsec)/1e3;
    }
    qsort(took, (size_t)count, sizeof *took, by_size);
    qsort(late, (size_t)count, sizeof *late, by_size);
    printf("loop %g %g %g %g %g %g\n", took[count/2], took[count - 1 - count/1000],
        took[count - 1], late[count/2], late[count - 1 - count/1000], late[count - 1]);
}

int main(int argc, char **argv) {
    void (*const mine[])(void) = {rhs, jacobian, step, derived};
    void (*const peers[])(void) = {their_rhs, their_jacobian, their_step, NULL};
    const int sizes[] = {N, their_entries, N, N}, calls[] = {2000, 400, 500, 40};
    (void)argc;
    for (int i = 0; i < N; i++) x[i] = i > 0 && i < 11 ? 3.14159 + 0.2*sin(i - 1) : 0.01*i;
    for (int i = 0; i < N_LINK_10_N_PARAMETERS; i++) p[i] = n_link_10_parameter_values[i];
    for (int task = 0; task < 4; task++) {
        double least[2] = {INFINITY, INFINITY}, error = 0, size = 0;
        mine[task]();
        if (peers[task]) peers[task]();
        for (int k = 0; k < sizes[task] && peers[task]; k++) {
            error = fmax(error, fabs(ours[k] - theirs[k]));
            size = fmax(size, fabs(ours[k]));
        }
        for (int round = 0; round < 20; round++)
            for (int who = 0; who < 2; who++) {
                if (who && !peers[task]) continue;
                const double begin = now(CLOCK_PROCESS_CPUTIME_ID);
                for (int k = 0; k < calls[task]; k++) (who ? peers : mine)[task]();
                const double each = (now(CLOCK_PROCESS_CPUTIME_ID) - begin)/calls[task];
                least[who] = fmin(least[who], each);
            }
        printf("task %g %g %g\n", least[0], least[1], size > 0 ? error/size : 0);
    }
    loop(atoi(argv[1]));
    return 0;
}
"""


def theirs(folder: Path) -> list[Any]:
    """CasADi's functions, and their C."""
    rates, n = chain_form(10, ca.sin, ca.cos, lambda f: f), 22
    r = len(ks.models.n_link_pendulum_on_cart(10).parameters)
    x, u, p = (ca.SX.sym(name, count) for name, count in (("x", n), ("u", 1), ("p", r)))
    out, work = np.full(n, ca.SX(0)), np.full((n, n), ca.SX(0))
    rates(ca.vertsplit(x), u, ca.vertsplit(p), out, work)
    slope = ca.vertcat(*out)
    f = ca.Function("f", [x, u, p], [slope])
    end, point = x, x
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        k = f(point, u, p)
        end, point = end + weight * 0.001 * k, x + node * 0.001 * k
    share = {"cse": True}
    functions = [
        ca.Function("their_rhs_", [x, u, p], [slope], share),
        ca.Function("their_jacobian_", [x, u, p], [ca.jacobian(slope, x)], share),
        ca.Function("their_step_", [x, u, p], [end], share),
    ]
    generator = ca.CodeGenerator("theirs", {"with_header": True})
    for function in functions:
        generator.add(function)
    generator.generate(f"{folder}/")
    return functions


def program(functions: list[Any]) -> str:
    """The text of the program, with a wrapper of each of CasADi's functions."""
    wrappers = "".join(
        f"static void {f.name()[:-1]}(void) {{\n    double *results[] = {{theirs, others}};\n"
        f"    {f.name()}(given, results, iw, w, 0);\n}}\n"
        for f in functions
    )
    entries = f"enum {{ their_entries = {functions[1].nnz_out(0)} }};\n"
    return PROGRAM + wrappers + entries + MAIN


def built(folder: Path) -> tuple[Path, list[Any]]:
    """The program, compiled, and CasADi's functions."""
    ks.export(ks.models.n_link_pendulum_on_cart(10), folder / "ours")
    functions = theirs(folder)
    (folder / "program.c").write_text(program(functions))
    ours = [folder / "ours" / f"n_link_10{part}.c" for part in ("", "_jacobians", "_rk4", "_data")]
    command = [*find_compiler().command, "-std=gnu99", *FLAGS, f"-I{folder}", f"-I{folder}/ours"]
    made = folder / "program"
    files = [folder / "program.c", folder / "theirs.c", *ours]
    subprocess.run([*command, *files, "-o", made, "-lm"], check=True)
    return made, functions


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of the loop (default: 10)")
    given = parsed(parser)
    words = machine("casadi")
    with tempfile.TemporaryDirectory() as name:
        made, functions = built(Path(name))
        count = 200 if given.quick else round(1000 * given.seconds)
        said = subprocess.run([made, str(count)], capture_output=True, text=True, check=True)
    kernels = exported_functions(ks.models.n_link_pendulum_on_cart(10))
    operations = {f.kernel.name: f.kernel.operations for f in kernels}
    mine = [operations["rhs"], operations["rhs_jacobian_states"], None, None]
    lines = [line.split() for line in said.stdout.splitlines()]
    rows, results = [], []
    for task, own, f, line in zip(TASKS, mine, [*functions, None], lines, strict=False):
        ours, peer, error = map(float, line[1:])
        if error > 1e-9:
            raise ValueError(f"{task}: CasADi differs by {error}")
        counts = [number(own) if own else "-", number(f.n_instructions()) if f else "-"]
        compared = [number(peer), ratio(peer, ours)] if f else ["-", "-"]
        rows.append([task, number(ours), *compared, *counts])
        results.append({"task": task, "kinesym": ours, "CasADi": peer})
    header = ["function", "kinesym [ns]", "CasADi [ns]", "ratio", "operations", "CasADi's"]
    loop = [float(v) for v in lines[-1][1:]]
    times = [[what, *map(number, loop[k : k + 3])] for what, k in (("a step", 0), ("done", 3))]
    parts = [
        table(header, rows),
        f"The loop of {count} steps at 1 kHz [us]:",
        table(["", "median", "99.9 %", "longest"], times),
    ]
    leave(given, "exported", words, parts, results)


if __name__ == "__main__":
    main()
