"""`python -m forktool`: the same as the console script."""

from forktool.cli import entry_point

if __name__ == "__main__":
    entry_point()
