"""views: tape in, facts out. What the facts mean to a contract or to whoever is on call is contract's and doctor's."""
