"""Measured against the peers, in one run: `nox -s bench [-- NAME …]`. Prints ratios and medians, asserts nothing."""
