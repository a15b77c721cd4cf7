"""A client that does nothing but end: when it is asked to, or when its input ends.

It reads its settings: with `waits`, it has something under way when it is asked to stop.
"""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    waits = json.loads(Path(sys.argv[1]).read_text()).get("waits", False)
    for line in sys.stdin:
        if line.strip() == "stop" and not waits:
            break
