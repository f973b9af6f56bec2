#include "team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
    void (*task)(void *of, int k);
    void *of;
    int n;
    atomic_int next; /* that nobody has begun */
} team;

static void *work(void *given) {
    team *t = given;
    for (int k = t->next++; k < t->n; k = t->next++) t->task(t->of, k);
    return NULL;
}

void kkt_team(int n, void (*task)(void *of, int k), void *of) {
    team all = {.task = task, .of = of, .n = n};
    pthread_t *others = n > 1 ? malloc((size_t)(n - 1) * sizeof *others) : NULL;
    int started = 0;
    while (others != NULL && started < n - 1 &&
           pthread_create(others + started, NULL, work, &all) == 0)
        started++;
    work(&all);
    for (int k = 0; k < started; k++) pthread_join(others[k], NULL);
    free(others);
}
