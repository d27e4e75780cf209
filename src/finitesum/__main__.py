"""Lets `python -m finitesum` do what the command `finitesum` does."""

from finitesum.cli import main

if __name__ == "__main__":
    main(prog_name="finitesum")
