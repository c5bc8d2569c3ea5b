"""``python -m pnca``, where no script is on the path."""

from pnca.interfaces.cli import main

if __name__ == "__main__":
    main()
