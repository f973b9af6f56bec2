"""Steps of time with delays in plain C99, which keep the past in room of the caller."""

from __future__ import annotations

from kinesym.codegen.c99 import Style
from kinesym.symbolic.schemes.rk4 import RK4


def declared(style: Style, steps: bool) -> str:
    """Declarations of what is delayed, and, with `steps`, of the past and of the step."""
    return _named(_OF + _DECLARED * steps, style)


def rk4(style: Style, states: int, inputs: int, delays: int) -> str:
    """`step_rk4` of a model with delays, and functions of the past."""
    c, weights = (
        ", ".join(style.number(float(v)) for v in row) for row in (RK4.nodes, RK4.weights)
    )
    sizes = f"#define N {states}\n#define M {inputs}\n#define D {delays}\n#define ROW (2 + 4*D)\n"
    return sizes + _named(_STEP.replace("{C}", c).replace("{WEIGHTS}", weights), style)


def _named(text: str, style: Style) -> str:
    """Text with types, suffixes and names in place."""
    rounding = style.number(1e-6 if style.type == "float" else 1e-12)
    found = {"@": style.type, "$": style.suffix, "~": style.prefix, "^": style.prefix.upper()}
    for letter, of in {**found, "{ROUNDING}": rounding}.items():
        text = text.replace(letter, of)
    return text


_OF = """\
/* Which state, or ^_N_STATES + which input, each delayed value is of */
extern const int ~_delayed_of[^_N_DELAYED];
"""
_DECLARED = """
/* The past of what is delayed, in room of the caller for so many steps: at least the largest delay
 * over the shortest step, and 2 more. Before its begin all is as at the begin. */
#define ^_PAST_ROOM(steps) ((steps)*(2 + 4*^_N_DELAYED))
typedef struct {
    @ *room;                /* ^_PAST_ROOM(steps) numbers */
    int steps;              /* for which there is room */
    int count, last, lost;  /* steps that are kept; the place of the last; whether some are not */
} ~_past;
void ~_past_begin(~_past *past, @ *room, int steps);

/* Adds straight lines from t to t + h: states that begin with x and rise with dx, and inputs u, as
 * a history before the first step */
void ~_past_put(~_past *past, const @ *x, const @ *dx, const @ *u, const @ t, const @ h);

/* A step of the classical Runge-Kutta method of order 4 from t to t + h with constant inputs, which
 * is added to the past; one that is taken again from t replaces it. Delays must not be shorter than
 * steps. Returns 1 if a result is not finite, 4 for a longer step than a delay, 5 if there is room
 * for too few steps. */
int ~_step_rk4(const @ *restrict x, const @ *restrict u, const @ *restrict p, const @ t,
    const @ h, ~_past *past, @ *restrict x_next);
"""

_STEP = """
/* Rows of the past: begin and length of a step; of each delayed value the cubic polynomial in the
 * share of the step that has passed */
static @ *row_of(const ~_past *past, const int back) {
    return past->room + (long)((past->last - back + past->steps) % past->steps)*ROW;
}

static @ *row_added(~_past *past, const @ t, const @ h) {
    past->lost |= past->count == past->steps;
    past->count += past->count < past->steps;
    past->last = (past->last + 1) % past->steps;
    @ *const row = row_of(past, 0);
    row[0] = t;
    row[1] = h;
    return row;
}

void ~_past_begin(~_past *past, @ *room, int steps) {
    *past = (~_past){room, steps, 0, 0, 0};
}

/* Delayed values at t, which is `side` of a jump; x, u : at the begin of the past without any */
static int delayed_at(const ~_past *past, const @ *tau, const @ *x, const @ *u, const @ t,
    const int side, @ *delayed) {
    const @ slack = {ROUNDING}*(1 + fabs$(t));
    for (int k = 0; k < D; k++) {
        const @ s = t - tau[k];
        int low = 0, high = past->count; /* steps back to the last one that begins before */
        while (low < high) {
            const int middle = (low + high)/2;
            if (row_of(past, middle)[0] <= s + (@)side*slack) high = middle;
            else low = middle + 1;
        }
        if (past->count == 0) {
            const int of = ~_delayed_of[k];
            delayed[k] = of < N ? x[of] : u[of - N];
            continue;
        }
        if (low == past->count && past->lost) return 5;
        const int there = low < past->count;
        const @ *const row = row_of(past, there ? low : low - 1), *const a = row + 2 + 4*k;
        if (low == 0 && s > row[0] + row[1] + slack) return 4;
        const @ share = there ? (s - row[0])/row[1] : 0;
        delayed[k] = a[0] + share*(a[1] + share*(a[2] + share*a[3]));
    }
    return 0;
}

void ~_past_put(~_past *past, const @ *x, const @ *dx, const @ *u, const @ t, const @ h) {
    @ *const row = row_added(past, t, h);
    for (int k = 0; k < D; k++) {
        const int of = ~_delayed_of[k];
        @ *const a = row + 2 + 4*k;
        a[0] = of < N ? x[of] : u[of - N];
        a[1] = of < N ? h*dx[of] : 0;
        a[2] = a[3] = 0;
    }
}

int ~_step_rk4(const @ *restrict x, const @ *restrict u, const @ *restrict p, const @ t,
    const @ h, ~_past *past, @ *restrict x_next) {
    static const @ c[4] = {{C}}, weights[4] = {{WEIGHTS}};
    @ k[4][N], y[N], tau[D], delayed[D];
    int status = ~_delays(p, tau);
    while (past->count > 0 && row_of(past, 0)[0] >= t - {ROUNDING}*(1 + fabs$(t))) {
        past->last = (past->last - 1 + past->steps) % past->steps;
        past->count--;
    }
    for (int i = 0; i < N; i++) x_next[i] = y[i] = x[i];
    for (int j = 0; j < D && !status; j++)
        if (h > tau[j] + {ROUNDING}*(1 + fabs$(t))) status = 4;
    for (int s = 0; s < 4; s++) {
        if (!status) status = delayed_at(past, tau, x, u, t + c[s]*h, s < 3 ? 1 : -1, delayed);
        if (!status) status = ~_rhs(y, u, delayed, p, t + c[s]*h, k[s]);
        if (status) return status;
        for (int i = 0; i < N; i++) {
            x_next[i] += h*weights[s]*k[s][i];
            if (s < 3) y[i] = x[i] + h*c[s + 1]*k[s][i];
        }
    }
    @ *const row = row_added(past, t, h);
    for (int j = 0; j < D; j++) {
        const int of = ~_delayed_of[j];
        @ *const a = row + 2 + 4*j;
        a[0] = of < N ? x[of] : u[of - N];
        a[1] = a[2] = a[3] = 0;
        if (of >= N) continue;
        /* that of order 3 through the stages (Hairer, Norsett, Wanner, Solving Ordinary
         * Differential Equations I, II.6) */
        const @ middle = k[1][of] + k[2][of];
        a[1] = h*k[0][of];
        a[2] = h*(middle - (3*k[0][of] + k[3][of])/2);
        a[3] = h*(k[0][of] - middle + k[3][of])*2/3;
    }
    return 0;
}
"""
