/* One instance of a model, whichever version of FMI asks.
 *
 * A complaint is a sentence, or NULL if all is well. Value references count the groups of variables in
 * the order of `ks_group`.
 */
#ifndef KS_FMI_INSTANCE_H
#define KS_FMI_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "fmi-model.h"

#define KS_N_CONTROLS (KS_N_INPUTS + KS_N_MODES) /* what the functions of the model call inputs */
#define KS_N_VALUES (KS_N_OUTPUTS + 2 * KS_N_EVENTS + KS_N_CHANGES) /* and outputs */

typedef enum {
    KS_TIME,
    KS_STATES,
    KS_RATES,
    KS_INPUTS,
    KS_PARAMETERS,
    KS_OUTPUTS,
    KS_MODES,
    KS_INDICATORS,
    KS_GROUPS
} ks_group;

typedef enum {
    KS_INSTANTIATED,
    KS_INITIALISING,
    KS_EVENTS,
    KS_CONTINUOUS,
    KS_STEPPING,
    KS_TERMINATED
} ks_phase;

/* A function of the model, or the entries of one of its Jacobians */
typedef int ks_function(const double *dx, const double *x, const double *u, const double *p, double t,
                        double *out);

/* A Jacobian by columns; one without entries has no function. */
typedef struct {
    ks_function *entries;
    const int *begin, *row;
    int columns, first; /* of its entries among all */
} ks_jacobian;

/* direction, whether it is also found beyond zero after other events, whether it ends a simulation,
 * and its changes: first ... first + count - 1 */
typedef struct {
    int direction, level, stop, first, count;
} ks_event;

/* What a change sets: a state, or a mode */
typedef struct {
    int mode, target;
} ks_change;

/* fmi-model.c */
extern const double ks_start_states[], ks_start_controls[], ks_start_parameters[];
extern ks_function ks_rates, ks_values;
int ks_step(const double *x, const double *u, const double *p, double t, double h, double *x_next);
/* of rates and values by x', states, controls and parameters */
extern const ks_jacobian ks_jacobians[2][4];
extern const ks_event ks_events[];
extern const ks_change ks_changes[];

/* All that a simulation is at one time: what states of an FMU keep */
typedef struct {
    double time, x[KS_N_STATES + 1], u[KS_N_CONTROLS + 1], p[KS_N_PARAMETERS + 1];
    ks_phase phase;
    /* Where guards were at the last event: above zero, or, then, at zero still */
    bool above[KS_N_EVENTS + 1], rests[KS_N_EVENTS + 1];
    double seen[KS_N_EVENTS + 1], was[KS_N_EVENTS + 1]; /* when guards were last seen there, and what they were */
    /* Events that have just happened; when each did last, and how often within no time to speak of */
    bool came[KS_N_EVENTS + 1];
    double last[KS_N_EVENTS + 1];
    int often[KS_N_EVENTS + 1];
} ks_state;

typedef struct {
    ks_state now;
    unsigned known; /* which of these belong to now, a bit each */
    double rates[KS_N_STATES + 1], values[KS_N_VALUES + 1], entries[KS_N_ENTRIES + 1];
    bool steps; /* co-simulation */
    char *name;
    void *environment; /* of whoever is told complaints, by `tell` */
    void (*tell)(void);
} ks_instance;

extern const char *const ks_not_finite;

/* NULL for another model's token, and for model exchange of a model without explicit x' */
ks_instance *ks_new(const char *name, const char *token, bool steps);
void ks_free(ks_instance *s);
void ks_reset(ks_instance *s);
/* To be called when anything in `now` has changed */
void ks_changed(ks_instance *s);
const char *ks_know_rates(ks_instance *s);
const char *ks_indicators(ks_instance *s, double *out);
const char *ks_get(ks_instance *s, const unsigned *reference, size_t count, double *value);
const char *ks_set(ks_instance *s, const unsigned *reference, size_t count, const double *value);
/* Product of the derivatives of unknowns by knowns with a seed of knowns, or, transposed, of unknowns */
const char *ks_derivative(ks_instance *s, bool transposed, const unsigned *unknown, size_t unknowns,
                          const unsigned *known, size_t knowns, const double *seed, double *product);
const char *ks_initialised(ks_instance *s);
/* Guards that leave zero, after a step of an integrator */
const char *ks_completed(ks_instance *s);
/* Events that are due; whether they moved states, and whether the simulation ends */
const char *ks_update(ks_instance *s, bool *moved, bool *ends);
/* From time to end by steps of KS_STEP at most, which end at events */
const char *ks_advance(ks_instance *s, double time, double end, bool *ends);

#endif
