"""Foreign files read natively, into columns."""



def torch_snapshot(data: bytes) -> dict:
    """
    A PyTorch memory snapshot (a pickle) as columns: a dict of `events`, `segments`, `blocks`, `annotations`,
    `sites` (each a dict of arrays; bytes and microseconds), `strings`, `settings`. Raises ValueError.
    """

def plain_pickle(data: bytes) -> object:
    """
    The value of a pickle of None, bool, int, float, str, bytes, list, tuple and dict with str keys. Anything
    that names a class is refused and nothing is executed. Raises ValueError, naming the byte offset.
    """
