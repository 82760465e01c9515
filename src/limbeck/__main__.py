"""Entry point of the program `limbeck`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it with a message of one line, also while libraries are imported."""
    try:
        from limbeck.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("limbeck: interrupted; nothing was written\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
