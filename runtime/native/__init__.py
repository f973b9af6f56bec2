"""The compiled extensions, under a name that tools which only read Python can follow."""

from kinesym.runtime.native._chain import Chain
from kinesym.runtime.native._hybrid import (
    CHATTER,
    CONTACT_LAWS,
    DONE,
    FULL,
    INTERRUPTED,
    LOG_KINDS,
    NEWTON,
    NO_MEMORY,
    NO_NUMBER,
    PAUSED,
    SLIDES,
    STEP,
    STOPPED,
    STUCK,
    HybridRun,
    HybridSweep,
    solve_contacts,
)
from kinesym.runtime.native._ipopt import NO_FILE, Ipopt, Problem, overheard, trial
from kinesym.runtime.native._kkt import (
    BORDER,
    QUALITY,
    UNKNOWN,
    Factorisation,
    Workspace,
    close_session,
    equilibrated,
    forms,
    largest_in_rows,
    open_session,
)
from kinesym.runtime.native._kkt import __file__ as KKT_LIBRARY
from kinesym.runtime.native._library import ABI, Compiled, Interpreted, Library
from kinesym.runtime.native._plan import ADD, LATE, PLACE, SET, SUM, Call, Plan
from kinesym.runtime.native._run import HELD, LINEAR, PARABOLA, Run, pieces
from kinesym.runtime.native._systems import solve_systems
from kinesym.runtime.native._trust import steps_aside, trust_steps
