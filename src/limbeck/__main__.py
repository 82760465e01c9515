"""The program's door: from here on Ctrl-C is told in one line, while libraries are imported too."""

import sys


def main() -> None:
    try:
        from limbeck.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("limbeck: interrupted; nothing was written\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
