"""One function a command: keyword arguments in, exit code out."""
