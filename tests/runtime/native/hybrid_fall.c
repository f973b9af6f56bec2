/* A body that falls for a second, by the loop of runtime/native/c/hybrid with a tape of its steps: without
 * contacts, events, modes and inputs, whose arrays are NULL. Then one that bounces for 0.8 s under a
 * force, with derivatives by both sweeps. Prints where they end, and derivatives of the height there
 * by height and speed at the start, by g, and by the value of the force.
 */
#include <stdio.h>

#include "hybrid/sweep.h"

enum { ROOM = 200, NODES = 11 };

#define KERNEL(name, outputs) {#name, 4, count, varying, outputs, 0, 0, 0, NULL, name}
#define ARGUMENTS const ks_kernel *own, ptrdiff_t blocks, const ks_arg *arg, const double *u, \
                  double *out, ptrdiff_t ld, ptrdiff_t step, void *scratch
#define UNUSED (void)own, (void)blocks, (void)arg, (void)u, (void)step, (void)scratch

static void fall(ARGUMENTS) {
    UNUSED;
    out[0] = arg[0].data[arg[0].ld];
    out[ld] = -arg[2].data[0];
}

/* x, v; u = force, pressure; p = g */
static void smooth(ARGUMENTS) {
    UNUSED;
    out[0] = arg[0].data[1];
    out[ld] = arg[1].data[0] + arg[1].data[1] - arg[2].data[0];
}

/* height, its rate, acceleration without pressure, W, B, G */
static void contact(ARGUMENTS) {
    UNUSED;
    const double *state = arg[0].data, free = arg[1].data[0] - arg[2].data[0];
    const double row[] = {state[0], state[1], free, 1, 0, 1, 1, 0};
    for (int k = 0; k < 8; k++) out[k * ld] = row[k];
}

static void slopes(ARGUMENTS) {
    smooth(own, blocks, arg, u, out, ld, step, scratch);
    const double row[] = {1, 1, 1, -1, 1};
    for (int k = 0; k < 5; k++) out[(k + 2) * ld] = row[k];
}

static void touch(ARGUMENTS) {
    UNUSED;
    for (int k = 0; k < 4; k++) out[k * ld] = 1.0;
}

static double x[2], g[] = {9.81}, time[NODES], states[2 * NODES], inputs[2 * NODES];
static double numbers[12 * ROOM];
static int tables[6 * ROOM], contacts[3];
static ptrdiff_t places[ROOM + 1];
static const double rk4_c[] = {0.0, 0.5, 0.5, 1.0, 1.0};
static const double rk4_a[] = {0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 1, 0,
                               1.0 / 6, 1.0 / 3, 1.0 / 3, 1.0 / 6};

static hybrid_run made(double end, double *begin) {
    for (int i = 0; i < NODES; i++) time[i] = i * end / (NODES - 1);
    begin[0] = 0.0, begin[1] = end, x[0] = 1.0, x[1] = 0.0;
    return (hybrid_run){
        .n = 2, .segments = 1, .begin = begin, .parameters = g, .x = x, .first_target = places,
        .nodes = NODES, .time = time, .states = states, .inputs = inputs, .fixed = 0.05,
        .method = {.stages = 4, .order = 4, .c = rk4_c, .a = rk4_a}, .rtol = 1e-9, .atol = 1e-11,
        .v_stop = 1e-3, .per_second = 100, .pause = 1000, .log_size = ROOM, .log_time = numbers,
        .log_before = numbers + ROOM, .log_after = numbers + 3 * ROOM, .log_kind = tables,
        .log_index = tables + ROOM, .log_step = places, .log_restitution = numbers + 5 * ROOM,
        .tape_size = ROOM, .tape_time = numbers + 6 * ROOM, .tape_length = numbers + 7 * ROOM,
        .tape_state = numbers + 8 * ROOM, .tape_segment = tables + 2 * ROOM,
        .tape_cause = tables + 3 * ROOM, .log_contact = tables + 4 * ROOM,
        .tape_contact = tables + 5 * ROOM};
}

static void fall_without_modes(void) {
    const int count[] = {2, 0, 1, 1};
    const unsigned char varying[] = {1, 1, 0, 1};
    const ks_kernel kernel = KERNEL(fall, 2);
    double begin[2];
    hybrid_run r = made(1.0, begin);
    r.smooth = &kernel;
    const int status = ks_hybrid_march(&r, 1.0);
    printf("%d %.6f %.6f\n", status, x[0], x[1]);
}

static void bounce(void) {
    const int count[] = {2, 2, 1, 1}, law = KS_LAW_SLIP, tangent = -1;
    const int row[] = {0, 1, 1, 1, 2}, column[] = {1, 2, 3, 4, 7};
    const int touch_row[] = {0, 1, 2, 4}, touch_column[] = {0, 1, 3, 3};
    const unsigned char varying[] = {1, 1, 0, 1};
    const ks_kernel kernels[] = {KERNEL(smooth, 2), KERNEL(contact, 8), KERNEL(slopes, 7),
                                 KERNEL(touch, 4)};
    const double mu = 0.0, restitution = 0.5, force[] = {0.5, 0.0, 0.0, 0.0}, own = 0.0;
    double begin[2];
    hybrid_run r = made(0.8, begin);
    r.smooth = kernels, r.contact = kernels + 1, r.m = 1, r.coefficients = force;
    r.points = (contact_set){1, 1, &law, &tangent, &mu};
    r.restitution = &restitution, r.state = contacts, r.friction = contacts + 1;
    const int status = ks_hybrid_march(&r, 0.8);
    printf("%d %.6f %.6f\n", status, x[0], x[1]);
    hybrid_sweep s = {.run = &r, .smooth = {kernels + 2, 5, row, column},
                      .touch = {kernels + 3, 4, touch_row, touch_column}, .r = 1, .own = &own};
    enum { P = 4 };
    double X[2 * P] = {1, 0, 0, 0, 0, 1, 0, 0}, p[P] = {0, 0, 1, 0};
    double pieces[KS_PIECE * P] = {0, 0, 0, 1};
    static double along[2 * P * NODES], times[ROOM], before[2 * P * ROOM], after[2 * P * ROOM];
    if (ks_hybrid_forward(&s, P, X, p, pieces, along, times, before, after)) return;
    const double *last = along + NODES - 1;
    printf("%.9f %.9f %.9f %.9f\n", last[0], last[NODES], last[2 * NODES], last[3 * NODES]);
    double end[] = {1.0, 0.0}, of_g[] = {0.0}, of_force[KS_PIECE] = {0.0};
    static double none[2 * ROOM];
    if (ks_hybrid_adjoint(&s, end, none, none, none, none, of_g, of_force)) return;
    printf("%.9f %.9f %.9f %.9f\n", end[0], end[1], of_g[0], of_force[0]);
}

int main(void) {
    fall_without_modes();
    bounce();
    return 0;
}
