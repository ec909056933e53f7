"""What people and monitors ask beyond the records: figures, histories, timelines."""
