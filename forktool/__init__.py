"""Keep a patch series on an upstream project: rebase it, judge it, build it, test it, send it upstream."""

__version__ = "0.1.0"
