"""`python -m rookery`: the same as the command `rookery`."""

from rookery.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
