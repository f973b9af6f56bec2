"""Steps of time in plain C99, of explicit and of implicit Runge-Kutta methods, with the derivatives
of their results: text around the functions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from kinesym.codegen.c99 import Style, wrapped
from kinesym.symbolic.schemes import scheme_named
from kinesym.symbolic.schemes.rk4 import RK4

#: The implicit method: of fifth order, stiffly accurate, for algebraic equations too.
RADAU = scheme_named("radau-5")
#: Numbers of stages of the methods.
STAGES = MappingProxyType({"rk4": len(RK4.nodes), "radau": len(RADAU.nodes)})


@dataclass(frozen=True)
class Sizes:
    """Numbers of states, inputs, parameters; entries : those of Jacobians, by their names."""

    states: int
    inputs: int
    parameters: int
    entries: Mapping[str, int]

    def count(self, group: str) -> int:
        """Number of members of a group."""
        return int(getattr(self, group))

    def groups(self, of: str) -> list[str]:
        """Groups with respect to which a function has a Jacobian that is not zero, in order."""
        return [
            g for g in ("states", "inputs", "parameters") if f"{of}_jacobian_{g}" in self.entries
        ]


@dataclass(frozen=True)
class Inputs:
    """Course of inputs over a step. suffix : of the names of functions. at : the inputs at stage s.
    column : of the derivatives by these, after the first. several : whether each stage has its
    own."""

    suffix: str
    at: str
    column: str
    several: bool

    def columns(self, sizes: Sizes, stages: int) -> int:
        """Columns of sensitivities: initial states, inputs, parameters."""
        return sizes.states + self._count(sizes, stages) + sizes.parameters

    def firsts(self, sizes: Sizes, stages: int) -> list[tuple[str, str]]:
        """Groups with their first column in sensitivities at stage s."""
        n = sizes.states
        rest = n + self._count(sizes, stages)
        return [("states", "0"), ("inputs", f"{n}{self.column}"), ("parameters", f"{rest}")]

    def _count(self, sizes: Sizes, stages: int) -> int:
        return sizes.inputs * (stages if self.several else 1)


#: Inputs that are constant over a step.
CONSTANT = Inputs("", "u", "", False)
#: Inputs with values of their own at each stage, one stage after the other.
VARYING = Inputs("_varying", "u + M*s", " + M*s", True)


def step_prototype(style: Style, name: str) -> str:
    """Declaration of the function of a step, without the semicolon."""
    kind = style.type
    arrays = ", ".join(f"const {kind} *restrict {a}" for a in "xup")
    more = f", {kind} *restrict sensitivities" if name.endswith("_sensitivities") else ""
    scalars = f"const {kind} t, const {kind} h, {kind} *restrict x_next"
    return f"int {style.prefix}_{name}({arrays}, {scalars}{more})"


def rk4(style: Style, sizes: Sizes, inputs: Inputs = CONSTANT) -> str:
    """`step_rk4` and `step_rk4_sensitivities`, which call the right-hand side."""
    name, u, columns = f"step_rk4{inputs.suffix}", inputs.at, inputs.columns(sizes, STAGES["rk4"])
    c, weights = (_row(values, style) for values in (RK4.nodes, RK4.weights))
    stages = f"static const @ c[4] = {c};\n    static const @ weights[4] = {weights};\n"
    text = f"""{wrapped(step_prototype(style, name))} {{
    {stages}    @ k[N], y[N];
    for (int i = 0; i < N; i++) x_next[i] = y[i] = x[i];
    for (int s = 0; s < 4; s++) {{
        const int status = ~_rhs(y, {u}, p, t + c[s]*h, k);
        if (status) return status;
        for (int i = 0; i < N; i++) {{
            x_next[i] += h*weights[s]*k[i];
            if (s < 3) y[i] = x[i] + h*c[s + 1]*k[i];
        }}
    }}
    return 0;
}}

"""
    groups = sizes.groups("rhs")
    declared = "".join(f"    @ by_{g}[{sizes.entries[f'rhs_jacobian_{g}']}];\n" for g in groups)
    evaluated = "".join(
        f"        if (!status) status = ~_rhs_jacobian_{g}(y, {u}, p, t + c[s]*h, by_{g});\n"
        for g in groups
    )
    products = "".join(
        f"        for (int j = 0; j < {sizes.count(g)}; j++)\n"
        f"            for (int e = ~_rhs_jacobian_{g}_begin[j]; "
        f"e < ~_rhs_jacobian_{g}_begin[j + 1]; e++)\n"
        f"                {_PRODUCTS[g == 'states'].format(g=g, first=first)}\n"
        for g, first in inputs.firsts(sizes, STAGES["rk4"])
        if g in groups
    )
    moving = "states" in groups  # else nothing reads the derivatives at stages
    room = "d[N*COLUMNS], " * moving
    begun, moved = "d[COLUMNS*i + q] = " * moving, _MOVED * moving
    text += f"""{_ADD_ROW * moving}{wrapped(step_prototype(style, f"{name}_sensitivities"))} {{
    {stages}    @ k[N], y[N], {room}rate[N*COLUMNS]; /* derivatives row by row */
{declared}    for (int i = 0; i < N; i++) {{
        x_next[i] = y[i] = x[i];
        for (int q = 0; q < COLUMNS; q++)
            sensitivities[i + N*q] = {begun}(@)(i == q);
    }}
    for (int s = 0; s < 4; s++) {{
        int status = ~_rhs(y, {u}, p, t + c[s]*h, k);
{evaluated}        if (status) return status;
        for (int i = 0; i < N*COLUMNS; i++) rate[i] = 0;
{products}        for (int i = 0; i < N; i++) {{
            x_next[i] += h*weights[s]*k[i];
            if (s < 3) y[i] = x[i] + h*c[s + 1]*k[i];
            for (int q = 0; q < COLUMNS; q++) {{
                sensitivities[i + N*q] += h*weights[s]*rate[COLUMNS*i + q];
{moved}            }}
        }}
    }}
    return 0;
}}
"""
    return _filled(f"#define COLUMNS {columns}\n\n{text}", style, sizes)


def radau(style: Style, sizes: Sizes, inputs: Inputs = CONSTANT) -> str:
    """`step_radau` and `step_radau_sensitivities`, which call the residual: Newton's method on the
    stages less x, whose last is the end of the step."""
    c = _row(RADAU.nodes, style)
    inverse = np.linalg.inv(np.array(RADAU.matrix))
    rows = ", ".join(_row(row, style) for row in inverse)
    stages = len(RADAU.nodes)
    name, u, columns = f"step_radau{inputs.suffix}", inputs.at, inputs.columns(sizes, stages)
    blocks = [g for g in ("derivatives", "states") if f"residual_jacobian_{g}" in sizes.entries]
    entries = {g: sizes.entries[f"residual_jacobian_{g}"] for g in sizes.groups("residual")}
    entries |= {g: sizes.entries[f"residual_jacobian_{g}"] for g in blocks}
    declared = "".join(f"    @ by_{g}[{entries[g]}];\n" for g in blocks)
    evaluated = "".join(
        f"        if (!status)\n"
        f"            status = ~_residual_jacobian_{g}(rate, y, {u}, p, t + c[s]*h, by_{g});\n"
        for g in blocks
    )
    added = {
        "derivatives": "            for (int r = 0; r < STAGES; r++)\n"
        + _added("derivatives", "j", "inverse[s][r]/h", _BLOCK.format("r"), 16),
        "states": _added("states", "j", "1", _BLOCK.format("s"), 12),
    }
    filled = (
        "        for (int j = 0; j < N; j++) {\n"
        + "".join(added[g] for g in blocks)
        + "        }\n"
    )
    sides, first = "", dict(inputs.firsts(sizes, stages))
    for g in sizes.groups("residual"):
        sides += f"""    for (int s = 0; s < STAGES; s++) {{
        @ by_{g}[{entries[g]}], y[N], rate[N];
        at_stage(x, h, z, s, y, rate);
        if (~_residual_jacobian_{g}(rate, y, {u}, p, t + c[s]*h, by_{g})) return 1;
        for (int j = 0; j < {sizes.count(g)}; j++)
{_added(g, "j", "-1", f"side + ORDER*({first[g]} + j) + N*s", 12)}    }}
"""
    text = f"""#define STAGES {stages}
#define ORDER (STAGES*N)

static const @ c[STAGES] = {c};
static const @ inverse[STAGES][STAGES] = {{{rows}}};

{_AT_STAGE}/* The equations at all stages, and their derivatives by z, column by column */
static int equations(const @ *restrict x, const @ *restrict u, const @ *restrict p, const @ t,
    const @ h, const @ *restrict z, @ *restrict r_of, @ *restrict matrix) {{
    @ y[N], rate[N];
{declared}    for (int k = 0; k < ORDER*ORDER; k++) matrix[k] = 0;
    for (int s = 0; s < STAGES; s++) {{
        at_stage(x, h, z, s, y, rate);
        int status = ~_residual(rate, y, {u}, p, t + c[s]*h, r_of + N*s);
{evaluated}        if (status) return status;
{filled}    }}
    return 0;
}}

{_LINEAR}{_newton(style)}{wrapped(step_prototype(style, name))} {{
    @ z[ORDER], matrix[ORDER*ORDER];
    int pivot[ORDER];
    const int status = stages_of(x, u, p, t, h, z, matrix, pivot);
    if (status) return status;
    for (int i = 0; i < N; i++) x_next[i] = x[i] + z[N*(STAGES - 1) + i];
    return 0;
}}

{wrapped(step_prototype(style, f"{name}_sensitivities"))} {{
    @ z[ORDER], matrix[ORDER*ORDER], side[ORDER*{columns}];
    int pivot[ORDER];
    int status = stages_of(x, u, p, t, h, z, matrix, pivot);
    if (!status) status = equations(x, u, p, t, h, z, side, matrix);
    if (!status) status = factorised(matrix, pivot);
    if (status) return status;
    for (int k = 0; k < ORDER*{columns}; k++) side[k] = 0;
{sides}    for (int i = 0; i < N; i++) x_next[i] = x[i] + z[N*(STAGES - 1) + i];
    for (int j = 0; j < {columns}; j++) {{
        solved(matrix, pivot, side + ORDER*j);
        for (int i = 0; i < N; i++)
            sensitivities[N*j + i] = (@)(i == j) + side[ORDER*j + N*(STAGES - 1) + i];
    }}
    return 0;
}}
"""
    return _filled(text, style, sizes)


_AT_STAGE = """/* State and rates at a stage, where the states are x + z */
static void at_stage(const @ *restrict x, const @ h, const @ *restrict z, const int s,
    @ *restrict y, @ *restrict rate) {
    for (int i = 0; i < N; i++) {
        y[i] = x[i] + z[N*s + i];
        rate[i] = 0;
        for (int r = 0; r < STAGES; r++) rate[i] += inverse[s][r]*z[N*r + i]/h;
    }
}

"""

_LINEAR = """/* LU factors with row exchanges in place; 2 if a pivot is zero */
static int factorised(@ *restrict matrix, int *restrict pivot) {
    for (int k = 0; k < ORDER; k++) {
        @ *const column = matrix + ORDER*k;
        int top = k;
        for (int i = k + 1; i < ORDER; i++)
            if (fabs$(column[i]) > fabs$(column[top])) top = i;
        pivot[k] = top;
        if (!(fabs$(column[top]) > 0)) return 2;
        for (int j = 0; j < ORDER; j++) {
            const @ held = matrix[ORDER*j + k];
            matrix[ORDER*j + k] = matrix[ORDER*j + top];
            matrix[ORDER*j + top] = held;
        }
        for (int i = k + 1; i < ORDER; i++) column[i] /= column[k];
        for (int j = k + 1; j < ORDER; j++) {
            @ *const other = matrix + ORDER*j;
            const @ factor = other[k];
            if (factor > 0 || factor < 0)
                for (int i = k + 1; i < ORDER; i++) other[i] -= column[i]*factor;
        }
    }
    return 0;
}

/* Solution in place of the side */
static void solved(const @ *restrict matrix, const int *restrict pivot, @ *restrict side) {
    for (int k = 0; k < ORDER; k++) {
        const @ held = side[k];
        side[k] = side[pivot[k]];
        side[pivot[k]] = held;
    }
    for (int k = 0; k < ORDER; k++)
        for (int i = k + 1; i < ORDER; i++) side[i] -= matrix[ORDER*k + i]*side[k];
    for (int k = ORDER - 1; k >= 0; k--) {
        side[k] /= matrix[ORDER*k + k];
        for (int i = 0; i < k; i++) side[i] -= matrix[ORDER*k + i]*side[k];
    }
}

"""


def _newton(style: Style) -> str:
    """The function that solves for the stages."""
    done, slow = map(style.number, _done(style))
    return f"""/* Newton's method, to rounding; 3 if it does not converge */
static int stages_of(const @ *restrict x, const @ *restrict u, const @ *restrict p, const @ t,
    const @ h, @ *restrict z, @ *restrict matrix, int *restrict pivot) {{
    @ side[ORDER], last = (@)INFINITY;
    for (int k = 0; k < ORDER; k++) z[k] = 0;
    for (int iteration = 0; iteration < 25; iteration++) {{
        int status = equations(x, u, p, t, h, z, side, matrix);
        if (!status) status = factorised(matrix, pivot);
        if (status) return status;
        solved(matrix, pivot, side);
        @ change = 0, size = 0;
        for (int k = 0; k < ORDER; k++) {{
            z[k] -= side[k];
            if (!isfinite(z[k])) return 1;
            const @ moved = fabs$(side[k]), large = fabs$(x[k % N]) + fabs$(z[k]);
            if (moved > change) change = moved;
            if (large > size) size = large;
        }}
        if (change <= {done}*size) return 0;
        if (change <= {slow}*size && change > last/2) return 0;
        last = change;
    }}
    return 3;
}}

"""


_ADD_ROW = """/* result += factor times row */
static void add_row(const @ factor, const @ *restrict row, @ *restrict result) {
    for (int q = 0; q < COLUMNS; q++) result[q] += factor*row[q];
}

"""
_MOVED = (
    "                if (s < 3)\n"
    "                    d[COLUMNS*i + q] = (@)(i == q) + h*c[s + 1]*rate[COLUMNS*i + q];\n"
)
#: What an entry of a Jacobian does to the derivatives of the rates, by whether it is by states.
_PRODUCTS = {
    True: "add_row(by_{g}[e], d + COLUMNS*j, rate + COLUMNS*~_rhs_jacobian_{g}_row[e]);",
    False: "rate[COLUMNS*~_rhs_jacobian_{g}_row[e] + {first} + j] += by_{g}[e];",
}
#: Where a column of the derivatives of stage s by those of another stage begins.
_BLOCK = "matrix + ORDER*(N*{} + j) + N*s"


def _added(wrt: str, column: str, factor: str, result: str, indent: int) -> str:
    """A statement that adds a column of a Jacobian of the residual; the array of its entries is
    `by_` what it is with respect to."""
    name = f"~_residual_jacobian_{wrt}"
    first = f"add_column({name}_begin, {name}_row, by_{wrt}, {column},"
    lines = wrapped(f"{first} {factor}, {result});", 92 - indent).split("\n")
    return "".join(f"{' ' * indent}{line}\n" for line in lines)


def stack_bytes(style: Style, sizes: Sizes, inputs: Inputs = CONSTANT) -> dict[str, int]:
    """Bytes of the arrays on the stack, by function of a step, without those of what it calls."""
    explicit, implicit = (
        inputs.columns(sizes, STAGES["rk4"]),
        inputs.columns(sizes, STAGES["radau"]),
    )
    value = 4 if style.type == "float" else 8
    n, order = sizes.states, sizes.states * len(RADAU.nodes)
    of_rhs = sum(sizes.entries[f"rhs_jacobian_{g}"] for g in sizes.groups("rhs"))
    matrix = order * order + 2 * order
    end = inputs.suffix
    return {
        f"step_rk4{end}": value * 2 * n,
        f"step_rk4{end}_sensitivities": value * (2 * n + 2 * n * explicit + of_rhs),
        f"step_radau{end}": value * matrix + 4 * order,
        f"step_radau{end}_sensitivities": value * (matrix + order * implicit) + 4 * order,
    }


def _done(style: Style) -> tuple[float, float]:
    """Changes, relative to the largest state, at which Newton's method has converged, and below
    which it has if they no longer shrink."""
    return (1e-6, 1e-3) if style.type == "float" else (1e-14, 1e-8)


def _row(values: Sequence[float], style: Style) -> str:
    return f"{{{', '.join(style.number(float(v)) for v in values)}}}"


def _filled(text: str, style: Style, sizes: Sizes) -> str:
    """Text with types, suffixes and the prefix in place."""
    column = (
        "/* result += factor times a column of a sparse matrix */\n"
        "static void add_column(const int *restrict begin, const int *restrict row,\n"
        "    const @ *restrict values, const int j, const @ factor, @ *restrict result) {\n"
        "    for (int k = begin[j]; k < begin[j + 1]; k++) result[row[k]] += factor*values[k];\n"
        "}\n\n"
    )
    more = f"#define M {sizes.inputs}\n" * ("M*s" in text)
    whole = f"#define N {sizes.states}\n{more}\n{column * ('add_column(' in text)}{text}"
    for letter, of in {"@": style.type, "$": style.suffix, "~": f"{style.prefix}"}.items():
        whole = whole.replace(letter, of)
    return whole
