"""Faults injected on a real agent and a real engine, and what must hold after each of them."""
