/* A body that falls for a second, by the loop of runtime/hybrid with a tape of its steps: without
 * contacts, events, modes and inputs, whose arrays are NULL. Prints where it ends.
 */
#include <stdio.h>

#include "hybrid/hybrid.h"

static void fall(ptrdiff_t n, const ks_arg *arg, const double *u, double *out, ptrdiff_t ld,
                 ptrdiff_t step, void *scratch) {
    (void)n, (void)u, (void)step, (void)scratch;
    out[0] = arg[0].data[arg[0].ld];
    out[ld] = -arg[2].data[0];
}

enum { ROOM = 200, NODES = 11 };

int main(void) {
    const int count[] = {2, 0, 1, 1};
    const unsigned char varying[] = {1, 1, 0, 1};
    const ks_kernel smooth = {"smooth", 4, count, varying, 2, 0, 0, NULL, fall};
    double x[] = {1.0, 0.0}, g[] = {9.81}, begin[] = {0.0, 1.0}, time[NODES], states[2 * NODES];
    static double numbers[12 * ROOM];
    static int tables[5 * ROOM];
    static ptrdiff_t places[ROOM + 1];
    for (int i = 0; i < NODES; i++) time[i] = 0.1 * i;
    hybrid_run r = {.smooth = &smooth, .n = 2, .segments = 1, .begin = begin, .parameters = g, .x = x,
                    .first_target = places, .nodes = NODES, .time = time, .states = states,
                    .rtol = 1e-9, .atol = 1e-11, .v_stop = 1e-3, .per_second = 100, .pause = 1000,
                    .log_size = ROOM, .log_time = numbers, .log_before = numbers + ROOM,
                    .log_after = numbers + 3 * ROOM, .log_kind = tables, .log_index = tables + ROOM,
                    .log_step = places, .log_restitution = numbers + 5 * ROOM, .tape_size = ROOM,
                    .tape_time = numbers + 6 * ROOM, .tape_length = numbers + 7 * ROOM,
                    .tape_state = numbers + 8 * ROOM, .tape_segment = tables + 2 * ROOM,
                    .tape_cause = tables + 3 * ROOM};
    const int status = hybrid_march(&r, 1.0);
    printf("%d %.6f %.6f\n", status, x[0], x[1]);
    return 0;
}
