"""Libraries, threads and processes: nothing crashes, hangs or mixes numbers up."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import kinesym as ks


def task(nodes=2001, threads=2):
    time = np.linspace(0.0, 20.0, nodes)
    trial = ks.Experiment(time, measurements={"theta": np.cos(3 * time)})
    problem = ks.Collocation(ks.models.pendulum(), trial, unknown={"p": None}, threads=threads)
    return problem


PREAMBLE = """
import os
import numpy as np, kinesym as ks, kinesym.runtime.nlp.nlp as nlp
nlp._PER_THREAD = 1  # threads even where they are not worth it

def task():
    time = np.linspace(0.0, 20.0, 20001)
    trial = ks.Experiment(time, measurements={"theta": np.cos(3 * time)})
    return ks.Collocation(ks.models.pendulum(), trial, unknown={"p": None}, threads=2)
"""


@pytest.mark.parametrize(
    "code",
    [
        # a problem is dropped while the threads of its library are still alive
        "for _ in range(20):\n    p = task(); p.constraint_jacobian(p.pack()); del p",
        # a child process has none of the parent's threads
        "p = task(); z = p.pack(); p.constraints(z)\npid = os.fork()\n"
        "if pid == 0:\n    p.constraint_jacobian(z); os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0",
    ],
    ids=["dropped", "forked"],
)
def test_in_a_process_of_its_own(code):
    subprocess.run([sys.executable, "-c", PREAMBLE + code], check=True, timeout=60)


def test_two_threads_share_a_problem():
    problem = task()
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, problem.n_variables))
    expected = [problem.constraints(z) for z in points]
    wrong = []

    def work(k):
        for _ in range(200):
            wrong.append(not np.array_equal(problem.constraints(points[k]), expected[k]))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(wrong) == 400 and not any(wrong)
