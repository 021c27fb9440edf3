// check: what must hold where it stands, on every operation of builds with FOREBAY_CHECKS; nothing in others. Statuses
// of the driver are never checked by it.
#pragma once

#ifdef FOREBAY_CHECKS
#include <cstdio>
#include <cstdlib>
#define FOREBAY_CHECK(holds)                                                          \
  do {                                                                                \
    if (!(holds)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #holds); \
      std::abort();                                                                   \
    }                                                                                 \
  } while (false)
#else
#define FOREBAY_CHECK(holds) static_cast<void>(0)
#endif
