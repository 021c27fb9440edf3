"""whatif: a recorded history through a pool: which blocks lived when (history), and what another policy needs for them.

It reads no file and prints nothing. The policies themselves are native: pool/ is ours, emulate/ is PyTorch's.
"""
