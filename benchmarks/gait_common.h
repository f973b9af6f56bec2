static int n;
static const int *above;
static const double *gain;
static double lead;
OUT void person(int segments, const int *parents, const double *gains, double Td) {
    n = segments, above = parents, gain = gains, lead = Td;
}
static void axes(const double *angle, double *A) { /* turned about y, x and z */
    const double sb = sin(angle[0]), cb = cos(angle[0]), sa = sin(angle[1]), ca = cos(angle[1]);
    const double sc = sin(angle[2]), cc = cos(angle[2]);
    A[0] = cb * cc + sb * sa * sc, A[1] = sb * sa * cc - cb * sc, A[2] = sb * ca;
    A[3] = ca * sc, A[4] = ca * cc, A[5] = -sa;
    A[6] = cb * sa * sc - sb * cc, A[7] = sb * sc + cb * sa * cc, A[8] = cb * ca;
}
static void turns(const double *A, double *angle) {
    angle[0] = atan2(A[2], A[8]), angle[1] = asin(-A[5]), angle[2] = atan2(A[3], A[4]);
}
/* u: force, moments, reference, its rate -> force in world axes, torques of balls; rates of z */
static void torques(const double *z, const double *v, const double *A, const double *u,
                    double *tau, double *dz) {
    const double *m = u + 3, *want = m + 3 * n, *rate = want + 3 * n + 3;
    double M[32][3] = {{0.0}};
    for (int j = 0; j < 3; j++)
        dz[j] = v[j], tau[j] = u[j] + gain[j] * (want[j] - z[j] + lead * (rate[j] - v[j]));
    for (int k = n - 1; k >= 0; k--) {
        const int at = 3 + 3 * k;
        const double *a = z + at, *w = v + at, *B = A + 9 * k;
        const double ca = sqrt(1.0 - B[5] * B[5]), sc = B[3] / ca, cc = B[4] / ca, sa = -B[5];
        double *d = dz + at, e[3];
        d[0] = (sc * w[0] + cc * w[1]) / ca, d[1] = cc * w[0] - sc * w[1], d[2] = w[2] + sa * d[0];
        for (int j = 0; j < 3; j++)
            e[j] = gain[at + j] * (want[at + j] - a[j] + lead * (rate[at + j] - d[j]));
        const double s = (e[0] + sa * e[2]) / ca, h0 = cc * e[1] + sc * s, h1 = cc * s - sc * e[1];
        for (int j = 0; j < 3; j++)
            M[k][j] += m[3 * k + j] + B[3 * j] * h0 + B[3 * j + 1] * h1 + B[3 * j + 2] * e[2];
        for (int j = 0; j < 3; j++)
            tau[at + j] = B[j] * M[k][0] + B[3 + j] * M[k][1] + B[6 + j] * M[k][2];
        for (int j = 0; j < 3 && k > 0; j++) M[above[k]][j] += M[k][j];
    }
}
