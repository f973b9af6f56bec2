/* Memory of factors: pieces that never move and are used again by the next factorisation. */
#define _GNU_SOURCE
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "walk.h"

#define CHUNK ((size_t)8 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

struct kkt_chunk {
    kkt_chunk *next;
    size_t size, used; /* bytes of data */
    char *data;
};

static kkt_chunk *new_chunk(size_t bytes) {
    const size_t size = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    kkt_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk == NULL) return NULL;
    chunk->data = aligned_alloc(HUGE_PAGE, size);
    if (chunk->data == NULL) {
        free(chunk);
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    madvise(chunk->data, size, MADV_HUGEPAGE);
#endif
    chunk->size = size;
    return chunk;
}

void *kkt_take(kkt_arena *a, size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    while (a->now == NULL || a->now->used + bytes > a->now->size) {
        kkt_chunk **next = a->now == NULL ? &a->first : &a->now->next;
        if (*next == NULL) *next = new_chunk(bytes > a->least ? bytes : a->least);
        if (*next == NULL) return NULL;
        a->now = *next;
    }
    void *memory = a->now->data + a->now->used;
    a->now->used += bytes;
    return memory;
}

void kkt_take_again(kkt_arena *a) {
    for (kkt_chunk *c = a->first; c != NULL; c = c->next) c->used = 0;
    a->now = a->first;
}

double kkt_arena_bytes(const kkt_arena *a) {
    double bytes = 0.0;
    for (const kkt_chunk *c = a->first; c != NULL; c = c->next) bytes += (double)c->size;
    return bytes;
}

int kkt_new_factors(const kkt_plan *plan, kkt_factors **factors) {
    const double part = plan->factor_bytes / plan->n_parts;
    kkt_factors *f = calloc(1, sizeof *f);
    *factors = NULL;
    if (f == NULL) return KKT_NO_MEMORY;
    f->plan = plan;
    f->bad_entry = -1;
    f->blocks = calloc((size_t)plan->n_fronts, sizeof *f->blocks);
    f->scale = malloc((size_t)plan->n * sizeof *f->scale);
    f->seconds = calloc((size_t)plan->n_parts + 1, sizeof *f->seconds);
    f->arenas = calloc((size_t)plan->n_parts, sizeof *f->arenas);
    if (!f->blocks || !f->scale || !f->seconds || !f->arenas) {
        kkt_free_factors(f);
        return KKT_NO_MEMORY;
    }
    f->n_arenas = plan->n_parts;
    for (int k = 0; k < f->n_arenas; k++)
        f->arenas[k].least = part < (double)CHUNK ? (size_t)part + 65536 : CHUNK;
    *factors = f;
    return KKT_OK;
}

void kkt_free_factors(kkt_factors *f) {
    if (f == NULL) return;
    for (int k = 0; k < f->n_arenas; k++)
        for (kkt_chunk *chunk = f->arenas[k].first, *next; chunk != NULL; chunk = next) {
            next = chunk->next;
            free(chunk->data);
            free(chunk);
        }
    free(f->arenas);
    free(f->blocks);
    free(f->scale);
    free(f->seconds);
    free(f);
}
