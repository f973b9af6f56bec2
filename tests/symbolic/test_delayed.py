"""Delays in expressions: what they are reduced to, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

theta, omega, T = ks.dynamicsymbols("theta omega T")
k, c, tau, A = sp.symbols("k c tau A")
t = ks.t


def pendulum(torque, **more):
    equations = [theta.diff(t) - omega, omega.diff(t) + sp.sin(theta) - torque]
    return ks.Model("pendulum", [theta, omega], [T], [k, c, tau], equations, **more)


def names(model):
    return [delay.name for delay in model.delays]


def test_of_expressions_are_of_their_signals_and_of_time():
    model = pendulum(T - ks.delayed(k * theta + c * omega + sp.sin(t), tau))
    assert names(model) == ["omega(t - tau)", "theta(t - tau)"]
    assert model.input_names == ("T", *names(model))
    assert model.given == (T,)
    late = {delay.signal: delay.symbol for delay in model.delays}
    expected = k * late[theta] + c * late[omega] + sp.sin(t - tau)
    assert sp.simplify(model.equations[1].subs(omega.diff(t), 0) - sp.sin(theta) + T) == expected
    assert "delays      omega(t - tau), theta(t - tau)" in str(model)


def test_constants_and_no_delay_stay():
    assert names(pendulum(ks.delayed(k, tau) + ks.delayed(theta, 0) + T)) == []


def test_of_delays_add_up():
    model = pendulum(T + ks.delayed(omega + ks.delayed(theta, tau), 0.1))
    taus = {delay.name: delay.tau for delay in model.delays}
    assert taus == {"omega(t - 0.1)": 0.1, "theta(t - (tau + 0.1))": tau + 0.1}


def test_of_intermediates_are_intermediates():
    torque = T + ks.delayed(A, tau)
    model = pendulum(torque, intermediates=[(A, k * theta + ks.delayed(omega, 0.1))])
    assert [str(symbol) for symbol, _ in model.intermediates] == ["A", "A(t - tau)"]
    assert names(model) == ["omega(t - 0.1)", "omega(t - (tau + 0.1))", "theta(t - tau)"]


def test_models_made_of_models_keep_them():
    model = pendulum(T - ks.delayed(k * theta, tau), outputs={"felt": ks.delayed(omega, 2 * tau)})
    assert replace(model).delays == pickle.loads(pickle.dumps(model)).delays == model.delays
    assert names(model.with_rates(T)) == names(model)
    further = model.extended(outputs={"other": ks.delayed(T, tau)})
    assert names(further) == [*names(model), "T(t - tau)"]
    fixed = model.substitute({tau: 0.1}, parameters=[k, c])
    assert names(fixed) == ["omega(t - 0.2)", "theta(t - 0.1)"]


def test_a_law_of_control_may_be_late():
    plant = pendulum(ks.delayed(T, 0.1))
    closed = plant.substitute({T: -k * ks.delayed(theta, tau)}, inputs=[])
    assert names(closed) == ["theta(t - (tau + 0.1))"]
    assert closed.given == ()


def test_delays_that_change_have_a_range():
    model = pendulum(T + ks.delayed(theta, 0.1 + 0.05 * omega**2, range=(0, 0.3)))
    [delay] = model.delays
    assert delay.range == (0.0, 0.3)
    assert delay.name == "theta(t - (0.05*omega**2 + 0.1))"


def test_kernels_have_them_as_inputs():
    f = ks.compile(pendulum(T - ks.delayed(k * theta + c * omega, tau)))
    found = f.rhs([0.1, 0.2], [0.3, 0.5, 0.4], [2.0, 3.0, 0.1], 0.0)
    assert found == pytest.approx([0.2, 0.3 - 2.0 * 0.4 - 3.0 * 0.5 - np.sin(0.1)], rel=1e-15)


def late(*arguments, **more):
    return lambda: pendulum(T + ks.delayed(*arguments, **more))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (late(theta, -0.1), "the delay of ks.delayed is -0.1 s, which is negative"),
        (late(theta, 0.1, range=(0.2, 0.3)), "outside its range"),
        (late(theta, tau, range=(0.3, 0.2)), "0 <= low < high"),
        (late(theta, tau, range=(-0.3, 0.2)), "0 <= low < high"),
        (late(theta, tau, range=0.3), "the range of ks.delayed must be a list, got 0.3"),
        (late("theta", tau), "what ks.delayed delays is text"),
        (late(theta, "tau"), "the delay of ks.delayed is text"),
        (late(theta, sp.nan), "contains NaN"),
        (late(theta, theta), "changes along the motion and needs bounds"),
        (late(theta, t, range=(0, 1)), None),
        (late(theta.diff(t), tau), "equation 1 has the delayed rate Derivative"),
        (late(theta, omega.diff(t), range=(0, 1)), "contains a rate; write it with the states"),
        (late(ks.delayed(theta, theta, range=(0, 1)), tau), "delays within delays are constants"),
        (late(theta, ks.delayed(theta, tau), range=(0, 1)), "contains a delayed value itself"),
        (late(theta, sp.Symbol("L")), "contains L, which is not declared"),
        (late(sp.Function("z")(t), tau), "contains z"),
        (
            lambda: pendulum(
                ks.delayed(theta, tau, range=(0, 1)) + ks.delayed(k * theta, tau, range=(0, 2))
            ),
            "has the range",
        ),
        (lambda: ks.delayed(theta, tau).diff(t), "cannot be differentiated"),
        (lambda: pendulum(T + theta.subs(t, t - tau)), "for a delay write kinesym.delayed"),
        (lambda: pendulum(ks.sensor(theta, delay=0.1)), "a sensor with a delay"),
    ],
)
def test_what_is_refused(make, words):
    if words is None:
        assert make().delays
        return
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
        make()


def test_constraints_have_none():
    x, y, force = ks.dynamicsymbols("x y force")
    rates = [x.diff(t) - y, y.diff(t) + force]
    model = ks.Model("led", [x, y, force], [], [], [*rates, x - ks.delayed(y, 0.1)])
    with pytest.raises(ValueError, match="its derivative would hold the delayed rate"):
        model.reduced_index()
