"""Data for users and monitoring beyond the records: metrics, usage history, details of a pod."""
