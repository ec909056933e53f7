"""The records that the screens show, as received from the server."""
