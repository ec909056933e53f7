"""Fault injection on a real agent and a real engine, with invariants checked after each fault."""
