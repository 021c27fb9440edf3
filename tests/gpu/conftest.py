from conformance.instances import LIBCUDA

collect_ignore_glob = [] if LIBCUDA else ["test_*.py"]  # `make test-gpu` runs them
