"""report: what was found, for people (text) and for programs (json). It finds nothing out and writes no file by itself."""
