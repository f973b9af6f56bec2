/* The functions of FMI 2.0, for one instance of a model */
#include <stdlib.h>
#include <string.h>

#include "fmi-2-types.h"
#include "fmi-instance.h"

#ifdef _WIN32
#define API __declspec(dllexport)
#else
#define API __attribute__((visibility("default")))
#endif

#define SOME fmi2Component instance, const fmi2ValueReference reference[], size_t count

static fmi2Status told(ks_instance *s, fmi2Status status, const char *message) {
    fmi2CallbackLogger tell = (fmi2CallbackLogger)s->tell;
    if (tell) tell(s->environment, s->name, status, "logStatus", "%s", message);
    return status;
}

/* What a complaint is in FMI */
static fmi2Status status_of(ks_instance *s, const char *complaint) {
    if (!complaint) return fmi2OK;
    return told(s, complaint == ks_not_finite ? fmi2Discard : fmi2Error, complaint);
}

static fmi2Status refused(fmi2Component instance, const char *message) {
    return told(instance, fmi2Error, message);
}

/* Unless there are none of them */
static fmi2Status no_variables(fmi2Component instance, size_t count) {
    return count == 0 ? fmi2OK : refused(instance, "all variables of the model are Real");
}

/* From one phase to another */
static fmi2Status moves(fmi2Component instance, ks_phase from, ks_phase to) {
    ks_instance *s = instance;
    if (s->now.phase != from) return refused(s, "the function is not allowed in this mode");
    s->now.phase = to;
    return fmi2OK;
}

/* -- its life ------------------------------------------------------------------------------------- */

API const char *fmi2GetVersion(void) { return "2.0"; }

API const char *fmi2GetTypesPlatform(void) { return "default"; }

API fmi2Status fmi2SetDebugLogging(fmi2Component instance, fmi2Boolean on, size_t count,
                                   const fmi2String categories[]) {
    (void)instance, (void)on, (void)count, (void)categories;
    return fmi2OK;
}

API fmi2Component fmi2Instantiate(fmi2String name, fmi2Type type, fmi2String token,
                                  fmi2String resources, const fmi2CallbackFunctions *functions,
                                  fmi2Boolean visible, fmi2Boolean logs) {
    ks_instance *s = ks_new(name, token, type == fmi2CoSimulation);
    (void)resources, (void)visible, (void)logs;
    if (!s) {
        if (functions && functions->logger)
            functions->logger(functions->componentEnvironment, name, fmi2Error, "logStatus",
                              "no memory, a model for co-simulation alone, or not its GUID, " KS_TOKEN);
        return NULL;
    }
    if (functions) {
        s->environment = functions->componentEnvironment;
        s->tell = (void (*)(void))functions->logger;
    }
    return s;
}

API void fmi2FreeInstance(fmi2Component instance) { ks_free(instance); }

API fmi2Status fmi2SetupExperiment(fmi2Component instance, fmi2Boolean has_tolerance,
                                   fmi2Real tolerance, fmi2Real start, fmi2Boolean has_stop,
                                   fmi2Real stop) {
    ks_instance *s = instance;
    (void)has_tolerance, (void)tolerance, (void)has_stop, (void)stop;
    const fmi2Status status = moves(s, KS_INSTANTIATED, KS_INSTANTIATED);
    if (status == fmi2OK) s->now.time = start, ks_changed(s);
    return status;
}

API fmi2Status fmi2EnterInitializationMode(fmi2Component instance) {
    return moves(instance, KS_INSTANTIATED, KS_INITIALISING);
}

API fmi2Status fmi2ExitInitializationMode(fmi2Component instance) {
    ks_instance *s = instance;
    const fmi2Status status = moves(s, KS_INITIALISING, s->steps ? KS_STEPPING : KS_EVENTS);
    return status == fmi2OK ? status_of(s, ks_initialised(s)) : status;
}

API fmi2Status fmi2EnterEventMode(fmi2Component instance) {
    ks_instance *s = instance; /* it may be asked for twice */
    return moves(s, s->now.phase == KS_EVENTS ? KS_EVENTS : KS_CONTINUOUS, KS_EVENTS);
}

API fmi2Status fmi2EnterContinuousTimeMode(fmi2Component instance) {
    return moves(instance, KS_EVENTS, KS_CONTINUOUS);
}

API fmi2Status fmi2Terminate(fmi2Component instance) {
    ks_instance *s = instance;
    s->now.phase = KS_TERMINATED;
    return fmi2OK;
}

API fmi2Status fmi2Reset(fmi2Component instance) {
    ks_reset(instance);
    return fmi2OK;
}

/* -- values --------------------------------------------------------------------------------------- */

API fmi2Status fmi2GetReal(SOME, fmi2Real values[]) {
    return status_of(instance, ks_get(instance, reference, count, values));
}

API fmi2Status fmi2SetReal(SOME, const fmi2Real values[]) {
    return status_of(instance, ks_set(instance, reference, count, values));
}

#define NO_VALUES(type)                                             \
    API fmi2Status fmi2Get##type(SOME, fmi2##type values[]) {       \
        (void)reference, (void)values;                              \
        return no_variables(instance, count);                       \
    }                                                               \
    API fmi2Status fmi2Set##type(SOME, const fmi2##type values[]) { \
        (void)reference, (void)values;                              \
        return no_variables(instance, count);                       \
    }

NO_VALUES(Integer)
NO_VALUES(Boolean)
NO_VALUES(String)

API fmi2Status fmi2SetRealInputDerivatives(SOME, const fmi2Integer order[], const fmi2Real values[]) {
    (void)reference, (void)count, (void)order, (void)values;
    return refused(instance, "inputs are constant between communication points");
}

API fmi2Status fmi2GetRealOutputDerivatives(SOME, const fmi2Integer order[], fmi2Real values[]) {
    (void)reference, (void)count, (void)order, (void)values;
    return refused(instance, "derivatives of outputs by time are not given");
}

API fmi2Status fmi2GetDirectionalDerivative(fmi2Component instance, const fmi2ValueReference unknown[],
                                            size_t unknowns, const fmi2ValueReference known[],
                                            size_t knowns, const fmi2Real seed[],
                                            fmi2Real product[]) {
    return status_of(instance, ks_derivative(instance, false, unknown, unknowns, known, knowns, seed,
                                             product));
}

/* -- states of the FMU ---------------------------------------------------------------------------- */

API fmi2Status fmi2GetFMUstate(fmi2Component instance, fmi2FMUstate *state) {
    ks_instance *s = instance;
    if (!*state) *state = malloc(sizeof(ks_state));
    if (!*state) return refused(s, "no memory");
    memcpy(*state, &s->now, sizeof(ks_state));
    return fmi2OK;
}

API fmi2Status fmi2SetFMUstate(fmi2Component instance, fmi2FMUstate state) {
    ks_instance *s = instance;
    memcpy(&s->now, state, sizeof(ks_state));
    ks_changed(s);
    return fmi2OK;
}

API fmi2Status fmi2FreeFMUstate(fmi2Component instance, fmi2FMUstate *state) {
    (void)instance;
    free(*state);
    *state = NULL;
    return fmi2OK;
}

API fmi2Status fmi2SerializedFMUstateSize(fmi2Component instance, fmi2FMUstate state, size_t *size) {
    (void)instance, (void)state;
    *size = sizeof(ks_state);
    return fmi2OK;
}

API fmi2Status fmi2SerializeFMUstate(fmi2Component instance, fmi2FMUstate state, fmi2Byte bytes[],
                                     size_t size) {
    if (size != sizeof(ks_state)) return refused(instance, "the size is not that of a state");
    memcpy(bytes, state, size);
    return fmi2OK;
}

API fmi2Status fmi2DeSerializeFMUstate(fmi2Component instance, const fmi2Byte bytes[], size_t size,
                                       fmi2FMUstate *state) {
    if (size != sizeof(ks_state)) return refused(instance, "the size is not that of a state");
    if (!*state) *state = malloc(size);
    if (!*state) return refused(instance, "no memory");
    memcpy(*state, bytes, size);
    return fmi2OK;
}

/* -- model exchange ------------------------------------------------------------------------------- */

API fmi2Status fmi2NewDiscreteStates(fmi2Component instance, fmi2EventInfo *about) {
    ks_instance *s = instance;
    bool moved = false, ends = false;
    memset(about, 0, sizeof *about);
    if (s->now.phase != KS_EVENTS) return refused(s, "the function is not allowed in this mode");
    const char *complaint = ks_update(s, &moved, &ends);
    about->valuesOfContinuousStatesChanged = moved;
    about->terminateSimulation = ends;
    return status_of(s, complaint);
}

API fmi2Status fmi2CompletedIntegratorStep(fmi2Component instance, fmi2Boolean no_return,
                                           fmi2Boolean *event, fmi2Boolean *ends) {
    (void)no_return;
    *event = *ends = 0;
    return status_of(instance, ks_completed(instance));
}

API fmi2Status fmi2SetTime(fmi2Component instance, fmi2Real time) {
    ks_instance *s = instance; /* before the first continuous mode, too */
    s->now.time = time;
    ks_changed(s);
    return fmi2OK;
}

API fmi2Status fmi2SetContinuousStates(fmi2Component instance, const fmi2Real x[], size_t n) {
    ks_instance *s = instance;
    if (n != KS_N_STATES) return refused(s, "the number of states is not that of the model");
    const fmi2Status status = moves(s, KS_CONTINUOUS, KS_CONTINUOUS);
    if (status == fmi2OK) memcpy(s->now.x, x, n * sizeof *x), ks_changed(s);
    return status;
}

API fmi2Status fmi2GetDerivatives(fmi2Component instance, fmi2Real dx[], size_t n) {
    ks_instance *s = instance;
    if (n != KS_N_STATES) return refused(s, "the number of states is not that of the model");
    const char *complaint = ks_know_rates(s);
    if (!complaint) memcpy(dx, s->rates, n * sizeof *dx);
    return status_of(s, complaint);
}

API fmi2Status fmi2GetEventIndicators(fmi2Component instance, fmi2Real values[], size_t n) {
    if (n != KS_N_EVENTS) return refused(instance, "the number of events is not that of the model");
    return n == 0 ? fmi2OK : status_of(instance, ks_indicators(instance, values));
}

API fmi2Status fmi2GetContinuousStates(fmi2Component instance, fmi2Real x[], size_t n) {
    ks_instance *s = instance;
    if (n != KS_N_STATES) return refused(s, "the number of states is not that of the model");
    memcpy(x, s->now.x, n * sizeof *x);
    return fmi2OK;
}

API fmi2Status fmi2GetNominalsOfContinuousStates(fmi2Component instance, fmi2Real nominals[],
                                                 size_t n) {
    (void)instance;
    for (size_t i = 0; i < n; i++) nominals[i] = 1.0;
    return fmi2OK;
}

/* -- co-simulation -------------------------------------------------------------------------------- */

API fmi2Status fmi2DoStep(fmi2Component instance, fmi2Real time, fmi2Real length,
                          fmi2Boolean no_return) {
    ks_instance *s = instance;
    bool ends = false;
    (void)no_return;
    if (s->now.phase != KS_STEPPING) return refused(s, "the function is not allowed in this mode");
    const char *complaint = ks_advance(s, time, time + length, &ends);
    if (!complaint && ends) { /* what was reached: fmi2LastSuccessfulTime */
        s->now.phase = KS_TERMINATED;
        return fmi2Discard;
    }
    return status_of(s, complaint);
}

API fmi2Status fmi2CancelStep(fmi2Component instance) {
    return refused(instance, "steps are not asynchronous");
}

API fmi2Status fmi2GetStatus(fmi2Component instance, const fmi2StatusKind kind, fmi2Status *value) {
    (void)kind, (void)value;
    return refused(instance, "steps are not asynchronous");
}

API fmi2Status fmi2GetRealStatus(fmi2Component instance, const fmi2StatusKind kind, fmi2Real *value) {
    ks_instance *s = instance;
    if (kind != fmi2LastSuccessfulTime) return refused(s, "steps are not asynchronous");
    *value = s->now.time;
    return fmi2OK;
}

API fmi2Status fmi2GetIntegerStatus(fmi2Component instance, const fmi2StatusKind kind,
                                    fmi2Integer *value) {
    (void)kind, (void)value;
    return refused(instance, "steps are not asynchronous");
}

API fmi2Status fmi2GetBooleanStatus(fmi2Component instance, const fmi2StatusKind kind,
                                    fmi2Boolean *value) {
    ks_instance *s = instance;
    if (kind != fmi2Terminated) return refused(s, "steps are not asynchronous");
    *value = s->now.phase == KS_TERMINATED;
    return fmi2OK;
}

API fmi2Status fmi2GetStringStatus(fmi2Component instance, const fmi2StatusKind kind,
                                   fmi2String *value) {
    (void)kind, (void)value;
    return refused(instance, "steps are not asynchronous");
}
