"""Resources and the requests that read and write their objects."""
