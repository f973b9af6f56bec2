#include "team.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct {
    void (*task)(void *of, int k);
    void *of;
    int k, started;
    pthread_t thread;
} member;

static void *run(void *given) {
    const member *m = given;
    m->task(m->of, m->k);
    return NULL;
}

void kkt_team(int n, void (*task)(void *of, int k), void *of) {
    member *others = n > 1 ? calloc((size_t)n, sizeof *others) : NULL;
    for (int k = 1; k < n && others != NULL; k++) {
        member *m = others + k;
        *m = (member){.task = task, .of = of, .k = k};
        m->started = pthread_create(&m->thread, NULL, run, m) == 0;
    }
    task(of, 0);
    for (int k = 1; k < n; k++) {
        if (others != NULL && others[k].started)
            pthread_join(others[k].thread, NULL);
        else
            task(of, k);
    }
    free(others);
}
