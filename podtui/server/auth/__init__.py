"""Users, their authorization, and access reviews."""
