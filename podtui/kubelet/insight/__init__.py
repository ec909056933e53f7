"""Data for users and monitoring beyond the records: metrics, usage history, pod start timelines."""
