/* Log of events. */
#include "work.h"

#include <string.h>

void ks_note(work *w, int kind, int index) {
    hybrid_run *r = w->r;
    const ptrdiff_t k = r->logged;
    r->log_time[k] = r->t, r->log_kind[k] = kind, r->log_index[k] = index;
    memcpy(r->log_before + k * r->n, w->before, (size_t)r->n * sizeof(double));
    memcpy(r->log_after + k * r->n, r->x, (size_t)r->n * sizeof(double));
    r->log_step[k] = r->taped;
    r->logged = k + 1;
}
