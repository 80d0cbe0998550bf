// The demand of a fuzz target: a property that is broken ends the run.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}
inline void require(bool condition, const std::string& what) { require(condition, what.c_str()); }
