"""Larger models of the collection of StructuralIdentifiability.jl, which names their papers, in the
plain text of `known_functions`.

Of some it lists functions of parameters and states from which all that can be known follows; of
others it does not: there, the names of parameters and starts that cannot be known.
"""

_MAPK = (
    "KS00' = -a00*K*S00 + b00*KS00 + g0100*FS01 + g1000*FS10 + g1100*FS11; "
    "KS01' = -a01*K*S01 + b01*KS01 + c0001*KS00 - al01*F*S01 + be01*FS01 + g1101*FS11; "
    "KS10' = -a10*K*S10 + b10*KS10 + c0010*KS00 - al10*F*S10 + be10*FS10 + g1110*FS11; "
    "FS01' = -al11*F*S11 + be11*FS11 + c0111*KS01 + c1011*KS10 + c0011*KS00; "
    "FS10' = a00*K*S00 - (b00 + c0001 + c0010 + c0011)*KS00; "
    "FS11' = a01*K*S01 - (b01 + c0111)*KS01; K' = a10*K*S10 - (b10 + c1011)*KS10; "
    "F' = al01*F*S01 - (be01 + g0100)*FS01; S00' = al10*F*S10 - (be10 + g1000)*FS10; "
    "S01' = al11*F*S11 - (be11 + g1101 + g1110 + g1100)*FS11; "
    "S10' = -a00*K*S00 + (b00 + c0001 + c0010 + c0011)*KS00 - a01*K*S01 + (b01 + c0111)*KS01 "
    "- a10*K*S10 + (b10 + c1011)*KS10; "
    "S11' = -al01*F*S01 + (be01 + g0100)*FS01 - al10*F*S10 + (be10 + g1000)*FS10 - al11*F*S11 "
    "+ (be11 + g1101 + g1110 + g1100)*FS11"
)
_CLV = (
    "x1' = x1*(u1*B11 + A11*x1 + A12*x2 + A13*x3 + g1 - w); "
    "x2' = x2*(u1*B21 + A21*x1 + A22*x2 + A23*x3 + g2 - w); "
    "x3' = x3*(u1*B31 + A31*x1 + A32*x2 + A33*x3 + g3 - w)"
).replace(
    "w",
    "(x1*(u1*B11 + A11*x1 + A12*x2 + A13*x3 + g1) - x2*(u1*B21 + A21*x1 + A22*x2 + A23*x3 + g2))",
)
_E1, _E2 = "(K + M + s1 + s2)", "(K*M + K*s1 + K*s2 + M*s1 + M*s2 + s1*s2)"
_E3, _E4 = "(K*M*s1 + K*M*s2 + K*s1*s2 + s1*s2*M)", "K*M*s1*s2"
_B = (
    "(R*P5 + be + bA/(s2*M)*(P3 + P2*(K + M + R) + P1*(K*M + K*R + M*R) + P0*K*M*R) "
    "+ bI/M*(P2 + P1*(K + R) + P0*K*R) "
    "+ bA*ph/((1 - ph)*s2*M)*(P3 + P2*(K + M + s2) + P1*(K*M + K*s2 + M*s2) + P0*K*M*s2))"
)
_QY = (
    "P0' = P1; P1' = P2; P2' = P3; P3' = P4; "
    f"P4' = -({_E4}*P1 + {_E3}*P2 + {_E2}*P3 + {_E1}*P4) "
    f"- {_B}*(al + {_E4}*P0 + {_E3}*P1 + {_E2}*P2 + {_E1}*P3 + P4); P5' = -{_B}"
)

#: Functions of parameters and states that can be known, all of them by algebra from these.
WITH_FUNCTIONS = {
    "competition of two": (
        "x1' = (a + b)*x1 - c*x1*x2; x2' = -a*b*x2 + d*x1*x2", "x1", "", "x1, d, c*x2, a*b, a + b"),
    "SEAIJRC": (
        "S' = -b*S*(J1 + J2 + q*A)*n; E' = b*S*(J1 + J2 + q*A)*n - k*E; "
        "A' = k*(1 - r)*E - g1*A; J1' = k*r*E - (al + g1)*J1; J2' = al*J1 - g2*J2; C' = al*J1; "
        "n' = 0", "C, n", "",
        "J2, C, J1, n, g1, k, g2, b, al, q*A, r*E, r*S, A/(r*E - E)"),
    "CD8 T cells": (
        "N' = -N*muN - N*P*dNE; E' = N*P*dNE - E**2*muEE - E*dEL + E*P*rE; "
        "S' = S*dEL - S*dLM - S**2*muLL - E*S*muLE; M' = S*dLM - muM*M; "
        "P' = P**2*rP - P*muP - E*P*muPE - S*P*muPL", "N, E + S, M", "",
        "muP, muLL, muPL, N, dLM, muPE, M, muM, E, muN, S, dEL, muLE, muEE, P*rE, dNE*P, rE/rP"),
    "treatment": (
        "S' = -b*S*J/N - d*b*S*T/N; J' = b*S*J/N + d*b*S*T/N - (a + g)*J; T' = g*J - nu*T; N' = 0",
        "T, N", "", "N, T, g*S, b*S, nu + d*g, nu*g + nu*a, nu + g + a, g*T + g*J + a*T"),
    "SIR 24": (
        "A' = 0; S' = A - mu + S - c*ph*J*S/(J + S); "
        "J' = -mu*J + c*ph*J*S/(J + S) - gam*J - J*u1/(S + J); "
        "R' = -mu*R + gam*J + J*u1/(S + J)", "K*J", "u1", "J, S, K, c*ph, A - mu, gam + mu"),
    "SIR 19": (
        "N' = 0; S' = -be*S*J/N - pp*S + q*C; J' = be*S*J/N - (r + mu)*J; R' = r*J; "
        "C' = pp*S - q*C; D' = mu*J", "N, D, C", "", "C, pp, be, J, q, r, mu, N, S, D"),
    "SEIR with treatment": (
        "J' = -lam*J + al*E; E' = be*J*S/N - al*E; N' = 0; R' = lam*J; S' = -be*J*S/N", "J, N", "",
        "J, N, be, al*S, lam*al, lam + al, al*J + al*E"),
    "SEIR 36": (
        "N' = 0; nu' = 0; q' = 0; S' = -be*S*J/N - q*bd*S*Di/N + nu*N - m0*S; "
        "E' = be*S*J/N + q*bd*S*Di/N - s*E - pe*E - m0*E; J' = s*E - (gam + mi + ph + m0)*J; "
        "De' = pe*E - sd*De - m0*De; Di' = ph*J + sd*De - (gd + md + m0)*Di; "
        "R' = gam*J + gd*Di - m0*R; F' = mi*J + md*Di", "De, Di, F, N, nu, q", "",
        "bd, gd, pe, Di, be, J, q, mi, s, md, N, sd, E, m0, ph, S, nu, De, gam, F"),
    "pitavastatin": (
        "x1' = -r3*x1 + k3*x3 + r1*x2 - k1*x1*(T0 - x2); x2' = -r1*x2 - k2*x2 + k1*x1*(T0 - x2); "
        "x3' = r3*x1 - k3*x3 - k4*x3 + k2*x2", "k*(x2 + x3)", "",
        "k2, k4, r1, k3, r3, k1*x2, k1*x3, k1*x1, k*x2, T0*k1"),
    "phosphorylation": (
        "x1' = k4*x6 + k2*x4 - k1*x1*x2; x2' = k3*x4 + k2*x4 + k1*x1*x2; "
        "x3' = k5*x6 + k3*x4 - k6*x5*x3; x4' = -(k3 + k2)*x4 + k1*x1*x2; "
        "x5' = (k5 + k4)*x6 - k6*x5*x3; x6' = -(k5 + k4)*x6 + k6*x5*x3", "x3, x2", "",
        "x1, x2, x3, x4, x5, x6, k1, k2, k3, k4, k5, k6"),
    "insulin receptors": (
        "q1' = -(k3 + k7)*q1 + k4*q3 + u; "
        "q3' = k3*q1 - k4*q3 + k6*(q35 + q36) - k5*q3*(R*V3 - q35) - 5*k5*q3*V36/V3*(S*V36 - q36); "
        "q7' = k7*q1; q35' = k5*q3*(R*V3 - q35) - k6*q35; "
        "q36' = 5*k5*q3*V36/V3*(S*V36 - q36) - k6*q36", "q7", "u",
        "q7, q1, q3, k7, k6, k4, k3, q35*q36, q35 + q36, S*V3 + 25*V36*R, S*V36 + R*V3, "
        "(5*V36 + V3)/(k5*V36), (5*k5*V36 + k5*V3)/V3, (5*V36*q36 - V3*q35)/(5*V36 - V3)"),
    "stirred tank": (
        "Cb' = -u1*Cb/V + Ca*k0*Ar; Ca' = u1*(Ca0 - Ca)/V - Ca*k0*Ar; "
        "Tj' = u2*(Th - Tj)/Vh + UA*(T - Tj)/(cph*Vh*roh); "
        "T' = u1*(Ta - T)/V - Ca*k0*Ar*DH/(ro*cp) + UA*(T - Tj)/(V*ro*cp); "
        "Ar' = E*Ar/(R*T**2)*(u1*(Ta - T)/V - Ca*k0*Ar*DH/(ro*cp) + UA*(T - Tj)/(V*ro*cp))",
        "Cb, T", "u1 u2",
        "Ca, T, Cb, Tj, Ta, Ca0, Vh, V, Th, k0*Ar, DH/UA, R/E, DH/(ro*cp), cph*roh/DH"),
    "compositional Lotka-Volterra": (
        _CLV, "x1, x2", "u1",
        "x2, x1, A22, A12, A32, B11, g1, A31, g2, g3, A11, A21, B31, B21, A13*x3, A23*x3, A33/A13"),
    "JAK-STAT": (
        "x1' = -2*t1*x1*u - t5*x1 + t6*x2; x2' = t5*x1 - t6*x2; x3' = 2*t1*u*x1 - t2*x3*(3 - x6); "
        "x4' = t2*x3*(3 - x6) - t3*x4; x5' = t3*x4 - t4*x5; "
        "x6' = -t7*x3*x6/(1 + t13*x1) - t7*x4*x6/(1 + t13*x10) + 92*t8*(3 - x6); "
        "x7' = -t9*x7*(3 - x6) + 92*t10*(165 - x7); x8' = t11*(165 - x7); x9' = -2*t12*u*x9; "
        "x10' = x8*t14/(t15 + x8) - t16*x10",
        "x1 + x3 + x4, t18*(x3 + x4 + x5 + 1/3 - x9), t19*(x4 + x5), t20*(3 - x6), t21*x8, "
        "t22*x8*t17/t11, x10, 165 - x7", "u",
        "x4, t1, x2, t8, t13, t7, t2, t9, x10, x1, t12, t4, x3, t18, x5, x6, x9, t10, t14, t19, "
        "t20, t16, x7, t5, t6, t3, t22*t17, t21*t15, t21*t11, x8*t21"),
    "MAPK, 5 outputs": (
        _MAPK, "F, S00, S01, S10, S11", "",
        "F, S11, KS00, S00, FS01, KS10, K, FS11, FS10, S10, S01, KS01, a10, g1110, a01, c1011, "
        "b01, a00, g1101, b10, c0010, c0011, g1100, al01, be01, al11, be10, c0111, al10, b00, "
        "be11, g1000, g0100, c0001"),
}  # fmt: skip

#: What cannot be known, by name.
HIDDEN = {
    "MAPK, 5 outputs with a sum": (_MAPK, "K, F, S00, S01 + S10, S11", "", ""),
    "MAPK, 6 outputs": (_MAPK, "K, F, S00, S01, S10, S11", "", ""),
    "SIWR, two outputs": (
        "S' = mu - bi*S*J - bw*S*W - mu*S + a*R; J' = bw*S*W + bi*S*J - (gam + mu)*J; "
        "W' = xi*(J - W); R' = gam*J - (mu + a)*R", "k*J, S + J + R", "", ""),
    "pharmacokinetics": (
        "x0' = a1*(x1 - x0) - ka*n*x0/(kc*ka + kc*x2 + ka*x0); x1' = a2*(x0 - x1); "
        "x2' = b1*(x3 - x2) - kc*n*x2/(kc*ka + kc*x2 + ka*x0); x3' = b2*(x2 - x3)", "x0", "", ""),
    "chemical reactions": (
        "x1' = -k1*x1*x2 + k2*x4 + k4*x6; x2' = -k1*x1*x2 + k2*x4 + k3*x4; "
        "x3' = k3*x4 + k5*x6 - k6*x3*x5; x4' = k1*x1*x2 - k2*x4 - k3*x4; "
        "x5' = k4*x6 + k5*x6 - k6*x3*x5; x6' = -k4*x6 - k5*x6 + k6*x3*x5", "x3, x2", "", ""),
    "Qi-Wang-Wyk-Chen": (
        "x' = a*(y - x) + y*z; y' = b*(x + y) - x*z; z' = -c*z - d*w + x*y; "
        "w' = e*z - f*w + x*y", "x", "", "c d e f w"),
    "SEIR, cumulated": (
        "S' = -b*J*S/N; J' = -a*J + nu*E; N' = 0; E' = b*J*S/N - nu*E; C' = nu*E", "C, N", "", ""),
    "transfection": (
        "m' = -z*d2*m - m*d1; G' = -b*G + k*m; z' = -z*d2*m + w*d3; w' = z*d2*m - w*d3", "G", "",
        "m z w d2 k"),
    "Lotka-Volterra, generalised": (
        "x1' = x1*(r1 + b11*x1 + b12*x2); x2' = x2*(r2 + b21*x1 + b22*x2)", "x1", "",
        "b12 b22 x2"),
    "compositional Lotka-Volterra, one output": (_CLV, "x1", "u1", "A13 A23 A33 x3"),
    "SEAIJRC, normalised": (
        "S' = -b*S*(J1 + J2 + q*A); E' = b*S*(J1 + J2 + q*A) - k*E; A' = k*(1 - r)*E - g1*A; "
        "J1' = k*r*E - (al + g1)*J1; J2' = al*J1 - g2*J2; C' = al*J1", "C", "", "q r S E A"),
    "SIAR": (
        "S' = -S*(b1*A + b2*J + b3*H + b4*T)*n; "
        "E' = S*(b1*A + b2*J + b3*H + b4*T)*n - (a1 + a2)*E; A' = a1*E - (a3 + a4 + xi)*A; "
        "J' = a2*E + a3*A - (a5 + a6 + a7 + a8)*J; H' = a5*J + xi*A - (a9 + a10)*H; "
        "T' = a6*J + a9*H - (a11 + a12)*T; R' = a10*H + a11*T; D' = a8*J + a12*T", "H, T, R, D, n",
        "", "a1 a2 a3 a4 a5 a6 a7 a8 b1 b2 xi S E A J"),
    "ruminal lipolysis": (
        "x1' = -x5*x1/(k2 + x1); x2' = 2/3*x5*x1/(k2 + x1) - k4*x2; x3' = k4*x2/2 - k4*x3; "
        "x4' = x5*x1/(3*(k2 + x1)) + k4*x2/2 + k4*x3; x5' = -k3*x5", "x1, x2 + x3, x4", "", ""),
    "leukaemia": (
        "C' = rc*(L + B)*C + rb*J*C - C/tc; L' = rl*L - al*L*C; "
        "B' = J/ti - al*B*C - B/tb; P' = rp*P*(2*ap/(1 + ks*(P + J)) - 1) - P/tp; "
        "J' = ri*J*(2*ai/(1 + ks*(P + J)) - 1) - J/ti + P/tp - al*be*C*J", "C, L, P + B + J", "",
        ""),
    "pancreatic tumour": (
        "x' = (r1 + b1*y)*x*(1 - b1*x) - d1*x*z/(m1 + w); "
        "y' = (r2 + b2*w/(k2 + w))*y*(1 - b2*y) - mu2*y; "
        "z' = b3*z*v/((k3 + v)*(m3 + w)) - mu3*z + r3; "
        "w' = b4*x*z/(k4 + x) - mu4*w + r4*x*y/(m4 + v); v' = b5*x*z/(k5 + x) - mu5*v", "z", "",
        "b3 b4 b5 d1 k2 k3 m1 m3 m4 r4 w v"),
    "chemotherapy": (
        "T' = a*T*(1 - b*T) - c1*N*T - D*T - KT*M*T; "
        "L' = -m*L - q*L*T - uc*L**2 + r2*C*T + pI*L*J/(gI + J) + u1 - KL*M*L; "
        "N' = a1 - f*N + g*T*N/(h + T) - p*N*T - KN*M*N; C' = a2 - be*C - KC*M*C; "
        "J' = pt*T*L/(gt + T) + w*L*J - mJ*J + u2; M' = -gam*M + u1", "L, N, M", "u1 u2 D",
        "a2 b gt h p q r2 T C"),
    "p53": (
        "x1' = p1*x4 - p3*x1 - p4*x1**2/(p5 + x1)*(1 + p6*u/(p7 + u)); "
        "x2' = p8 - p9*x2 - p10*x1*x2/(p11 + x2)*(1 + p12*u/(p13 + u)); "
        "x3' = p14 - p15*x3 - p16*x1*x3*(1 - p18*u)/(p17 + x3); "
        "x4' = p20*(1 - x4) + p21*x3**4 - p21*(1 - p24)*(1 - p25)/(1 + p22**4) "
        "+ (1 - p24*x1)*(1 - p25*x2)*(1 + p23*u)/(p22**4 + x3**4)", "x1, x2, x3, x4", "u", ""),
    "NF-kB": (
        "x1' = kp - kd*x1 - k1*x1*u; "
        "x2' = -k3*x2 - kd*x2 - x2*x10/5 + t1*x4 - x2*x13 + t2*x5 + (k1*x1 - k2*x2*x8)*u; "
        "x3' = k3*x2 - kd*x3 + k2*x2*x8*u; x4' = x2*x10/5 - t1*x4; x5' = x2*x13 - t2*x5; "
        "x6' = x13/50000 - x6*x10/2 + t2*x5 - i1*x6; x7' = 5*i1*x6 - x11*x7/2; "
        "x8' = x9/2 - c5*x8; x9' = -x7/2000000 - x9/2500; "
        "x10' = -x2*x10/5 - x10*x6/2 + c4a*x12 - x10/10000 - i1a*x10 + x11/2000; "
        "x11' = -x11*x7/2 + 5*i1a*x10 - x11/400; x12' = x7/2000000 - c3a*x12; "
        "x13' = x10*x6/2 - x13/50000 - x2*x13 + e2a*x14; x14' = x11*x7/2 - 5*e2a*x14; "
        "x15' = x7/2000000 - x15/2500", "x7, x10 + x13, x9, x1 + x2 + x3, x2, x12", "u", "x15"),
    "circadian clock": (
        "x1' = p1*x6/(p3 + x6) - p5*x1/(p12 + x1) + p26*x7*u; "
        "x2' = p19*x1 - p22*x2 + p23*x3 - p6*x2/(p13 + x2); "
        "x3' = p22*x2 - p23*x3 - p7*x3/(p14 + x3); "
        "x4' = p2*p4**2/(p4**2 + x3**2) - p8*x4/(p15 + x4); "
        "x5' = p20*x4 - p24*x5 + p25*x6 - p9*x5/(p16 + x5); "
        "x6' = p24*x5 - p25*x6 - p10*x6/(p17 + x6); "
        "x7' = p21 - p11*x7/(p18 + x7) - (p21 + p27*x7)*u", "x1, x4", "u",
        "p10 p11 p13 p14 p16 p17 p18 p19 p20 p21 p26 p3 p4 p6 p7 p9 x2 x3 x5 x6 x7"),
    "chain of 20": (
        "x1' = -vm*x1/(km + x1) - p1*x1 + u; "
        + "; ".join(f"x{k}' = p{k - 1}*x{k - 1} - p{k}*x{k}" for k in range(2, 21)),
        ", ".join(f"x{k}" for k in range(1, 21)), "u", ""),
    "QY": (_QY, "P0", "", "be P5"),
}  # fmt: skip
