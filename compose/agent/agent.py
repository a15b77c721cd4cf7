#!/usr/bin/python3 -SE
"""`agent.py VERB JSON`: see README.md. Small, for each call compiles this file anew."""

import sys

from fault_agent.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
