// Numbers as the reports print them.
#pragma once

#include <cstdio>
#include <string>

namespace plumbline {

/// `pattern` takes one double.
inline std::string printed(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

/// "12.3" for 0.123.
inline std::string percent_number(double part) { return printed("%.1f", 100 * part); }

}  // namespace plumbline
