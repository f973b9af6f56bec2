/* The functions of FMI 3.0, for one instance of a model */
#include <stdlib.h>
#include <string.h>

#include "fmi-3-types.h"
#include "fmi-instance.h"

#ifdef _WIN32
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

/* Parameters of functions whose variables the model does not have */
#define NONE fmi3Instance instance, const fmi3ValueReference reference[], size_t count

static fmi3Status told(ks_instance *s, fmi3Status status, const char *message) {
    fmi3LogMessageCallback tell = (fmi3LogMessageCallback)s->tell;
    if (tell) tell(s->environment, status, "logStatus", message);
    return status;
}

/* What a complaint is in FMI */
static fmi3Status status_of(ks_instance *s, const char *complaint) {
    if (!complaint) return fmi3OK;
    return told(s, complaint == ks_not_finite ? fmi3Discard : fmi3Error, complaint);
}

static fmi3Status refused(fmi3Instance instance, const char *message) {
    return told(instance, fmi3Error, message);
}

/* Unless there are none of them */
static fmi3Status no_variables(fmi3Instance instance, size_t count) {
    return count == 0 ? fmi3OK : refused(instance, "all variables of the model are Float64");
}

static fmi3Status no_clocks(fmi3Instance instance) {
    return refused(instance, "the model has no clocks");
}

/* From one phase to another */
static fmi3Status moves(fmi3Instance instance, ks_phase from, ks_phase to) {
    ks_instance *s = instance;
    if (s->now.phase != from) return refused(s, "the function is not allowed in this mode");
    s->now.phase = to;
    return fmi3OK;
}

/* -- its life ------------------------------------------------------------------------------------- */

API const char *fmi3GetVersion(void) { return "3.0"; }

API fmi3Status fmi3SetDebugLogging(fmi3Instance instance, fmi3Boolean on, size_t count,
                                   const fmi3String categories[]) {
    (void)instance, (void)on, (void)count, (void)categories;
    return fmi3OK;
}

static fmi3Instance instantiated(fmi3String name, fmi3String token, bool steps,
                                 fmi3InstanceEnvironment environment, fmi3LogMessageCallback tell) {
    ks_instance *s = ks_new(name, token, steps);
    if (!s) {
        if (tell)
            tell(environment, fmi3Error, "logStatus",
                 "no memory, a model for co-simulation alone, or not its instantiation token, " KS_TOKEN);
        return NULL;
    }
    s->environment = environment;
    s->tell = (void (*)(void))tell;
    return s;
}

API fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources,
                                              fmi3Boolean visible, fmi3Boolean logs,
                                              fmi3InstanceEnvironment environment,
                                              fmi3LogMessageCallback tell) {
    (void)resources, (void)visible, (void)logs;
    return instantiated(name, token, false, environment, tell);
}

API fmi3Instance fmi3InstantiateCoSimulation(
    fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible, fmi3Boolean logs,
    fmi3Boolean event_mode, fmi3Boolean early, const fmi3ValueReference intermediate[], size_t count,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback tell,
    fmi3IntermediateUpdateCallback update) {
    (void)resources, (void)visible, (void)logs, (void)event_mode, (void)early, (void)intermediate;
    (void)count, (void)update;
    return instantiated(name, token, true, environment, tell);
}

API fmi3Instance fmi3InstantiateScheduledExecution(
    fmi3String name, fmi3String token, fmi3String resources, fmi3Boolean visible, fmi3Boolean logs,
    fmi3InstanceEnvironment environment, fmi3LogMessageCallback tell, fmi3ClockUpdateCallback update,
    fmi3LockPreemptionCallback lock, fmi3UnlockPreemptionCallback unlock) {
    (void)name, (void)token, (void)resources, (void)visible, (void)logs, (void)update;
    (void)lock, (void)unlock;
    if (tell) tell(environment, fmi3Error, "logStatus", "the model has no scheduled execution");
    return NULL;
}

API void fmi3FreeInstance(fmi3Instance instance) { ks_free(instance); }

API fmi3Status fmi3EnterInitializationMode(fmi3Instance instance, fmi3Boolean has_tolerance,
                                           fmi3Float64 tolerance, fmi3Float64 start,
                                           fmi3Boolean has_stop, fmi3Float64 stop) {
    ks_instance *s = instance;
    (void)has_tolerance, (void)tolerance, (void)has_stop, (void)stop;
    const fmi3Status status = moves(s, KS_INSTANTIATED, KS_INITIALISING);
    if (status == fmi3OK) s->now.time = start, ks_changed(s);
    return status;
}

API fmi3Status fmi3ExitInitializationMode(fmi3Instance instance) {
    ks_instance *s = instance;
    const fmi3Status status = moves(s, KS_INITIALISING, s->steps ? KS_STEPPING : KS_EVENTS);
    return status == fmi3OK ? status_of(s, ks_initialised(s)) : status;
}

API fmi3Status fmi3EnterEventMode(fmi3Instance instance) {
    return moves(instance, KS_CONTINUOUS, KS_EVENTS);
}

API fmi3Status fmi3EnterContinuousTimeMode(fmi3Instance instance) {
    return moves(instance, KS_EVENTS, KS_CONTINUOUS);
}

API fmi3Status fmi3EnterStepMode(fmi3Instance instance) {
    return refused(instance, "co-simulation has no event mode");
}

API fmi3Status fmi3EnterConfigurationMode(fmi3Instance instance) {
    return refused(instance, "the model has no structural parameters");
}

API fmi3Status fmi3ExitConfigurationMode(fmi3Instance instance) {
    return fmi3EnterConfigurationMode(instance);
}

API fmi3Status fmi3Terminate(fmi3Instance instance) {
    ks_instance *s = instance;
    s->now.phase = KS_TERMINATED;
    return fmi3OK;
}

API fmi3Status fmi3Reset(fmi3Instance instance) {
    ks_reset(instance);
    return fmi3OK;
}

/* -- values --------------------------------------------------------------------------------------- */

API fmi3Status fmi3GetFloat64(NONE, fmi3Float64 values[], size_t n) {
    if (n != count) return refused(instance, "all variables are scalars");
    return status_of(instance, ks_get(instance, reference, count, values));
}

API fmi3Status fmi3SetFloat64(NONE, const fmi3Float64 values[], size_t n) {
    if (n != count) return refused(instance, "all variables are scalars");
    return status_of(instance, ks_set(instance, reference, count, values));
}

#define NO_VALUES(type)                                                       \
    API fmi3Status fmi3Get##type(NONE, fmi3##type values[], size_t n) {       \
        (void)reference, (void)values, (void)n;                               \
        return no_variables(instance, count);                                 \
    }                                                                         \
    API fmi3Status fmi3Set##type(NONE, const fmi3##type values[], size_t n) { \
        (void)reference, (void)values, (void)n;                               \
        return no_variables(instance, count);                                 \
    }

NO_VALUES(Float32)
NO_VALUES(Int8)
NO_VALUES(UInt8)
NO_VALUES(Int16)
NO_VALUES(UInt16)
NO_VALUES(Int32)
NO_VALUES(UInt32)
NO_VALUES(Int64)
NO_VALUES(UInt64)
NO_VALUES(Boolean)
NO_VALUES(String)

API fmi3Status fmi3GetBinary(NONE, size_t sizes[], fmi3Binary values[], size_t n) {
    (void)reference, (void)sizes, (void)values, (void)n;
    return no_variables(instance, count);
}

API fmi3Status fmi3SetBinary(NONE, const size_t sizes[], const fmi3Binary values[], size_t n) {
    (void)reference, (void)sizes, (void)values, (void)n;
    return no_variables(instance, count);
}

/* -- what the model does not have ----------------------------------------------------------------- */

API fmi3Status fmi3GetClock(NONE, fmi3Clock values[]) {
    (void)reference, (void)values;
    return no_variables(instance, count);
}

API fmi3Status fmi3SetClock(NONE, const fmi3Clock values[]) {
    (void)reference, (void)values;
    return no_variables(instance, count);
}

API fmi3Status fmi3GetIntervalDecimal(NONE, fmi3Float64 intervals[], fmi3IntervalQualifier kinds[]) {
    (void)reference, (void)count, (void)intervals, (void)kinds;
    return no_clocks(instance);
}

API fmi3Status fmi3GetIntervalFraction(NONE, fmi3UInt64 counters[], fmi3UInt64 resolutions[],
                                       fmi3IntervalQualifier kinds[]) {
    (void)reference, (void)count, (void)counters, (void)resolutions, (void)kinds;
    return no_clocks(instance);
}

API fmi3Status fmi3GetShiftDecimal(NONE, fmi3Float64 shifts[]) {
    (void)reference, (void)count, (void)shifts;
    return no_clocks(instance);
}

API fmi3Status fmi3GetShiftFraction(NONE, fmi3UInt64 counters[], fmi3UInt64 resolutions[]) {
    (void)reference, (void)count, (void)counters, (void)resolutions;
    return no_clocks(instance);
}

API fmi3Status fmi3SetIntervalDecimal(NONE, const fmi3Float64 intervals[]) {
    (void)reference, (void)count, (void)intervals;
    return no_clocks(instance);
}

API fmi3Status fmi3SetIntervalFraction(NONE, const fmi3UInt64 counters[],
                                       const fmi3UInt64 resolutions[]) {
    (void)reference, (void)count, (void)counters, (void)resolutions;
    return no_clocks(instance);
}

API fmi3Status fmi3SetShiftDecimal(NONE, const fmi3Float64 shifts[]) {
    (void)reference, (void)count, (void)shifts;
    return no_clocks(instance);
}

API fmi3Status fmi3SetShiftFraction(NONE, const fmi3UInt64 counters[],
                                    const fmi3UInt64 resolutions[]) {
    (void)reference, (void)count, (void)counters, (void)resolutions;
    return no_clocks(instance);
}

API fmi3Status fmi3ActivateModelPartition(fmi3Instance instance, fmi3ValueReference clock,
                                          fmi3Float64 time) {
    (void)clock, (void)time;
    return no_clocks(instance);
}

API fmi3Status fmi3GetNumberOfVariableDependencies(fmi3Instance instance, fmi3ValueReference of,
                                                   size_t *count) {
    (void)of, (void)count;
    return refused(instance, "dependencies are those of the model description");
}

API fmi3Status fmi3GetVariableDependencies(fmi3Instance instance, fmi3ValueReference dependent,
                                           size_t elements[], fmi3ValueReference independents[],
                                           size_t of_independents[], fmi3DependencyKind kinds[],
                                           size_t count) {
    (void)dependent, (void)elements, (void)independents, (void)of_independents, (void)kinds;
    (void)count;
    return refused(instance, "dependencies are those of the model description");
}

API fmi3Status fmi3GetOutputDerivatives(NONE, const fmi3Int32 orders[], fmi3Float64 values[],
                                        size_t n) {
    (void)reference, (void)count, (void)orders, (void)values, (void)n;
    return refused(instance, "derivatives of outputs by time are not given");
}

API fmi3Status fmi3EvaluateDiscreteStates(fmi3Instance instance) {
    (void)instance;
    return fmi3OK;
}

/* -- states of the FMU ---------------------------------------------------------------------------- */

API fmi3Status fmi3GetFMUState(fmi3Instance instance, fmi3FMUState *state) {
    ks_instance *s = instance;
    if (!*state) *state = malloc(sizeof(ks_state));
    if (!*state) return refused(s, "no memory");
    memcpy(*state, &s->now, sizeof(ks_state));
    return fmi3OK;
}

API fmi3Status fmi3SetFMUState(fmi3Instance instance, fmi3FMUState state) {
    ks_instance *s = instance;
    memcpy(&s->now, state, sizeof(ks_state));
    ks_changed(s);
    return fmi3OK;
}

API fmi3Status fmi3FreeFMUState(fmi3Instance instance, fmi3FMUState *state) {
    (void)instance;
    free(*state);
    *state = NULL;
    return fmi3OK;
}

API fmi3Status fmi3SerializedFMUStateSize(fmi3Instance instance, fmi3FMUState state, size_t *size) {
    (void)instance, (void)state;
    *size = sizeof(ks_state);
    return fmi3OK;
}

API fmi3Status fmi3SerializeFMUState(fmi3Instance instance, fmi3FMUState state, fmi3Byte bytes[],
                                     size_t size) {
    if (size != sizeof(ks_state)) return refused(instance, "the size is not that of a state");
    memcpy(bytes, state, size);
    return fmi3OK;
}

API fmi3Status fmi3DeserializeFMUState(fmi3Instance instance, const fmi3Byte bytes[], size_t size,
                                       fmi3FMUState *state) {
    if (size != sizeof(ks_state)) return refused(instance, "the size is not that of a state");
    if (!*state) *state = malloc(size);
    if (!*state) return refused(instance, "no memory");
    memcpy(*state, bytes, size);
    return fmi3OK;
}

/* -- derivatives ---------------------------------------------------------------------------------- */

API fmi3Status fmi3GetDirectionalDerivative(fmi3Instance instance, const fmi3ValueReference unknown[],
                                            size_t unknowns, const fmi3ValueReference known[],
                                            size_t knowns, const fmi3Float64 seed[], size_t seeds,
                                            fmi3Float64 product[], size_t products) {
    if (seeds != knowns || products != unknowns) return refused(instance, "sizes do not agree");
    return status_of(instance, ks_derivative(instance, false, unknown, unknowns, known, knowns, seed,
                                             product));
}

API fmi3Status fmi3GetAdjointDerivative(fmi3Instance instance, const fmi3ValueReference unknown[],
                                        size_t unknowns, const fmi3ValueReference known[],
                                        size_t knowns, const fmi3Float64 seed[], size_t seeds,
                                        fmi3Float64 product[], size_t products) {
    if (seeds != unknowns || products != knowns) return refused(instance, "sizes do not agree");
    return status_of(instance, ks_derivative(instance, true, unknown, unknowns, known, knowns, seed,
                                             product));
}

/* -- model exchange ------------------------------------------------------------------------------- */

API fmi3Status fmi3UpdateDiscreteStates(fmi3Instance instance, fmi3Boolean *again, fmi3Boolean *ends,
                                        fmi3Boolean *nominals, fmi3Boolean *moved,
                                        fmi3Boolean *has_next, fmi3Float64 *next) {
    ks_instance *s = instance;
    *again = *nominals = *has_next = false;
    *next = 0.0;
    if (s->now.phase != KS_EVENTS) return refused(s, "the function is not allowed in this mode");
    return status_of(s, ks_update(s, moved, ends));
}

API fmi3Status fmi3CompletedIntegratorStep(fmi3Instance instance, fmi3Boolean no_return,
                                           fmi3Boolean *event, fmi3Boolean *ends) {
    (void)no_return;
    *event = *ends = false;
    return status_of(instance, ks_completed(instance));
}

API fmi3Status fmi3SetTime(fmi3Instance instance, fmi3Float64 time) {
    ks_instance *s = instance;
    const fmi3Status status = moves(s, KS_CONTINUOUS, KS_CONTINUOUS);
    if (status == fmi3OK) s->now.time = time, ks_changed(s);
    return status;
}

API fmi3Status fmi3SetContinuousStates(fmi3Instance instance, const fmi3Float64 x[], size_t n) {
    ks_instance *s = instance;
    if (n != KS_N_STATES) return refused(s, "the number of states is not that of the model");
    const fmi3Status status = moves(s, KS_CONTINUOUS, KS_CONTINUOUS);
    if (status == fmi3OK) memcpy(s->now.x, x, n * sizeof *x), ks_changed(s);
    return status;
}

API fmi3Status fmi3GetContinuousStateDerivatives(fmi3Instance instance, fmi3Float64 dx[], size_t n) {
    ks_instance *s = instance;
    if (n != KS_N_STATES) return refused(s, "the number of states is not that of the model");
    const char *complaint = ks_know_rates(s);
    if (!complaint) memcpy(dx, s->rates, n * sizeof *dx);
    return status_of(s, complaint);
}

API fmi3Status fmi3GetEventIndicators(fmi3Instance instance, fmi3Float64 values[], size_t n) {
    if (n != KS_N_EVENTS) return refused(instance, "the number of events is not that of the model");
    return n == 0 ? fmi3OK : status_of(instance, ks_indicators(instance, values));
}

API fmi3Status fmi3GetContinuousStates(fmi3Instance instance, fmi3Float64 x[], size_t n) {
    ks_instance *s = instance;
    if (n != KS_N_STATES) return refused(s, "the number of states is not that of the model");
    memcpy(x, s->now.x, n * sizeof *x);
    return fmi3OK;
}

API fmi3Status fmi3GetNominalsOfContinuousStates(fmi3Instance instance, fmi3Float64 nominals[],
                                                 size_t n) {
    (void)instance;
    for (size_t i = 0; i < n; i++) nominals[i] = 1.0;
    return fmi3OK;
}

API fmi3Status fmi3GetNumberOfEventIndicators(fmi3Instance instance, size_t *n) {
    (void)instance;
    *n = KS_N_EVENTS;
    return fmi3OK;
}

API fmi3Status fmi3GetNumberOfContinuousStates(fmi3Instance instance, size_t *n) {
    (void)instance;
    *n = KS_N_STATES;
    return fmi3OK;
}

/* -- co-simulation -------------------------------------------------------------------------------- */

API fmi3Status fmi3DoStep(fmi3Instance instance, fmi3Float64 time, fmi3Float64 length,
                          fmi3Boolean no_return, fmi3Boolean *event, fmi3Boolean *ends,
                          fmi3Boolean *early, fmi3Float64 *last) {
    ks_instance *s = instance;
    (void)no_return;
    *event = *early = *ends = false;
    if (s->now.phase != KS_STEPPING) return refused(s, "the function is not allowed in this mode");
    const char *complaint = ks_advance(s, time, time + length, ends);
    *last = s->now.time;
    return status_of(s, complaint);
}
