"""Programs around plain C99 of a model: one that calls it, what builds it, gateways to MATLAB and
Simulink."""

from __future__ import annotations

from collections.abc import Sequence

from kinesym.codegen.c99 import Style


def main_program(style: Style, names: Sequence[str], delays: bool) -> str:
    """A program that prints derivatives, then steps; names : of the functions there are. delays :
    whether the model has some."""
    if delays:
        return _program_with_delays(style, names)
    name, upper, kind = style.prefix, style.prefix.upper(), style.type
    if "residual" not in names:
        return _program_of_outputs(style)
    explicit = "rhs" in names
    steps = "rk4" if explicit else "radau"
    first = "rhs(x, u, p, 0, dx)" if explicit else "residual(dx, x, u, p, 0, next)"
    shown, of = ("dx", "rhs") if explicit else ("next", "residual")
    return f"""\
/* The {of} of {name} where all states are 0.1, and a second of time */
#include <stdio.h>

#include "{name}.h"

int main(void) {{
    {kind} x[{upper}_N_STATES], dx[{upper}_N_STATES] = {{0}}, next[{upper}_N_STATES];
    {kind} u[{upper}_N_INPUTS + 1] = {{0}};
    const {kind} *p = {name}_parameter_values, h = ({kind})0.001;
    for (int k = 0; k < {upper}_N_STATES; k++) x[k] = ({kind})0.1;

    int status = {name}_{first};
    for (int k = 0; k < {upper}_N_STATES; k++)
        printf("{of}, %s: %.9g\\n", {name}_states_names[k], (double){shown}[k]);

    for (int step = 0; step < 1000 && !status; step++) {{
        status = {name}_step_{steps}(x, u, p, ({kind})step*h, h, next);
        for (int k = 0; k < {upper}_N_STATES; k++) x[k] = next[k];
    }}
    if (status) {{
        fprintf(stderr, "a step failed with status %d\\n", status);
        return status;
    }}
    for (int k = 0; k < {upper}_N_STATES; k++)
        printf("%s after 1 s: %.9g\\n", {name}_states_names[k], (double)x[k]);
    return 0;
}}
"""


def _program_of_outputs(style: Style) -> str:
    """A program that prints the outputs of a model without states."""
    name, upper, kind = style.prefix, style.prefix.upper(), style.type
    return f"""\
/* The outputs of {name} where all inputs are 0.1 */
#include <stdio.h>

#include "{name}.h"

int main(void) {{
    {kind} u[{upper}_N_INPUTS + 1], y[{upper}_N_OUTPUTS];
    for (int k = 0; k < {upper}_N_INPUTS; k++) u[k] = ({kind})0.1;
    const int status = {name}_outputs(NULL, NULL, u, {name}_parameter_values, 0, y);
    for (int k = 0; k < {upper}_N_OUTPUTS; k++)
        printf("%s: %.9g\\n", {name}_outputs_names[k], (double)y[k]);
    return status;
}}
"""


def _program_with_delays(style: Style, names: Sequence[str]) -> str:
    """A program that prints steps of a model with delays, or its residual if it has none."""
    name, upper, kind = style.prefix, style.prefix.upper(), style.type
    begin = f"""\
#include <stdio.h>

#include "{name}.h"

int main(void) {{
    {kind} x[{upper}_N_STATES], next[{upper}_N_STATES];
    {kind} u[{upper}_N_INPUTS + 1] = {{0}};
    const {kind} *p = {name}_parameter_values;
    int status = 0;
    for (int k = 0; k < {upper}_N_STATES; k++) x[k] = ({kind})0.1;
"""
    if "rhs" not in names:
        return f"""\
/* The residual of {name} where all states are 0.1 and were so before */
{begin}
    {kind} dx[{upper}_N_STATES] = {{0}}, delayed[{upper}_N_DELAYED];
    for (int k = 0; k < {upper}_N_DELAYED; k++)
        delayed[k] = {name}_delayed_of[k] < {upper}_N_STATES ? ({kind})0.1 : 0;
    status = {name}_residual(dx, x, u, delayed, p, 0, next);
    for (int k = 0; k < {upper}_N_STATES; k++)
        printf("residual, %s: %.9g\\n", {name}_states_names[k], (double)next[k]);
    return status;
}}
"""
    return f"""\
/* A second of {name} from where all states are 0.1 and were so before */
{begin}
    static {kind} room[{upper}_PAST_ROOM(1002)];
    {name}_past past;
    const {kind} h = ({kind})0.001;
    {name}_past_begin(&past, room, 1002);
    for (int step = 0; step < 1000 && !status; step++) {{
        status = {name}_step_rk4(x, u, p, ({kind})step*h, h, &past, next);
        for (int k = 0; k < {upper}_N_STATES; k++) x[k] = next[k];
    }}
    if (status) {{
        fprintf(stderr, "a step failed with status %d\\n", status);
        return status;
    }}
    for (int k = 0; k < {upper}_N_STATES; k++)
        printf("%s after 1 s: %.9g\\n", {name}_states_names[k], (double)x[k]);
    return 0;
}}
"""


def makefile(sources: Sequence[str]) -> str:
    """A Makefile of the program."""
    objects = " ".join(f"{name[:-2]}.o" for name in sources)
    header = f"{sources[0][:-2]}.h"
    return (
        "CFLAGS = -std=c99 -O2 -Wall -Wextra -Wconversion -Wshadow -pedantic\n"
        f"OBJECTS = {objects}\n\n"
        "main: main.o $(OBJECTS)\n\t$(CC) $(CFLAGS) -o $@ main.o $(OBJECTS) -lm\n\n"
        f"main.o $(OBJECTS): {header}\n\n.PHONY: clean\nclean:\n\trm -f main *.o\n"
    )


def cmake(name: str, sources: Sequence[str]) -> str:
    """A file for CMake: a library and the program."""
    return (
        f"cmake_minimum_required(VERSION 3.10)\nproject({name} C)\nset(CMAKE_C_STANDARD 99)\n"
        f"add_library({name}_model STATIC {' '.join(sources)})\n"
        f"target_include_directories({name}_model PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})\n"
        f"if(UNIX)\n  target_link_libraries({name}_model PUBLIC m)\nendif()\n"
        f"add_executable({name}_main main.c)\n"
        f"target_link_libraries({name}_main PRIVATE {name}_model)\n"
    )


def mex(style: Style, names: Sequence[str]) -> str:
    """A function of MATLAB and Octave: derivatives, and Jacobians if asked for."""
    name, upper, kind = style.prefix, style.prefix.upper(), style.type
    numeric = "mxSINGLE_CLASS" if kind == "float" else "mxDOUBLE_CLASS"
    check = "mxIsSingle" if kind == "float" else "mxIsDouble"
    of = "rhs" if "rhs" in names else "residual"
    given = ["x", "u", "p", "t"] if of == "rhs" else ["xdot", "x", "u", "p", "t"]
    wrt = [g for g in ("states", "inputs", "parameters") if f"{of}_jacobian_{g}" in names]
    counts = {"xdot": "STATES", "x": "STATES", "u": "INPUTS", "p": "PARAMETERS"}
    read = "".join(
        f"    const {kind} *{a} = numbers(prhs[{k}], "
        f'{f"{upper}_N_{counts[a]}" if a in counts else "1"}, "{a}");\n'
        for k, a in enumerate(given)
    )
    call = ", ".join("*t" if a == "t" else a for a in given)
    more = "".join(
        f"    if (nlhs > {k}) {{\n"
        f"        plhs[{k}] = mxCreateNumericMatrix({upper}_N_STATES, {upper}_N_{g.upper()}, "
        f"{numeric}, mxREAL);\n"
        f"        {name}_{of}_jacobian_{g}_dense({call}, mxGetData(plhs[{k}]));\n    }}\n"
        for k, g in enumerate(wrt, 1)
    )
    results = ", ".join([of, *(f"by_{g}" for g in wrt)])
    return f"""\
/* [{results}] = {name}_mex({", ".join(given)}) in MATLAB and Octave, after
 *     mex {name}_mex.c {name}.c {name}_jacobians.c {name}_data.c
 */
#include "mex.h"

#include "{name}.h"

static {kind} *numbers(const mxArray *array, const size_t count, const char *what) {{
    if (!{check}(array) || mxIsComplex(array) || mxGetNumberOfElements(array) != count)
        mexErrMsgIdAndTxt("kinesym:{name}", "%s must be %d real numbers of type {kind}", what,
            (int)count);
    return mxGetData(array);
}}

void mexFunction(int nlhs, mxArray *plhs[], int nrhs, const mxArray *prhs[]) {{
    if (nrhs != {len(given)} || nlhs > {len(wrt) + 1})
        mexErrMsgIdAndTxt("kinesym:{name}", "[{results}] = {name}_mex({", ".join(given)})");
{read}    plhs[0] = mxCreateNumericMatrix({upper}_N_STATES, 1, {numeric}, mxREAL);
    {name}_{of}({call}, mxGetData(plhs[0]));
{more}}}
"""


def s_function(style: Style, names: Sequence[str]) -> str:
    """A block of Simulink: inputs of the model in, outputs, or states if it has none, out."""
    name, upper = style.prefix, style.prefix.upper()
    out = "OUTPUTS" if "outputs" in names else "STATES"
    outputs = (
        f"""    real_T rates[{upper}_N_STATES];
    {name}_rhs(ssGetContStates(S), u, {name}_parameter_values, ssGetT(S), rates);
    {name}_outputs(rates, ssGetContStates(S), u, {name}_parameter_values, ssGetT(S), y);
"""
        if out == "OUTPUTS"
        else f"""    const real_T *x = ssGetContStates(S);
    (void)u;
    for (int k = 0; k < {upper}_N_STATES; k++) y[k] = x[k];
"""
    )
    return f"""\
/* A block of Simulink with the inputs of {name}; its outputs are those of the model, or its states.
 * Parameters are the values in {name}_data.c. After
 *     mex {name}_sfun.c {name}.c {name}_data.c
 */
#define S_FUNCTION_NAME {name}_sfun
#define S_FUNCTION_LEVEL 2
#include "simstruc.h"

#include "{name}.h"

static void mdlInitializeSizes(SimStruct *S) {{
    ssSetNumSFcnParams(S, 0);
    ssSetNumContStates(S, {upper}_N_STATES);
    if (!ssSetNumInputPorts(S, {upper}_N_INPUTS > 0)) return;
    if ({upper}_N_INPUTS > 0) {{
        ssSetInputPortWidth(S, 0, {upper}_N_INPUTS);
        ssSetInputPortRequiredContiguous(S, 0, 1);
        ssSetInputPortDirectFeedThrough(S, 0, 1);
    }}
    if (!ssSetNumOutputPorts(S, 1)) return;
    ssSetOutputPortWidth(S, 0, {upper}_N_{out});
    ssSetNumSampleTimes(S, 1);
}}

static void mdlInitializeSampleTimes(SimStruct *S) {{
    ssSetSampleTime(S, 0, CONTINUOUS_SAMPLE_TIME);
    ssSetOffsetTime(S, 0, 0.0);
}}

#define MDL_INITIALIZE_CONDITIONS
static void mdlInitializeConditions(SimStruct *S) {{
    real_T *x = ssGetContStates(S);
    for (int k = 0; k < {upper}_N_STATES; k++) x[k] = 0.0;
}}

static const real_T *inputs(SimStruct *S) {{
    return {upper}_N_INPUTS > 0 ? ssGetInputPortRealSignal(S, 0) : {name}_parameter_values;
}}

static void mdlOutputs(SimStruct *S, int_T tid) {{
    const real_T *u = inputs(S);
    real_T *y = ssGetOutputPortRealSignal(S, 0);
    (void)tid;
{outputs}}}

#define MDL_DERIVATIVES
static void mdlDerivatives(SimStruct *S) {{
    {name}_rhs(ssGetContStates(S), inputs(S), {name}_parameter_values, ssGetT(S), ssGetdX(S));
}}

static void mdlTerminate(SimStruct *S) {{
    (void)S;
}}

#ifdef MATLAB_MEX_FILE
#include "simulink.c"
#else
#include "cg_sfun.h"
#endif
"""
