"""Request bodies as documents: JSON, YAML and protobuf, with the API server's error texts."""
