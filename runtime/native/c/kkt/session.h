/* One solve by IPOPT with this solver: what it is told before and what it reports afterwards. */
#ifndef KKT_SESSION_H
#define KKT_SESSION_H
#include "kkt.h"

typedef struct {
    int analyses;       /* 0 if the analysis of an earlier solve served */
    int factorisations, solves;
    int status;         /* the first one that is neither KKT_OK nor KKT_SINGULAR */
    int bad_row, bad_column; /* from 0: a value that is not finite; -1 if there is none */
    int hinted, reversed;
    int n_parts;        /* threads that the factorisation takes */
    int max_rows;       /* of a front */
    ptrdiff_t n_fronts;
    double delayed;     /* columns, mean over the factorisations */
    double backward_error; /* the largest of those that were checked */
    double bytes;       /* of the factors */
    double seconds;     /* of wall-clock time in factorisations and solves */
} kkt_report;

/* When the solver gives up, so that another one can go on. */
typedef struct {
    int max_rows;          /* of a front, at analysis */
    double backward_error; /* after refinement */
} kkt_limits;

/* Opens a session on this thread; closes one that is open. `stage` holds the stages of the first
 * n_stage unknowns of a system of n; it is ignored if the system turns out to have another size.
 * n_multipliers : see kkt_matrix; 0 if the inertia of the systems does not matter.
 * threads : at most so many are used. */
int kkt_open(int n, int n_stage, const int *stage, int n_multipliers, int threads, kkt_limits limits);

/* Hands over the factors of the session, with a share in their plan, to be freed by the caller; NULL if
 * there are none. The session can only be closed afterwards. */
kkt_factors *kkt_take_factors(kkt_plan **plan);

/* Ends the session and frees its factors; the analysis is kept for the next one. */
void kkt_close(kkt_report *report);

/* Frees what `kkt_close` keeps, which is also freed when the thread ends. */
void kkt_forget(void);

/* Number of analyses that are kept, by all threads. */
int kkt_kept(void);

#endif
