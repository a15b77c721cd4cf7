"""A client that does nothing but end when it is asked to."""

import sys

if __name__ == "__main__":
    for line in sys.stdin:
        if line.strip() == "stop":
            break
