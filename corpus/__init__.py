"""Runs the apps of other repositories on agents with the simulated engine: ``make corpus``."""
