"""The driver for Docker's API (Docker and Podman). The only place that imports the SDK."""
