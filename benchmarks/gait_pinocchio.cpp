#include <pinocchio/multibody.hpp>
#include <pinocchio/multibody/joint.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#define OUT extern "C" __attribute__((visibility("default")))
#include "gait_common.h"
using namespace pinocchio; using V3 = Eigen::Vector3d;
using In = Eigen::Map<const Eigen::VectorXd>; using Out = Eigen::Map<Eigen::VectorXd>;
using Three = Eigen::Map<const V3>;
using Axes = Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>;
template <typename S, int O> struct Joints { /* no others: sooner compiled */
    typedef S Scalar;
    static constexpr int Options = O;
    typedef boost::variant<JointModelFreeFlyerTpl<S, O>, JointModelSphericalTpl<S, O>>
        JointModelVariant;
    typedef boost::variant<JointDataFreeFlyerTpl<S, O>, JointDataSphericalTpl<S, O>>
        JointDataVariant;
};
static ModelTpl<double, 0, Joints> *model;
static DataTpl<double, 0, Joints> *data;
static Eigen::VectorXd q, v, a, tau, y, slope;
static double A[9 * 32];
static Eigen::Map<V3> put(double *to) { return Eigen::Map<V3>(to); }
static Eigen::Matrix3d R[32]; /* from the axes of the segment before */

OUT void make(const double *row) { /* mass, centre, moments, place of the joint */
    model = new ModelTpl<double, 0, Joints>();
    model->gravity.linear() << 0, 0, -9.81;
    for (int k = 0; k < n; k++, row += 10) {
        const Inertia body(row[0], Three(row + 1), Eigen::Matrix3d(Three(row + 4).asDiagonal()));
        const SE3 at(Eigen::Matrix3d::Identity(), Three(row + 7));
        if (k == 0) model->addJoint(0, JointModelFreeFlyerTpl<double, 0>(), at, "0");
        else model->addJoint(above[k] + 1, JointModelSphericalTpl<double, 0>(), at,
                             std::to_string(k));
        model->appendBodyToJoint(k + 1, body, SE3::Identity());
    }
    data = new DataTpl<double, 0, Joints>(*model);
    q.resize(model->nq), v.resize(model->nv), a.resize(model->nv), tau.resize(model->nv);
    y.resize(2 * model->nv), slope.resize(2 * model->nv);
}
static void turn(const double *x) { /* q and v */
    const double *w = x + model->nv + 3;
    for (int k = 0; k < n; k++) axes(x + 3 + 3 * k, A + 9 * k);
    q.head<3>() = Three(x), v.head<3>() = Axes(A).transpose() * Three(x + model->nv);
    for (int k = 0; k < n; k++) {
        v.segment<3>(3 + 3 * k) = Three(w + 3 * k);
        Eigen::Matrix3d here = Axes(A + 9 * k);
        if (k) {
            R[k].noalias() = here.transpose() * Axes(A + 9 * above[k]);
            v.segment<3>(3 + 3 * k) -= R[k] * Three(w + 3 * above[k]);
            here = R[k].transpose();
        }
        q.segment<4>(3 + 4 * k) = Eigen::Quaterniond(here).coeffs();
    }
}
OUT void rates(long points, const double *x, const double *u, double *dx) {
    const int g = model->nv;
    for (; points-- > 0; x += 2 * g, dx += 2 * g, u += 3 + 3 * n + 2 * g) {
        turn(x), torques(x, x + g, A, u, tau.data(), dx);
        tau.head<3>() = (Axes(A).transpose() * tau.head<3>()).eval();
        const auto &found = aba(*model, *data, q, v, tau);
        const double *w = x + g + 3;
        double *dw = dx + g + 3;
        put(dx + g) = Axes(A) * (found.head<3>() + Three(w).cross(v.head<3>()));
        for (int k = 0; k < n; k++) {
            put(dw + 3 * k) = found.segment<3>(3 + 3 * k);
            if (k) put(dw + 3 * k) += R[k] * Three(dw + 3 * above[k])
                                    + Three(w + 3 * k).cross(v.segment<3>(3 + 3 * k));
        }
    }
}
OUT void run(long steps, double h, const double *u, double *x) { /* u also between nodes */
    const int at[] = {0, 1, 1, 2}, m = 2 * model->nv, width = 3 + 3 * n + m;
    const double node[] = {0.5, 0.5, 1.0, 0.0}, weight[] = {h / 6, h / 3, h / 3, h / 6};
    for (long i = 0; i < steps; i++, x += m, u += 2 * width) {
        Out now(x, m), next(x + m, m);
        y = next = now;
        for (int s = 0; s < 4; s++) {
            rates(1, y.data(), u + at[s] * width, slope.data());
            next += weight[s] * slope, y = now + node[s] * h * slope;
        }
    }
}
OUT void forces(long points, const double *x, const double *dx, double *out) {
    const int g = model->nv; /* all that the outputs of kinesym have */
    for (; points-- > 0; x += 2 * g, dx += 2 * g, out += 6 + 18 * n) {
        const double *w = x + g + 3, *dw = dx + g + 3;
        turn(x);
        a.head<3>() = Axes(A).transpose() * Three(dx + g) - Three(w).cross(v.head<3>());
        for (int k = 0; k < n; k++) {
            a.segment<3>(3 + 3 * k) = Three(dw + 3 * k);
            if (k) a.segment<3>(3 + 3 * k) -= R[k] * Three(dw + 3 * above[k])
                                            + Three(w + 3 * k).cross(v.segment<3>(3 + 3 * k));
        }
        rnea(*model, *data, q, v, a);
        for (int k = 0; k < n; k++) {
            double *f = out + 6 + 9 * k;
            const Axes here(A + 9 * k);
            put(f) = here * data->f[k + 1].linear(), put(f + 3) = here * data->f[k + 1].angular();
            put(f + 6) = Three(k ? out + 12 + 9 * above[k] : x);
            if (k)
                put(f + 6) += Axes(A + 9 * above[k]) * model->jointPlacements[k + 1].translation();
            std::copy(A + 9 * k, A + 9 * k + 9, out + 6 + 9 * n + 9 * k);
        }
        const Three force(out + 6), moment(out + 9);
        put(out) = force, put(out + 3) = moment + Three(x).cross(force);
    }
}
OUT void native(long points, int back, const double *at, const double *speed, const double *given,
                double *out) { /* a from tau, or tau from a */
    const int g = model->nv;
    for (; points-- > 0; at += model->nq, speed += g, given += g, out += g) {
        const In q(at, model->nq), v(speed, g), third(given, g);
        Out(out, g) = back ? rnea(*model, *data, q, v, third) : aba(*model, *data, q, v, third);
    }
}
