"""The pair of Dormand and Prince of order 5(4), with dense output of order 4."""

from kinesym.symbolic.schemes.scheme import ExplicitScheme

DORMAND_PRINCE = ExplicitScheme(
    name="dormand-prince",
    nodes=(0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    matrix=(
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    weights=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    error=(71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
    dense=(
        -12715105075 / 11282082432,
        0.0,
        87487479700 / 32700410799,
        -10690763975 / 1880347072,
        701980252875 / 199316789632,
        -1453857185 / 822651844,
        69997945 / 29380423,
    ),
    order=5,
    reference="Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, table II.5.2 "
    "and section II.6",
)
