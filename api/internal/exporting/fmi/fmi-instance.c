/* One instance of a model, whichever version of FMI asks */
#include "fmi-instance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHORTEST 1e-6 /* steps of this share of KS_STEP fail for good */
#define MOST_AT_ONCE 1000 /* events at one time, beyond which they never end */
#define MOST_OF_ONE 6 /* times that one event follows itself within NO_TIME: it comes ever faster */
#define NO_TIME (1e-4 * KS_STEP)

enum { RATES = 1, VALUES = 2, JACOBIANS = 4 }; /* bits of `known`, that of the first Jacobian last */

const char *const ks_not_finite = "a value of the model is not finite; take shorter steps";

static const size_t sizes[KS_GROUPS] = {
    1,           KS_N_STATES,  KS_N_RATES, KS_N_INPUTS, KS_N_PARAMETERS,
    KS_N_OUTPUTS, KS_N_MODES, KS_N_EVENTS,
};

/* -- its life ------------------------------------------------------------------------------------- */

ks_instance *ks_new(const char *name, const char *token, bool steps) {
    ks_instance *s = NULL;
    const bool possible = steps || KS_N_RATES == KS_N_STATES;
    if (possible && token && strcmp(token, KS_TOKEN) == 0) s = calloc(1, sizeof *s);
    if (!s) return NULL;
    const size_t length = strlen(name ? name : "") + 1;
    s->name = malloc(length);
    if (!s->name) {
        free(s);
        return NULL;
    }
    memcpy(s->name, name ? name : "", length);
    s->steps = steps;
    ks_reset(s);
    return s;
}

void ks_free(ks_instance *s) {
    if (s) free(s->name);
    free(s);
}

void ks_reset(ks_instance *s) {
    memset(&s->now, 0, sizeof s->now);
    memcpy(s->now.x, ks_start_states, KS_N_STATES * sizeof(double));
    memcpy(s->now.u, ks_start_controls, KS_N_CONTROLS * sizeof(double));
    memcpy(s->now.p, ks_start_parameters, KS_N_PARAMETERS * sizeof(double));
    s->now.phase = KS_INSTANTIATED;
    ks_changed(s);
}

void ks_changed(ks_instance *s) { s->known = 0; }

/* -- values --------------------------------------------------------------------------------------- */

const char *ks_know_rates(ks_instance *s) {
    const ks_state *n = &s->now;
    if (KS_N_RATES > 0 && !(s->known & RATES) &&
        ks_rates(NULL, n->x, n->u, n->p, n->time, s->rates))
        return ks_not_finite;
    s->known |= RATES;
    return NULL;
}

static const char *know_values(ks_instance *s) {
    const ks_state *n = &s->now;
    if (s->known & VALUES) return NULL;
    const char *complaint = ks_know_rates(s);
    if (complaint) return complaint;
    if (KS_N_VALUES > 0 && ks_values(s->rates, n->x, n->u, n->p, n->time, s->values))
        return ks_not_finite;
    s->known |= VALUES;
    return NULL;
}

/* Entries of a Jacobian that belong to now, in `found` */
static const char *know_jacobian(ks_instance *s, int of, int by, const double **found) {
    const ks_jacobian *j = &ks_jacobians[of][by];
    const ks_state *n = &s->now;
    const unsigned bit = (unsigned)JACOBIANS << (4 * of + by);
    const char *complaint = ks_know_rates(s);
    *found = s->entries + j->first;
    if (complaint || s->known & bit) return complaint;
    if (j->entries(s->rates, n->x, n->u, n->p, n->time, s->entries + j->first)) return ks_not_finite;
    s->known |= bit;
    return NULL;
}

/* Guards and then what arms them */
static const double *guards(const ks_instance *s) { return s->values + KS_N_OUTPUTS; }

static bool armed(const ks_instance *s, int k) { return guards(s)[KS_N_EVENTS + k] > 0.0; }

/* The group of a value reference, and the number in it; KS_GROUPS if there is none */
static ks_group place(size_t reference, size_t *number) {
    ks_group group = KS_TIME;
    while (group < KS_GROUPS && reference >= sizes[group]) reference -= sizes[group++];
    *number = reference;
    return group;
}

static const char *get_one(ks_instance *s, ks_group group, size_t k, double *value) {
    double indicators[KS_N_EVENTS + 1];
    const char *complaint = NULL;
    if (group == KS_RATES) complaint = ks_know_rates(s);
    if (group == KS_OUTPUTS) complaint = know_values(s);
    if (group == KS_INDICATORS) complaint = ks_indicators(s, indicators);
    if (complaint) return complaint;
    switch (group) {
        case KS_TIME: *value = s->now.time; return NULL;
        case KS_STATES: *value = s->now.x[k]; return NULL;
        case KS_RATES: *value = s->rates[k]; return NULL;
        case KS_INPUTS: *value = s->now.u[k]; return NULL;
        case KS_PARAMETERS: *value = s->now.p[k]; return NULL;
        case KS_OUTPUTS: *value = s->values[k]; return NULL;
        case KS_MODES: *value = s->now.u[KS_N_INPUTS + k]; return NULL;
        case KS_INDICATORS: *value = indicators[k]; return NULL;
        default: return "a value reference is none of this model";
    }
}

const char *ks_get(ks_instance *s, const unsigned *reference, size_t count, double *value) {
    const char *complaint = NULL;
    for (size_t i = 0, k; i < count && !complaint; i++) {
        const ks_group group = place(reference[i], &k);
        complaint = get_one(s, group, k, value + i);
    }
    return complaint;
}

/* Where a variable is that may be set now; NULL with a complaint if it may not */
static double *settable(ks_instance *s, ks_group group, size_t k, const char **complaint) {
    const bool before = s->now.phase <= KS_INITIALISING;
    *complaint = NULL;
    if (group == KS_INPUTS) return s->now.u + k;
    if (group == KS_PARAMETERS && s->now.phase != KS_CONTINUOUS) return s->now.p + k;
    if (group == KS_STATES && before) return s->now.x + k;
    if (group == KS_MODES && before) return s->now.u + KS_N_INPUTS + k;
    *complaint = group == KS_PARAMETERS ? "parameters change in event mode, not between events"
                 : group == KS_STATES || group == KS_MODES
                     ? "start values are set before the end of initialisation"
                 : group == KS_GROUPS ? "a value reference is none of this model"
                                      : "what is calculated, and the time, cannot be set";
    return NULL;
}

const char *ks_set(ks_instance *s, const unsigned *reference, size_t count, const double *value) {
    const char *complaint = NULL;
    ks_changed(s);
    for (size_t i = 0, k; i < count && !complaint; i++) {
        const ks_group group = place(reference[i], &k);
        double *target = settable(s, group, k, &complaint);
        if (target) *target = value[i];
    }
    return complaint;
}

/* -- derivatives ---------------------------------------------------------------------------------- */

/* Vectors that go through Jacobians: x' twice, as a result and as an argument */
typedef struct {
    double rates[KS_N_STATES + 1], values[KS_N_VALUES + 1], x[KS_N_STATES + 1],
        u[KS_N_CONTROLS + 1], p[KS_N_PARAMETERS + 1];
} seeds;

static double *seed_of(seeds *v, unsigned reference, bool unknown) {
    size_t k;
    const ks_group group = place(reference, &k);
    if (unknown)
        return group == KS_STATES       ? v->x + k /* they are outputs, too */
               : group == KS_RATES      ? v->rates + k
               : group == KS_OUTPUTS    ? v->values + k
               : group == KS_INDICATORS ? v->values + KS_N_OUTPUTS + k
                                        : NULL;
    return group == KS_STATES       ? v->x + k
           : group == KS_INPUTS     ? v->u + k
           : group == KS_PARAMETERS ? v->p + k
                                    : NULL;
}

/* out += J in, or in += J' out */
static const char *multiply(ks_instance *s, bool transposed, int of, int by, double *in, double *out) {
    const ks_jacobian *j = &ks_jacobians[of][by];
    const double *entry;
    if (!j->entries) return NULL;
    const char *complaint = know_jacobian(s, of, by, &entry);
    for (int c = 0; c < j->columns && !complaint; c++)
        for (int e = j->begin[c]; e < j->begin[c + 1]; e++) {
            if (transposed)
                in[c] += entry[e] * out[j->row[e]];
            else
                out[j->row[e]] += entry[e] * in[c];
        }
    return complaint;
}

const char *ks_derivative(ks_instance *s, bool transposed, const unsigned *unknown, size_t unknowns,
                          const unsigned *known, size_t knowns, const double *seed, double *product) {
    seeds *v = calloc(1, sizeof *v);
    const char *complaint = v ? NULL : "no memory";
    if (KS_N_RATES < KS_N_STATES) complaint = "a model without explicit x' gives no derivatives";
    for (size_t i = 0; i < unknowns && !complaint; i++)
        if (!seed_of(v, unknown[i], true)) complaint = "unknowns are derivatives of states, outputs "
                                                       "or event indicators";
    for (size_t i = 0; i < knowns && !complaint; i++)
        if (!seed_of(v, known[i], false)) complaint = "knowns are states, inputs or parameters";
    for (size_t i = 0; i < (transposed ? unknowns : knowns) && !complaint; i++)
        *seed_of(v, transposed ? unknown[i] : known[i], transposed) += seed[i];
    for (int n = 0; n < 2 && !complaint; n++) {
        const int of = transposed ? 1 - n : n; /* values follow from rates */
        double *out = of ? v->values : v->rates, *in[4] = {v->rates, v->x, v->u, v->p};
        for (int by = 0; by < 4 && !complaint; by++)
            complaint = multiply(s, transposed, of, by, in[by], out);
    }
    for (size_t i = 0; i < (transposed ? knowns : unknowns) && !complaint; i++)
        product[i] = *seed_of(v, transposed ? known[i] : unknown[i], !transposed);
    free(v);
    return complaint;
}

/* -- events --------------------------------------------------------------------------------------- */

/* The side of zero where a guard is now; one at zero rests there, on the side that it came to */
static void note_side(ks_instance *s, int k) {
    const double guard = guards(s)[k];
    s->now.rests[k] = !(guard > 0.0 || guard < 0.0);
    if (!s->now.rests[k]) s->now.above[k] = guard > 0.0;
}

static void note_sides(ks_instance *s) {
    for (int k = 0; k < KS_N_EVENTS; k++) note_side(s, k);
}

const char *ks_completed(ks_instance *s) {
    const char *complaint = KS_N_EVENTS > 0 ? know_values(s) : NULL;
    for (int k = 0; k < KS_N_EVENTS && !complaint; k++)
        if (s->now.rests[k]) note_side(s, k);
    return complaint;
}

/* Whether a guard has come to zero, or beyond, from the side where it was at the last event */
static bool crosses(const ks_instance *s, int k) {
    const double guard = guards(s)[k];
    if (s->now.above[k]) return guard < 0.0 || (guard <= 0.0 && !s->now.rests[k]);
    return guard > 0.0 || (guard >= 0.0 && !s->now.rests[k]);
}

const char *ks_indicators(ks_instance *s, double *out) {
    const char *complaint = know_values(s);
    for (int k = 0; k < KS_N_EVENTS && !complaint; k++) {
        out[k] = armed(s, k) ? guards(s)[k] : 1.0;
        if (!crosses(s, k))
            s->now.seen[k] = s->now.time, s->now.was[k] = guards(s)[k];
    }
    return complaint;
}

static bool comes(const ks_instance *s, int k) {
    return crosses(s, k) && ks_events[k].direction != (s->now.above[k] ? 1 : -1);
}

static bool happens(const ks_instance *s, int k) { return armed(s, k) && comes(s, k); }

/* Whether a guard comes now, on a line since an importer last looked at it; steps of co-simulation end there */
static bool comes_now(const ks_instance *s, int k) {
    if (!comes(s, k) || armed(s, k) || s->steps) return comes(s, k);
    const double beyond = fabs(guards(s)[k]), since = s->now.time - s->now.seen[k];
    return beyond * since <= NO_TIME * (beyond + fabs(s->now.was[k]));
}

/* What has crossed unheard is no crossing at the time of an event after it */
static void forget_unarmed(ks_instance *s) {
    for (int k = 0; k < KS_N_EVENTS; k++)
        if (!armed(s, k)) note_side(s, k);
}

static void happen(ks_instance *s, const ks_event *event, bool *moved) {
    const double *value = guards(s) + 2 * KS_N_EVENTS;
    for (int c = event->first; c < event->first + event->count; c++) {
        const ks_change change = ks_changes[c];
        if (change.mode)
            s->now.u[KS_N_INPUTS + change.target] = value[c];
        else
            s->now.x[change.target] = value[c], *moved = true;
    }
    ks_changed(s);
}

/* Whether an event comes too often */
static bool crowds(ks_state *now, int k) {
    const bool again = now->often[k] > 0 && now->time - now->last[k] < NO_TIME;
    now->often[k] = again ? now->often[k] + 1 : 1;
    now->last[k] = now->time;
    now->came[k] = true;
    return now->often[k] > MOST_OF_ONE;
}

const char *ks_update(ks_instance *s, bool *moved, bool *ends) {
    bool due[KS_N_EVENTS + 1];
    const char *complaint = know_values(s);
    *moved = *ends = false;
    for (int k = 0; k < KS_N_EVENTS && !complaint; k++) {
        due[k] = comes_now(s, k); /* one that is not armed waits for one before it that arms it */
        s->now.above[k] ^= crosses(s, k);
    }
    for (int count = 0; count <= MOST_AT_ONCE && !complaint; count++) {
        int next = -1;
        for (int k = 0; k < KS_N_EVENTS && next < 0; k++)
            if (armed(s, k) && (due[k] || (ks_events[k].level &&
                                           guards(s)[k] * ks_events[k].direction > 0.0)))
                next = k;
        if (next < 0) {
            note_sides(s);
            return NULL;
        }
        for (int k = 0; k <= next; k++) due[k] = false; /* those before it have had their turn */
        if (crowds(&s->now, next)) return "events come ever faster; end the run before, by a stop";
        *ends |= ks_events[next].stop != 0;
        happen(s, ks_events + next, moved);
        complaint = know_values(s);
        if (*ends && !complaint) {
            note_sides(s);
            return NULL;
        }
    }
    return complaint ? complaint : "events follow one another without end at one time";
}

const char *ks_initialised(ks_instance *s) {
    const char *complaint = know_values(s);
    if (complaint) return complaint;
    for (int k = 0; k < KS_N_EVENTS; k++) /* a guard at zero has crossed */
        s->now.above[k] = ks_events[k].direction > 0;
    note_sides(s);
    bool moved, ends;
    return s->steps && KS_N_EVENTS > 0 ? ks_update(s, &moved, &ends) : NULL;
}

/* -- steps ---------------------------------------------------------------------------------------- */

static const char *step(ks_instance *s, const ks_state *from, double length) {
    const int status = ks_step(from->x, from->u, from->p, from->time, length, s->now.x);
    s->now.time = from->time + length;
    ks_changed(s);
    return status == 0   ? NULL
           : status == 1 ? ks_not_finite
                         : "the equations of a step have no solution near its start";
}

/* Guards of events that have just happened may come back within a step, and cross again: looks at
 * ever shorter parts of it for where they are back */
static const char *look_closer(ks_instance *s, const ks_state *from, double length) {
    const char *complaint = know_values(s);
    for (int k = 0; k < KS_N_EVENTS && !complaint; k++) {
        const bool up = ks_events[k].direction < 0; /* where it came from */
        bool back = ks_events[k].direction == 0 || !from->came[k] || s->now.above[k] == up;
        for (double part = length; !back && part > 1e-12 * length && !complaint; part *= 0.5) {
            if (!(complaint = step(s, from, part))) complaint = know_values(s);
            back = up ? guards(s)[k] > 0.0 : guards(s)[k] < 0.0;
            if (back) s->now.above[k] = up;
        }
    }
    memset(s->now.came, 0, sizeof s->now.came);
    return complaint ? complaint : step(s, from, length);
}

/* A step, shortened to an event in it, which is handled */
static const char *step_to_event(ks_instance *s, double *length, bool *ends) {
    const ks_state from = s->now;
    double before = 0.0, after = *length;
    const char *complaint = step(s, &from, after);
    if (KS_N_EVENTS == 0 || complaint) return complaint;
    if ((complaint = look_closer(s, &from, after))) return complaint;
    bool found = false, moved;
    for (double length_now = after;;) {
        bool crossed = false;
        if ((complaint = know_values(s))) return complaint;
        for (int k = 0; k < KS_N_EVENTS; k++) crossed |= happens(s, k);
        if (!found && !crossed) break;
        found = true;
        if (crossed)
            after = length_now;
        else
            before = length_now;
        length_now = 0.5 * (before + after);
        if (!(length_now > before && length_now < after) ||
            after - before <= 1e-14 * fabs(from.time))
            break;
        if ((complaint = step(s, &from, length_now))) return complaint;
    }
    *length = after;
    if (found && before > 0.0 && (complaint = step(s, &from, before))) return complaint;
    if (found && before > 0.0 && (complaint = know_values(s))) return complaint;
    if (!found || before > 0.0) forget_unarmed(s);
    if (found && (complaint = step(s, &from, after))) return complaint;
    return ks_update(s, &moved, ends);
}

const char *ks_advance(ks_instance *s, double time, double end, bool *ends) {
    double share = 1.0; /* of KS_STEP, less where a step fails */
    *ends = false;
    if (s->now.time != time) s->now.time = time, ks_changed(s);
    if (KS_N_EVENTS > 0) { /* inputs may have jumped */
        bool moved;
        const char *complaint = ks_update(s, &moved, ends);
        if (complaint) return complaint;
    }
    while (s->now.time < end && !*ends) {
        const ks_state from = s->now;
        const double left = end - from.time;
        const double count = fmax(ceil(left / (KS_STEP * share) * (1.0 - 1e-9)), 1.0);
        const double whole = left / count;
        double length = whole;
        const char *complaint = step_to_event(s, &length, ends);
        if (complaint) {
            s->now = from;
            ks_changed(s);
            if (share < SHORTEST) return complaint;
            share *= 0.5;
            continue;
        }
        s->now.time = count <= 1.0 && length >= whole ? end : from.time + length;
        if (!(s->now.time > from.time)) return "steps are too short for the time";
        share = fmin(1.0, 2.0 * share);
    }
    return NULL;
}
