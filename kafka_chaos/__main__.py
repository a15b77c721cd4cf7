"""The command `kafka-chaos`, also as `python -m kafka_chaos`."""

import sys
from typing import NoReturn

from kafka_chaos import check_packages


def main() -> NoReturn:
    """Run the command line; exit with 2 if another package hides one of ours."""
    try:
        check_packages()
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    from harness.cli.main import main as run_command

    run_command()


if __name__ == "__main__":
    main()
