/* Unilateral contacts with friction: forces or impulses that leave no point moving into the ground.
 *
 * Rows are normal directions of all contacts, then tangential ones of those that have them. With
 * forces f the accelerations (or velocities after an impact) are W f + b. A contact is OPEN (no
 * force, moves away), STICKS (does not move; without friction: along the normal), or SLIPS forwards
 * or backwards with a tangential force -mu f or mu f.
 */
#ifndef HYBRID_CONTACT_H
#define HYBRID_CONTACT_H
#include <stddef.h>

#define HYBRID_CONTACTS 8 /* at most */
#define HYBRID_ROWS (2 * HYBRID_CONTACTS)

enum {
    KS_CONTACT_OPEN = 0,
    KS_CONTACT_STICKS = 1,
    KS_CONTACT_FORWARDS = 2,
    KS_CONTACT_BACKWARDS = 3
};
enum { KS_LAW_SLIP = 0, KS_LAW_STICK = 1, KS_LAW_COULOMB = 2 };

typedef struct {
    int count, rows;          /* contacts, rows */
    const int *law;           /* of each contact */
    const int *tangent;       /* row of each contact's tangential direction, -1 if none */
    const double *mu;         /* friction coefficients */
} contact_set;

/* Largest contradiction between redundant equations, as a share of b */
#define KS_DOUBT 1e-7

/* Forces f (rows) for given modes of all contacts; returns 0 if the equations contradict each other
 * by more than the share `doubt`. */
int ks_contact_forces(const contact_set *c, const double *W, const double *b, const int *mode,
                      double doubt, double *f);

/* Changes of these forces are map (rows, rows) times those of b: the least of all where points are
 * redundant */
void ks_contact_map(const contact_set *c, const double *W, const int *mode, double *map);

/* Solves a x = b (n x n, symmetric, n <= HYBRID_ROWS), destroying a and b; equations that the others
 * imply are left out. */
void ks_contact_linear(int n, double *a, double *b, double *x);

/* Modes of the contacts that are `near`, all others open, and forces f that agree with them:
 * pressing where closed, not moving into the ground where open, friction within its cone. `slide`
 * are tangential velocities: a point that slides keeps its direction. Without it (NULL) friction is as
 * the modes say, within its cone or not, and only whether points press is looked for. The search begins at the modes
 * given and goes on to those that differ from them in as few contacts as possible. Returns 0 if
 * there are none. */
int ks_contact_solve(const contact_set *c, const double *W, const double *b, const int *near,
                     const double *slide, int *mode, double *f);

#endif
