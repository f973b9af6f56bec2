"""C of exported problems that hardly depends on the problem: the loop over points, programs that
call the functions, and how they are built."""

from __future__ import annotations

from collections.abc import Mapping

from kinesym.codegen.c99 import Style

_HEADER = """\
#ifndef UPPER_H
#define UPPER_H
#ifdef __cplusplus
extern "C" {
#endif

#define UPPER_N_VARIABLES {N_Z}
#define UPPER_N_CONSTRAINTS {N_C}
#define UPPER_N_JACOBIAN {N_J}
#define UPPER_N_HESSIAN {N_H}

/* z
{VARIABLES} *
 * constraints: place of the first, kind of points; each constraint at all points of its kind
{CONDITIONS} */

{ARRAYS}
/* All functions return 0, or 1 if a value is not finite; they keep nothing between calls. */
int PREFIX_cost(const double *z, double *cost);
int PREFIX_gradient(const double *z, double *gradient);
int PREFIX_constraints(const double *z, double *constraints);

/* Derivatives of the constraints: values, and their rows and columns, from 0. An entry may be there
 * more than once: it is the sum. */
int PREFIX_jacobian(const double *z, double *values);
void PREFIX_jacobian_structure(int *row, int *column);

/* Second derivatives of factor*cost + multipliers . constraints, the lower triangle, likewise */
int PREFIX_hessian(const double *z, double factor, const double *multipliers, double *values);
void PREFIX_hessian_structure(int *row, int *column);

#ifdef __cplusplus
}
#endif
#endif
"""


def header(style: Style, filled: Mapping[str, object]) -> str:
    """Declarations of a problem, but for the first comment; filled : sizes and lists in it."""
    text = named(_HEADER, style)
    for name, value in filled.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def named(text: str, style: Style) -> str:
    """Text with the prefix of names in place."""
    return text.replace("PREFIX", style.prefix).replace("UPPER", style.prefix.upper())


#: Loop over all points; `room`, `results`, `arguments`: sizes of the largest function.
DRIVER = """\
/* An argument of a function of one point: scalar k at point i is
 * source[offset + k * distance + i * step]; sources: z, multipliers, factor, known numbers. */
typedef struct {{ int source, count, step; long offset, distance; }} argument;
/* A result: its place at point i is begin + i * step. */
typedef struct {{ long begin; int step; }} place;
/* A function at all points of one kind of one trial. */
typedef struct {{
    int (*function)(const double *const *a, double *results);
    int points, n_arguments, n_results;
    const argument *arguments;
    const place *results;
}} call;
/* Entries of a matrix: (row + i * row_step, column + i * column_step). */
typedef struct {{ int row, row_step, column, column_step, count; }} run;

/* Adds what the calls give to `out`, which is set to zero before. */
static int evaluate(const call *calls, int n_calls, const double *const *sources, double *out,
                    long size) {{
    double room[{room}], results[{results}];
    const double *a[{arguments}];
    int failed = 0;
    for (long k = 0; k < size; k++) out[k] = 0.0;
    for (int c = 0; c < n_calls; c++) {{
        const call *now = calls + c;
        for (int i = 0; i < now->points; i++) {{
            double *next = room;
            for (int k = 0; k < now->n_arguments; k++) {{
                const argument *from = now->arguments + k;
                const double *first = sources[from->source] + from->offset + (long)i * from->step;
                a[k] = first;
                if (from->distance == 1) continue;
                a[k] = next;
                for (int j = 0; j < from->count; j++) *next++ = first[j * from->distance];
            }}
            failed |= now->function(a, results);
            for (int k = 0; k < now->n_results; k++)
                out[now->results[k].begin + (long)i * now->results[k].step] += results[k];
        }}
    }}
    return failed;
}}
"""
#: Rows and columns of the entries of runs.
STRUCTURE = """\
static void structure(const run *runs, int n_runs, int *row, int *column) {
    for (int r = 0; r < n_runs; r++)
        for (int i = 0; i < runs[r].count; i++) {
            *row++ = runs[r].row + i * runs[r].row_step;
            *column++ = runs[r].column + i * runs[r].column_step;
        }
}
"""


def main_program(style: Style) -> str:
    """A program that prints the cost and the largest violation at the start."""
    prefix, upper = style.prefix, style.prefix.upper()
    return (
        f'#include <math.h>\n#include <stdio.h>\n\n#include "{prefix}.h"\n\n'
        "/* Cost and the largest violation of a constraint at the start */\nint main(void) {\n"
        f"    static double c[{upper}_N_CONSTRAINTS];\n    double cost, worst = 0.0;\n"
        f"    int failed = {prefix}_cost({prefix}_start, &cost);\n"
        f"    failed |= {prefix}_constraints({prefix}_start, c);\n"
        f"    for (int k = 0; k < {upper}_N_CONSTRAINTS; k++)\n"
        f"        worst = fmax(worst, fmax({prefix}_constraints_lower[k] - c[k],\n"
        f"                                 c[k] - {prefix}_constraints_upper[k]));\n"
        '    printf("cost %.17g, violation %.3g\\n", cost, worst);\n    return failed;\n}\n'
    )


def makefile(prefix: str) -> str:
    """Rules for that program, and for the one with IPOPT."""
    objects = f"{prefix}.o {prefix}_kernels.o {prefix}_data.o"
    return (
        "CFLAGS = -std=c99 -O2 -Wall -Wextra -Wconversion -pedantic\n\n"
        f"main: main.o {objects}\n\t$(CC) $(CFLAGS) -o $@ main.o {objects} -lm\n\n"
        f"# With IPOPT (version 3.14 or later): make solve\n"
        "IPOPT_CFLAGS ?= $(shell pkg-config --cflags ipopt)\n"
        "IPOPT_LIBS ?= $(shell pkg-config --libs ipopt)\n"
        f"solve: solve.c {objects}\n"
        f"\t$(CC) $(CFLAGS) $(IPOPT_CFLAGS) -o $@ solve.c {objects} $(IPOPT_LIBS) -lm\n\n"
        f"main.o {objects}: {prefix}.h\n\n.PHONY: clean\nclean:\n\trm -f main solve *.o\n"
    )


#: Program that solves with IPOPT.
_SOLVE = """\
/* Solves the problem with IPOPT, and prints z */
#include <stdio.h>
#include <stdlib.h>

#include <IpStdCInterface.h>

#include "PREFIX.h"

static bool cost(ipindex n, ipnumber *z, bool fresh, ipnumber *f, UserDataPtr data) {
    (void)n, (void)fresh, (void)data;
    return PREFIX_cost(z, f) == 0;
}

static bool gradient(ipindex n, ipnumber *z, bool fresh, ipnumber *g, UserDataPtr data) {
    (void)n, (void)fresh, (void)data;
    return PREFIX_gradient(z, g) == 0;
}

static bool constraints(ipindex n, ipnumber *z, bool fresh, ipindex m, ipnumber *c,
                        UserDataPtr data) {
    (void)n, (void)fresh, (void)m, (void)data;
    return PREFIX_constraints(z, c) == 0;
}

static bool jacobian(ipindex n, ipnumber *z, bool fresh, ipindex m, ipindex count, ipindex *row,
                     ipindex *column, ipnumber *values, UserDataPtr data) {
    (void)n, (void)fresh, (void)m, (void)count, (void)data;
    if (values != NULL) return PREFIX_jacobian(z, values) == 0;
    PREFIX_jacobian_structure(row, column);
    return true;
}

static bool hessian(ipindex n, ipnumber *z, bool fresh, ipnumber factor, ipindex m,
                    ipnumber *multipliers, bool fresh_too, ipindex count, ipindex *row,
                    ipindex *column, ipnumber *values, UserDataPtr data) {
    (void)n, (void)fresh, (void)m, (void)fresh_too, (void)count, (void)data;
    if (values != NULL) return PREFIX_hessian(z, factor, multipliers, values) == 0;
    PREFIX_hessian_structure(row, column);
    return true;
}

int main(void) {
    static double z[UPPER_N_VARIABLES];
    double least;
    for (int k = 0; k < UPPER_N_VARIABLES; k++) z[k] = PREFIX_start[k];
    IpoptProblem problem = CreateIpoptProblem(
        UPPER_N_VARIABLES, (double *)PREFIX_lower, (double *)PREFIX_upper, UPPER_N_CONSTRAINTS,
        (double *)PREFIX_constraints_lower, (double *)PREFIX_constraints_upper, UPPER_N_JACOBIAN,
        UPPER_N_HESSIAN, 0, cost, constraints, gradient, jacobian, hessian);
    AddIpoptStrOption(problem, "nlp_scaling_method", "user-scaling");
    SetIpoptProblemScaling(problem, PREFIX_cost_scale[0], (double *)PREFIX_scale,
                           (double *)PREFIX_constraints_scale);
    const int status = IpoptSolve(problem, z, NULL, &least, NULL, NULL, NULL, NULL);
    FreeIpoptProblem(problem);
    printf("status %d, cost %.17g\\n", status, least);
    for (int k = 0; k < UPPER_N_VARIABLES; k++) printf("%.17g\\n", z[k]);
    return status;
}
"""


def solver(style: Style) -> str:
    """A program that solves with IPOPT through its C interface."""
    return named(_SOLVE, style)
