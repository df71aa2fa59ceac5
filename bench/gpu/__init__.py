"""Modules of `run-gpu bench` and `run-gpu first-light`. Standard library only."""
