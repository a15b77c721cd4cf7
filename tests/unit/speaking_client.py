"""A client that says the lines in its settings, and where it looks for packages first."""

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    settings = json.loads(Path(sys.argv[1]).read_text())
    for document in settings["lines"]:
        sys.stdout.write(json.dumps(document) + "\n")
    # The first place is that of the module itself.
    sys.stdout.write(json.dumps({"path": sys.path[1]}) + "\n")
    sys.stdout.flush()
    for line in sys.stdin if settings["stays"] else ():
        if line.strip() == "stop":
            break
