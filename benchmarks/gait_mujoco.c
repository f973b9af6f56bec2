#include <math.h>
#include <string.h>
#include <mujoco/mujoco.h>
#define OUT
#include "gait_common.h"
static const double *now, *table;
static double h;
static void control(const mjModel *m, mjData *d) {
    double z[96], v[96], dz[96];
    const double *A = d->xmat + 9, *u = table ? table + lround(2.0 * d->time / h) * 3 * m->nv : now;
    memcpy(z, d->qpos, 3 * sizeof *z), memcpy(v, d->qvel, sizeof *v * m->nv);
    for (int k = 0; k < n; k++) {
        turns(A + 9 * k, z + 3 + 3 * k);
        if (k) {
            double w[3], own[3];
            mju_mulMatVec3(w, A + 9 * above[k], v + 3 + 3 * above[k]);
            mju_mulMatTVec3(own, A + 9 * k, w), mju_addTo3(v + 3 + 3 * k, own);
        }
    }
    torques(z, v, A, u, d->qfrc_applied, dz);
}
/* what: 0 a from tau, 1 with few parts; 2 tau from a, 3 with few parts; 4 a from u */
void points(mjModel *m, mjData *d, int what, long count, const double *q, const double *v,
            const double *third, double *out) {
    const size_t size = sizeof(double) * m->nv;
    table = NULL, mjcb_control = what == 4 ? control : NULL;
    for (; count-- > 0; q += m->nq, v += m->nv, out += m->nv) {
        memcpy(d->qpos, q, sizeof(double) * m->nq), memcpy(d->qvel, v, size), now = third;
        if (what < 4) memcpy(what < 2 ? d->qfrc_applied : d->qacc, third, size);
        third += what < 4 ? m->nv : 3 * m->nv;
        if (what == 2) mj_inverse(m, d);
        else if (what == 0 || what == 4) mj_forward(m, d);
        else {
            mj_kinematics(m, d), mj_comPos(m, d);
            if (what == 1) mj_makeM(m, d), mj_factorM(m, d);
            mj_comVel(m, d), mj_rne(m, d, what == 3, out);
            if (what == 1) mju_sub(out, d->qfrc_applied, out, m->nv), mj_solveM(m, d, out, out, 1);
            continue;
        }
        memcpy(out, what == 2 ? d->qfrc_inverse : d->qacc, size);
    }
    mjcb_control = NULL;
}
void run(mjModel *m, mjData *d, int integrator, double step, const double *q, const double *v,
         const double *u, long steps, double *out) { /* speeds at the nodes after the first */
    mj_resetData(m, d), table = u, h = m->opt.timestep = step, m->opt.integrator = integrator;
    memcpy(d->qpos, q, sizeof(double) * m->nq), memcpy(d->qvel, v, sizeof(double) * m->nv);
    mjcb_control = control;
    for (; steps-- > 0; out += m->nv)
        mj_step(m, d), memcpy(out, d->qvel, sizeof(double) * m->nv);
    mjcb_control = NULL;
}
