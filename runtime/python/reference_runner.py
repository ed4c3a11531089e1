#!/usr/bin/env python3
"""The reference runner: loads tasks, makes inputs and expected values, compares. Speaks docs/protocols.md §2 on --fd.

    reference_runner.py --fd 3 --run-dir /tmp/run
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from musaref.server import main  # noqa: E402

if __name__ == "__main__":
    main()
