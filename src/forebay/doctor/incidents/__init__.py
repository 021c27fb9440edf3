"""incidents: one file each: what it is, why it matters, what to do instead, and the judgement. A new one is a file and a line in
incident.py."""
