"""Descriptions of the served API: discovery and the OpenAPI documents."""
