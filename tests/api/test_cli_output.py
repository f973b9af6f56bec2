"""What the command line prints, and nobody reads to the end."""

import subprocess
import sys


def test_reader_that_leaves():
    """As `head` does: the command ends without a word, with the status that shells give it."""
    command = [
        sys.executable,
        "-c",
        "import sys, kinesym.cli; sys.exit(kinesym.cli.main(['list']))",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert (process.returncode, said) == (141, "")
