"""C of exported fits by simulation that hardly depends on the problem: time stepping, its
derivatives, and a program that calls them."""

from __future__ import annotations

from collections.abc import Mapping

from kinesym.codegen.c99 import Style
from kinesym.internal.exporting.c99_driver import named

_HEADER = """\
#ifndef UPPER_H
#define UPPER_H
#ifdef __cplusplus
extern "C" {
#endif

#define UPPER_N_UNKNOWNS {N_Q}
#define UPPER_N_RESIDUALS {N_R}
#define UPPER_N_WORK {WORK} /* room that cost and gradient need, in numbers */
#define UPPER_N_WORK_JACOBIAN {WORK_JACOBIAN} /* room that the others need */
#define UPPER_STACK {STACK} /* bytes of the stack, without those of a step */

/* q, the unknowns
{UNKNOWNS} */
extern const char *const PREFIX_names[UPPER_N_UNKNOWNS];
{ARRAYS}
/* All functions simulate the trials at q by {METHOD}, from node to node. They return
 * 0, or 1 if a value is not finite{STATUS}. They keep nothing between calls;
 * work is room of the caller, whatever is in it. */
int PREFIX_cost(const double *q, double *work, double *cost);

/* Its gradient, exact for these steps, by their derivatives backwards in time */
int PREFIX_gradient(const double *q, double *work, double *gradient);

/* States of all trials at q: state i of a trial at node j is states[begin + i*nodes + j].
 *   begin   nodes   trial
{TRIALS} */
int PREFIX_states(const double *q, double *work, const double **states);
{SQUARES}
#ifdef __cplusplus
}
#endif
#endif
"""

_SQUARES = """
/* Residuals r, cost = sum of r^2, and their derivatives, jacobian[k + UPPER_N_RESIDUALS*j] of
 * residual k by q[j]; that of a sample that is missing is 0:
{SAMPLES} */
int PREFIX_residuals(const double *q, double *work, double *residuals);
int PREFIX_residual_jacobian(const double *q, double *work, double *jacobian);

/* gradient = 2 J^T r, and matrix = 2 J^T J, the Hessian of the cost where residuals are small */
int PREFIX_gauss_newton(const double *q, double *work, double *gradient, double *matrix);
"""


def header(style: Style, filled: Mapping[str, object], squares: bool) -> str:
    """Declarations of a fit, but for the first comment; filled : sizes and lists in it. squares :
    whether its cost is a sum of them."""
    text = named(_HEADER.replace("{SQUARES}", _SQUARES * squares), style)
    for name, value in filled.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


#: Time stepping and the cost.
STEPPING = """\
/* A trial: its start from parameters, where it depends on these; number of nodes; places of its
 * known numbers: times, samples of inputs, parameters, start; of its states in z; of its unknown
 * start and samples in q. held : whether inputs are constant between nodes (1), straight (0), or a
 * parabola (2); owned : where its parameters are. */
typedef struct {
    int (*follows)(const double *const *p, double *start);
    int nodes;
    long time, inputs[M + 1], p, x, z, start, samples;
    int held[M + 1], owned[R + 1];
} trial;

static void parameters_of(const trial *a, const double *q, double *p) {
    for (int k = 0; k < P; k++) p[k] = known[a->p + k];
    for (int k = 0; k < R; k++) p[free_parameters[k]] = q[a->owned[k]];
}

/* States at the start, and N derivatives of them by each unknown parameter */
static int start_of(const trial *a, const double *p, double *start) {
    for (int k = 0; k < N + N * R; k++) start[k] = k < N ? known[a->x + k] : 0.0;
    return a->follows ? a->follows(&p, start) : 0;
}

/* State, inputs at the stages, time and length of step i; x of all nodes is one state's course */
static void step_of(const trial *a, const double *z, int i, double *x, double *u, double *t,
                    double *h) {
    const double *course = z + a->z;
    for (int k = 0; k < N; k++) x[k] = course[k * (long)a->nodes + i];
    for (int k = 0; k < M; k++) {
        const double *row = unknown_inputs[k] < 0
            ? known + a->inputs[k] : course + (N + unknown_inputs[k]) * (long)a->nodes;
        for (int s = 0; s < STAGES; s++) {
            const double c = nodes_of_step[s];
            if (a->held[k] == 2)
                u[M * s + k] = (1.0 - c) * (1.0 - 2.0 * c) * row[3 * i] +
                    4.0 * c * (1.0 - c) * row[3 * i + 1] + c * (2.0 * c - 1.0) * row[3 * i + 2];
            else
                u[M * s + k] = a->held[k] ? row[i] : row[i] + c * (row[i + 1] - row[i]);
        }
    }
    *t = known[a->time + i];
    *h = known[a->time + i + 1] - *t;
}

/* z: courses of states and unknown inputs of all trials, then the unknown parameters */
static int simulate(const double *q, double *z) {
    double x[N], u[M * STAGES + 1], p[P + 1], next[N], start[N + N * R], t, h;
    for (int k = 0; k < VALUES; k++) z[Z - VALUES + k] = q[k];
    for (int n = 0; n < TRIALS; n++) {
        const trial *a = trials + n;
        double *course = z + a->z;
        const long nodes = a->nodes;
        parameters_of(a, q, p);
        if (start_of(a, p, start)) return 1;
        for (int k = 0; k < N; k++) course[k * nodes] = start[k];
        for (int k = 0; k < STARTS; k++) course[free_starts[k] * nodes] = q[a->start + k];
        for (long k = 0; k < V * nodes; k++) course[N * nodes + k] = q[a->samples + k];
        for (int i = 0; i + 1 < a->nodes; i++) {
            step_of(a, z, i, x, u, &t, &h);
            const int status = STEP(x, u, p, t, h, next);
            if (status) return status;
            for (int k = 0; k < N; k++) course[k * nodes + i + 1] = next[k];
        }
    }
    return 0;
}

int PREFIX_states(const double *q, double *work, const double **states) {
    *states = work;
    return simulate(q, work);
}

int PREFIX_cost(const double *q, double *work, double *cost) {
    const double *const sources[] = {work, NULL, NULL, known};
    int status = simulate(q, work);
    if (!status) status = evaluate(cost_calls, COST_CALLS, sources, cost, 1);
    for (int k = 0; k < PRIORS && !status; k++) *cost += prior(k, q) * prior(k, q);
    return status;
}

/* From the last step to the first, `carry` is the derivative by the state at the end of a step; an
 * input at a stage is a mean of two samples. */
int PREFIX_gradient(const double *q, double *work, double *gradient) {
    double x[N], u[M * STAGES + 1], p[P + 1], next[N], by[N * COLUMNS], carry[N], t, h;
    double start[N + N * R];
    double *direct = work + Z;
    const double *const sources[] = {work, NULL, NULL, known};
    int status = simulate(q, work);
    if (!status) status = evaluate(gradient_calls, GRADIENT_CALLS, sources, direct, Z);
    if (status) return status;
    for (int k = 0; k < Q; k++) gradient[k] = k < VALUES ? direct[Z - VALUES + k] : 0.0;
    for (int k = 0; k < PRIORS; k++)
        gradient[prior_places[k]] += 2.0 * prior(k, q) * prior_slope(k, q);
    for (int n = 0; n < TRIALS; n++) {
        const trial *a = trials + n;
        const long nodes = a->nodes;
        double *samples = gradient + a->samples;
        parameters_of(a, q, p);
        for (long k = 0; k < V * nodes; k++) samples[k] += direct[a->z + N * nodes + k];
        for (int k = 0; k < N; k++) carry[k] = direct[a->z + k * nodes + nodes - 1];
        for (int i = a->nodes - 2; i >= 0; i--) {
            step_of(a, work, i, x, u, &t, &h);
            status = STEP_SENSITIVITIES(x, u, p, t, h, next, by);
            if (status) return status;
            for (int j = 0; j < R; j++)
                gradient[a->owned[j]] += along(carry, by + N * (COLUMNS - P + free_parameters[j]));
            for (int k = 0; k < M * STAGES; k++) {
                const int v = unknown_inputs[k % M1];
                if (v < 0) continue;
                const double c = a->held[k % M1] ? 0.0 : nodes_of_step[k / M1];
                const double part = along(carry, by + N * (N + k));
                samples[v * nodes + i] += (1.0 - c) * part;
                samples[v * nodes + i + 1] += c * part;
            }
            for (int k = 0; k < N; k++) next[k] = direct[a->z + k * nodes + i];
            for (int k = 0; k < N; k++) next[k] += along(carry, by + N * k);
            for (int k = 0; k < N; k++) carry[k] = next[k];
        }
        for (int k = 0; k < STARTS; k++) gradient[a->start + k] += carry[free_starts[k]];
        if (start_of(a, p, start)) return 1;
        for (int j = 0; j < R; j++) gradient[a->owned[j]] += along(carry, start + N * (j + 1));
    }
    return 0;
}
"""

#: Residuals and their derivatives, forwards in time.
SQUARES = """\
int PREFIX_residuals(const double *q, double *work, double *residuals) {
    const double *const sources[] = {work, NULL, NULL, known};
    int status = simulate(q, work);
    if (!status) status = evaluate(constraints_calls, SQUARES_CALLS, sources, residuals, ROWS);
    for (int k = 0; k < PRIORS && !status; k++) residuals[ROWS + k] = prior(k, q);
    return status;
}

/* Derivatives of z by q, Z rows of Q numbers */
static int moved(const double *q, const double *z, double *by_q) {
    double x[N], u[M * STAGES + 1], p[P + 1], next[N], by[N * COLUMNS], t, h;
    double start[N + N * R];
    for (long k = 0; k < (long)Z * Q; k++) by_q[k] = 0.0;
    for (int k = 0; k < VALUES; k++) by_q[(Z - VALUES + k) * (long)Q + k] = 1.0;
    for (int n = 0; n < TRIALS; n++) {
        const trial *a = trials + n;
        const long nodes = a->nodes;
        double *mine = by_q + a->z * Q;
        parameters_of(a, q, p);
        if (start_of(a, p, start)) return 1;
        for (int k = 0; k < N; k++)
            for (int j = 0; j < R; j++) mine[k * nodes * Q + a->owned[j]] = start[N * (j + 1) + k];
        for (int k = 0; k < STARTS; k++) mine[free_starts[k] * nodes * Q + a->start + k] = 1.0;
        for (long k = 0; k < V * nodes; k++) mine[(N * nodes + k) * Q + a->samples + k] = 1.0;
        for (int i = 0; i + 1 < a->nodes; i++) {
            step_of(a, z, i, x, u, &t, &h);
            const int status = STEP_SENSITIVITIES(x, u, p, t, h, next, by);
            if (status) return status;
            for (int r = 0; r < N; r++) {
                double *row = mine + (r * nodes + i + 1) * Q;
                for (int k = 0; k < N; k++)
                    for (int j = 0; j < Q; j++)
                        row[j] += by[r + N * k] * mine[(k * nodes + i) * Q + j];
                for (int j = 0; j < R; j++)
                    row[a->owned[j]] += by[r + N * (COLUMNS - P + free_parameters[j])];
                for (int k = 0; k < M * STAGES; k++) {
                    const int v = unknown_inputs[k % M1];
                    if (v < 0) continue;
                    const double c = a->held[k % M1] ? 0.0 : nodes_of_step[k / M1];
                    row[a->samples + v * nodes + i] += (1.0 - c) * by[r + N * (N + k)];
                    row[a->samples + v * nodes + i + 1] += c * by[r + N * (N + k)];
                }
            }
        }
    }
    return 0;
}

/* Adds the rows of entries, times derivatives of z by q; the values that come after them */
static const double *added(const run *runs, int count, const double *values, const double *by_q,
                           double *jacobian) {
    for (int n = 0; n < count; n++)
        for (int i = 0; i < runs[n].count; i++, values++) {
            const long row = runs[n].row + i * runs[n].row_step;
            const double *from = by_q + (runs[n].column + i * runs[n].column_step) * (long)Q;
            for (int j = 0; j < Q; j++) jacobian[row + (long)ALL * j] += *values * from[j];
        }
    return values;
}

int PREFIX_residual_jacobian(const double *q, double *work, double *jacobian) {
    const double *const sources[] = {work, NULL, NULL, known};
    double *by_q = work + Z, *values = by_q + (long)Z * Q;
    int status = simulate(q, work);
    if (!status) status = evaluate(jacobian_calls, JACOBIAN_CALLS, sources, values, ENTRIES);
    if (!status) status = moved(q, work, by_q);
    if (status) return status;
    for (long k = 0; k < (long)ALL * Q; k++) jacobian[k] = 0.0;
ADDED    for (int k = 0; k < PRIORS; k++)
        jacobian[ROWS + k + (long)ALL * prior_places[k]] = prior_slope(k, q);
    return 0;
}

int PREFIX_gauss_newton(const double *q, double *work, double *gradient, double *matrix) {
    double *r = work + UPPER_N_WORK_JACOBIAN - (long)ALL * (Q + 1), *jacobian = r + ALL;
    int status = PREFIX_residual_jacobian(q, work, jacobian);
    if (!status) status = PREFIX_residuals(q, work, r);
    if (status) return status;
    for (int j = 0; j < Q; j++) {
        const double *left = jacobian + (long)ALL * j;
        gradient[j] = 0.0;
        for (int k = 0; k < ALL; k++) gradient[j] += 2.0 * left[k] * r[k];
        for (int i = 0; i <= j; i++) {
            const double *right = jacobian + (long)ALL * i;
            double sum = 0.0;
            for (int k = 0; k < ALL; k++) sum += 2.0 * left[k] * right[k];
            matrix[i + (long)Q * j] = sum;
            matrix[j + (long)Q * i] = sum;
        }
    }
    return 0;
}
"""

#: Squares of priors: of a parameter, or its logarithm where the first number is not zero, less a
#: mean, times a weight; and a product.
SMALL = """\
static double prior(int k, const double *q) {
    const double value = q[prior_places[k]];
    return priors[k][2] * ((priors[k][0] > 0.0 ? log(value) : value) - priors[k][1]);
}

static double prior_slope(int k, const double *q) {
    return priors[k][0] > 0.0 ? priors[k][2] / q[prior_places[k]] : priors[k][2];
}

static double along(const double *left, const double *right) {
    double sum = 0.0;
    for (int k = 0; k < N; k++) sum += left[k] * right[k];
    return sum;
}
"""


def main_program(style: Style) -> str:
    """A program that prints the cost and its gradient at the guess."""
    return named(
        """\
/* Cost and gradient at the guess */
#include <stdio.h>

#include "PREFIX.h"

int main(void) {
    static double work[UPPER_N_WORK], gradient[UPPER_N_UNKNOWNS];
    double cost;
    int status = PREFIX_cost(PREFIX_start, work, &cost);
    if (!status) status = PREFIX_gradient(PREFIX_start, work, gradient);
    if (status) {
        fprintf(stderr, "a simulation failed with status %d\\n", status);
        return status;
    }
    printf("cost %.17g\\n", cost);
    for (int k = 0; k < UPPER_N_UNKNOWNS; k++)
        printf("d cost / d %s = %.17g\\n", PREFIX_names[k], gradient[k]);
    return 0;
}
""",
        style,
    )
