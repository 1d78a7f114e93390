"""Decisions only: no git, no subprocess, no file system, no network, no print."""
