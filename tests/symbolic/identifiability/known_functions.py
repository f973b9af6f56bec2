"""Models with published identifiable functions, in plain text.

Each model is: name, rates of states, outputs, inputs, and functions that generate what can be
known, of parameters alone or of states, too. Most are in the documentation, examples, tests and
benchmarks of StructuralIdentifiability.jl (Dong, Goodbrake, Harrington and Pogudin 2023, SIAM J.
Appl. Algebra Geometry 7, 194-235), which names the papers that they come from.
"""

import re

import sympy as sp

import kinesym as ks
from kinesym.symbolic.text.grammar import Scope, parsed

#: Functions of parameters that can be known, all of them by algebra from these.
OF_PARAMETERS = {
    "first order": ("x' = a*x + u", "x", "u", "a"),
    "sum of opposite": ("x1' = a; x2' = -a", "x1 + x2", "", ""),
    "saddle": ("x1' = x2 - a; x2' = x1 + a", "x1 + x2", "", ""),
    "square": ("x1' = theta*x2**2; x2' = u", "x1", "u", "theta"),
    "Michaelis-Menten": (
        "x' = -V_m*x/(k_m + x) + k01*x", "c*x", "", "k01, c*k_m, V_m*c"),
    "gain": ("x' = a*x + b*u", "c*x", "u", "b*c, a"),
    "two compartments": (
        "x0' = -(a01 + a21)*x0 + a12*x1; x1' = a21*x0 - a12*x1", "x0", "",
        "a01*a12, a01 + a12 + a21"),
    "Bellman and Astrom 2": (
        "x1' = -(k1 + k2)*x1 + k3*x2 + u; x2' = k2*x1 - (k3 + k4)*x2", "x1", "u",
        "k1 + k2, k3 + k4, k2*k3"),
    "diagonal": (
        "x1' = l1*x1 + b1*u1; x2' = l2*x2 + b2*u2; x3' = l3*x3 + b3*u3", "x1 + x2 + x3",
        "u1 u2 u3", "l1, l2, l3, b1, b2, b3"),
    "three in a row": (
        "x1' = -a1*x1 + b1*x2 + u; x2' = -(a2 + b1)*x2 + a1*x1 + b2*x3; x3' = -b2*x3 + a2*x2",
        "x1", "u", "a1, a2, b1, b2"),
    "three from the end": (
        "x1' = -a1*x1 + b1*x2; x2' = -(a2 + b1)*x2 + a1*x1 + b2*x3; x3' = -b2*x3 + a2*x2 + u",
        "x1", "u", "b1*b2, a1 + a2 + b1 + b2, a1*a2 + a1*b2"),
    "quadratic": (
        "x1' = p1*x1**2 + p2*x1*x2; x2' = p3*x1**2 + p4*x1*x2", "x1", "",
        "p1 + p4, p1*p4 - p2*p3"),
    "Goodwin": (
        "x1' = -b*x1 + 1/(c + x4); x2' = alpha*x1 - beta*x2; x3' = gama*x2 - delta*x3; "
        "x4' = sigma*x4*(gama*x2 - delta*x3)/x3", "x1", "",
        "sigma, delta + beta, c, b, delta*beta"),
    "SIRS forced": (
        "s' = mu - mu*s - b0*(1 + b1*x1)*i*s + g*r; i' = b0*(1 + b1*x1)*i*s - (nu + mu)*i; "
        "r' = nu*i - (mu + g)*r; x1' = -M*x2; x2' = M*x1", "i, r", "", "g, mu, b0, nu, M**2"),
    "SEIR 1": (
        "S' = -beta*S*J; E' = beta*S*J - v*E; J' = v*E - psi*J - (1 - psi)*gama*J; "
        "R' = gama*Q + (1 - psi)*gama*J; Q' = -gama*Q + psi*J", "Q", "",
        "gama*psi - psi*v, beta/psi, gama, psi*v - psi - v"),
    "bilirubin": (
        "x1' = -(k21 + k31 + k41 + k01)*x1 + k12*x2 + k13*x3 + k14*x4 + u; "
        "x2' = k21*x1 - k12*x2; x3' = k31*x1 - k13*x3; x4' = k41*x1 - k14*x4", "x1", "u",
        "k01, k21, k31, k41, k12, k13, k14"),
    "biohydrogenation": (
        "x4' = -k5*x4/(k6 + x4); x5' = k5*x4/(k6 + x4) - k7*x5/(k8 + x5 + x6); "
        "x6' = k7*x5/(k8 + x5 + x6) - k9*x6*(k10 - x6)/k10; x7' = k9*x6*(k10 - x6)/k10",
        "x4, x5", "", "k7, k5, k6, k10*k9, k9**2, k10 + 2*k8"),
    "SLIQR": (
        "S' = -b*J*S*Ni - u*S*Ni; L' = b*J*S*Ni - a*L; J' = a*L - g*J + s*Q; "
        "Q' = (1 - e)*g*J - s*Q", "J*Ni", "u", "a*g + e*g*s - g*s, b, a + g, a*e*g, s, Ni"),
    "bacteria under stress": (
        "S' = r*S - (e + a*W)*S - d*W*S + g*R; R' = rR*R + (e + a*W)*S - dr*W*R - g*R; "
        "W' = Dd*(T - W)", "S + R, T", "",
        "T, Dd, e - rR + dr*T + d*T + g - r + a*T, (d*rR - dr*r)/(d - dr), "
        "(dr**2 + d**2 + 2*d*a + a**2)/(dr*d + dr*a), "
        "(e*dr - e*d + rR*a + dr*g - d*g - r*a)/(dr - d), "
        "(e*dr**2 - e*dr*d + rR*dr*a + dr*d*g - dr*r*a - d**2*g)/(dr**2 + dr*a - d**2 - d*a)"),
    "STAT-5": (
        "x1' = -k1*x1*A; x2' = k1*x1*A - k2*x2**2; x3' = -k3*x3 + k2*x2**2/2; x4' = k3*x3",
        "k5*(x2 + 2*x3), k6*(x1 + x2 + 2*x3), k7*A", "", "k2/k6, k3, A*k7, A*k1, k5/k6"),
    "two compartments with volume": (
        "x1' = -(k01 + k21)*x1 + k12*x2 + u; x2' = k21*x1 - (k02 + k12)*x2", "x1/v", "u",
        "v, k02 + k12, k01 + k21, k12*k21"),
    "saturated compartment": (
        "x1' = -(k21 + V/(K + x1))*x1 + k12*x2 + b1*u; x2' = k21*x1 - (k02 + k12)*x2", "c*x1",
        "u", "k21, k12, k02, b1*c, V*c, K*c"),
    "three compartments with volume": (
        "x1' = k13*x3 + k12*x2 - (k12 + k31)*x1 + u; x2' = k21*x1 - (k12 + k02)*x2; "
        "x3' = k31*x1 - (k13 + k03)*x3", "x1/v", "u",
        "v, k12 + k31, k02 + k03 + k13 - k31, k12*k21 + k13*k31, "
        "k02*k03 + k02*k13 + k03*k12 + k12*k13, "
        "k02*k13*k31 + k03*k12*k21 + k12*k13*k21 + k12*k13*k31"),
    "four compartments": (
        "x1' = -a31*x1 + a13*x3 + u; x2' = -a42*x2 + a24*x4; "
        "x3' = a31*x1 - (a03 + a13 + a43)*x3; x4' = a42*x2 + a43*x3 - (a04 + a24)*x4", "x1, x2",
        "u", "a31, a13, a03 + a43, a04 + a24 + a42, a24*a43, a04*a42"),
    "SIR with births": (
        "S' = mu*N - S*(mu + beta/N*J); J' = J*(beta/N*S - mu - nu)", "k*J", "",
        "nu, mu, beta, N*k"),
    "EAIHRD": (
        "A' = a*E - r1*A; J' = s*E - (h + r2)*J; H' = h*J - (r3 + d)*H; "
        "R' = r1*A + r2*J + r3*H; D' = d*H; "
        "E' = (N - A - J - H - R - D - E)*(c1*A + c2*J) - (a + s)*E", "D", "",
        "r1, d + r3, a + h + r2 + s, a*h + a*r2 + h*s + r2*s, d*h*s/(a*c1 + c2*s), "
        "(a*c1*h + a*c1*r2 + c2*r1*s)/(a*c1 + c2*s)"),
    "nonlinear exchange": (
        "x1' = -(a1 + a2)*x1*V/(K + x1) + k21*x2 + b1*u; x2' = a2*x1*V/(K + x1) - (k02 + k12)*x2",
        "c*x1", "u", "k02 + k12, b1*c, K*c, V*a1*c + V*a2*c, a2*k21/(a1 + a2)"),
    "virus": (
        "T' = lam - rho*T - beta*T*V; I2' = beta*T*V - delta*I2; V' = N*delta*I2 - c*V", "V", "",
        "rho, beta, c + delta, c*delta, N*delta*lam"),
    "cascade with loss": (
        "x1' = -a1*x1 + a21*x2; x2' = -a2*x2 - a21*x2", "x1", "", "a1, a2 + a21"),
    "cascade with input": (
        "x1' = -a1*x1 + a21*x2; x2' = -a2*x2 - a21*x2 + u", "x1", "u", "a1, a2, a21"),
    "SEI": (
        "S' = -b*S*J/N; E' = b*S*J/N - nu*E; J' = nu*E - a*J", "J, N", "", "b, N, a, nu"),
    "two outputs": (
        "x1' = (1 + x1**2)/2; x2' = (1 - x1**2)/(1 + x1**2)", "2*x1/(b*(1 + x1**2)), x2", "",
        "b"),
    "constants": (
        "x1' = a1 + a2 + a3*a4; x2' = a4*a5 + a6 + a7 - 8*a8", "x1*x2", "",
        "(a1 + a2 + a3*a4)*(a4*a5 + a6 + a7 - 8*a8)"),
    "competition": ("x1' = k*(1 - x1 - x2); x2' = r*(1 - x1 - x2)", "x1", "", "k + r"),
    "competition, both": (
        "x1' = k*(1 - x1 - x2); x2' = r*(1 - x1 - x2)", "x1, x2", "", "k, r"),
    "SIWR": (
        "S' = mu - bi*S*J - bw*S*W - mu*S + a*R; J' = bw*S*W + bi*S*J - (gam + mu)*J; "
        "W' = xi*(J - W); R' = gam*J - (mu + a)*R", "k*J", "", "mu, bi, bw, a, xi, gam, k"),
}  # fmt: skip

#: Functions of parameters and states.
OF_STATES = {
    "free": ("x' = x", "x", "", "x"),
    "Lotka-Volterra": (
        "x1' = a*x1 - b*x1*x2; x2' = -c*x2 + d*x1*x2", "x1", "", "x1, c, d, a, b*x2"),
    "Lotka-Volterra with input": (
        "x0' = a*x0 - b*x0*x1 + u; x1' = c*x1 + d*x0*x1", "x0", "u", "x0, a, c, d, b*x1"),
    "constant drive": ("x1' = x1 + theta*x2; x2' = 0", "x1", "", "x1, x2*theta"),
    "three integrals": (
        "x1' = al*x2; x2' = x3; x3' = C", "x1", "", "x1, al*x2, al*x3, al*C"),
    "spiral": (
        "x1' = al*(x1 - x2); x2' = al*(x1 + x2)", "(x1**2 + x2**2)/2", "", "al, x1**2 + x2**2"),
    "gain": ("x' = a*x + b*u", "c*x", "u", "a, b*c, x*c"),
    "LLW": (
        "x1' = -p1*x1 + p2*u; x2' = -p3*x2 + p4*u; x3' = -(p1 + p3)*x3 + (p4*x1 + p2*x2)*u", "x3",
        "u", "x3, x2*x1, p3*p1, p2*p4, p3 + p1, p2*x2 + p4*x1, x1*p1*p4 + x2*p2*p3"),
    "carotene": (
        "be' = -kb*be; cry' = -cry*kcb - cry*kco; zea' = -zea*kz; "
        "b10' = cry*kco - b10*kb10 + kb*be; o10' = cry*kcb + zea*kz - o10*ko; "
        "bio' = cry*kcb + b10*kb10 + kb*be; obio' = cry*kco + zea*kz + o10*ko", "be, b10", "",
        "b10, be, kb, kb10, cry*kco, kcb + kco"),
    "sum": ("x1' = x1; x2' = x2", "x1 + x2", "", "x1 + x2"),
    "squared sum": ("x1' = 0; x2' = 0; x3' = x3", "(x1 + x2)**2, x3", "", "x1 + x2, x3"),
    "SEUIR": (
        "S' = -b*(U + J)*S/N; E' = b*(U + J)*S/N - g*E; U' = (1 - a)*g*E - d*U; J' = a*g*E - d*J",
        "J", "", "J, d, g, S*a, E*a, U*a + J*a, N*a/b"),
    "squared output": ("x' = al*x**2", "x**2", "", "al**2, x*al"),
    "predator": (
        "x1' = p1*x1 - p2*x1*x2; x2' = p3*x2*(1 - p4*x2) + p5*x1*x2", "x1", "",
        "p5, p3, p1, x1, x2*p4, p2/p4"),
    "HIV 2": (
        "x1' = -b*x1*x4 - d*x1 + s; x2' = b*q1*x1*x4 - k1*x2 - w1*x2; "
        "x3' = b*q2*x1*x4 + k1*x2 - w2*x3; x4' = -c*x4 + k2*x3", "x1, x4", "",
        "s, d, b, x4, x1, c + k1 + w1 + w2, k2*q2, x3*k2 - x4*c, "
        "c*k1 + c*w1 + c*w2 + k1*w2 + w1*w2, c*k1*w2 + c*w1*w2, "
        "k1*k2*q1 + k1*k2*q2 + k2*w1*q2, "
        "x2*k1*k2 + x3*k1*k2 + x3*k2*w1 + x4*k1*w2 + x4*w1*w2"),
    "HIV": (
        "x' = lm - d*x - beta*x*v; y' = beta*x*v - a*y; v' = k*y - u*v; "
        "w' = c*x*y*w - c*q*y*w - b*w; z' = c*q*y*w - h*z", "w, z", "",
        "z, w, a, u, d, h, b, v*beta, x/y, q/y, lm/y, k*y/v, k*beta/(c*y)"),
    "PK1": (
        "x1' = u1 - (k1 + k2)*x1; x2' = k1*x1 - (k3 + k6 + k7)*x2 + k5*x4; "
        "x3' = k2*x1 + k3*x2 - k4*x3; x4' = k6*x2 - k5*x4", "s2*x2, s3*x3", "u1",
        "x1, k6, k4, k5, s2*x4, s2*x2, s2*k1, s3*x3, s3*k2, k3*s3*x4, k2 + k1, k3 + k7"),
    "SIR 6": (
        "N' = 0; S' = -beta*J*S/N; J' = beta*J*S/N - gama*J; R' = gama*J", "J*K, N", "",
        "N, gama, J*K, K*S, beta/K"),
    "SEIR 34": (
        "A' = 0; N' = 0; S' = A - r*beta*S*J/N - mu*S; E' = r*beta*S*J/N - ep*E - mu*E; "
        "J' = ep*E - gama*J - mu*J; R' = gama*J - mu*R", "K*J, A, N", "",
        "S, N, A, mu, K*ep, gama*J, gama*ep, E + J, gama + ep, r*beta*(gama + ep)/gama"),
    "Akt pathway": (
        "EGFR' = tu*pro + EE*r1k2 - EGFR*tu - EE*r1k1; pro' = 0; "
        "pE' = EE*r9 - pE*r4 + pEA*r2k2 + pEA*r3 - Akt*pE*r2k1; "
        "pEA' = Akt*pE*r2k1 - pEA*r3 - pEA*r2k2; Akt' = pA*r7 + pEA*r2k2 - Akt*pE*r2k1; "
        "pA' = pAS*r5k2 - pA*r7 + pAS*r6 + pEA*r3 - S6*pA*r5k1; "
        "S6' = pAS*r5k2 + pS6*r8 - S6*pA*r5k1; pAS' = S6*pA*r5k1 - pAS*r6 - pAS*r5k2; "
        "pS6' = pAS*r6 - pS6*r8; EE' = EE*r1k1 - EE*r9 - EE*r1k2",
        "a1*(pE + pEA), a2*(pA + pAS), a3*pS6", "",
        "r8, a3/r5k1, r3, r2k2, pA*r5k1, pE*r5k1, r2k1/r5k1, a1/r5k1, pS6*r5k1, r5k2, r6, "
        "a2/r5k1, r7, r4, pAS*r5k1, r1k1 - r1k2 - r9, pEA*r5k1, S6*r5k1, EE*r5k1*r9, Akt*r5k1"),
}  # fmt: skip


#: Parameters that these functions determine up to finitely many values, and not uniquely; of the
#: first, SEI and cascades by the verdicts of the same package and of papers.
LOCAL_ONLY = {
    "Goodwin": "beta delta",
    "cascade with loss": "a1",
    "cascade with input": "a1 a2",
    "SEI": "a nu",
    "SIRS forced": "M",
    "SEIR 1": "beta psi v",
    "bilirubin": "k21 k31 k41 k12 k13 k14",
    "biohydrogenation": "k8 k9 k10",
    "SLIQR": "a e g",
    "virus": "c delta",
    "LLW": "p1 p3",
    "squared output": "al",
    "SEIR 34": "K ep gama",
    "HIV 2": "c w2",
}


def read(text):
    """Model, outputs and functions of one of these."""
    rates, outputs, inputs, functions = text
    heads = re.findall(r"(\w+)'", rates)
    moving = {name: sp.Function(name)(ks.t) for name in [*heads, *inputs.split()]}
    words = {*re.findall(r"[A-Za-z_]\w*\b(?!\()", " ".join(text))} - {"pi"}
    known = {**{name: sp.Symbol(name) for name in words}, **moving, "t": ks.t, "pi": sp.pi}

    def expressions(some, between):
        rows = re.split(rf"{between}(?![^(]*\))", some) if some else []
        return [parsed(row.split("' =")[-1].strip(), Scope(known)) for row in rows]

    right, measured = expressions(rates, ";"), expressions(outputs, ",")
    parameters = set().union(*(e.free_symbols for e in (*right, *measured))) - {ks.t}
    states = [moving[name] for name in heads]
    model = ks.Model(
        "published",
        states,
        [moving[name] for name in inputs.split()],
        sorted(parameters, key=str),
        [x.diff(ks.t) - e for x, e in zip(states, right, strict=True)],
    )
    return model, measured, expressions(functions, ",")
