"""`python -m rookery`: the same as the command `rookery`."""

from rookery.cli.main import run

if __name__ == "__main__":
    run()
