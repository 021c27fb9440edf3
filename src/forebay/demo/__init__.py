"""demo: a decode server with continuous batching that lives on forebay's pools and streams, and the proof that its tokens are right.

The runtime it runs on is runtime's; what it is judged by is contract's and doctor's.
"""
