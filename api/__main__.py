"""`python -m kinesym`: the command `kinesym`, where scripts of an environment are not found."""

import sys

from kinesym.cli import main

if __name__ == "__main__":
    sys.exit(main())
