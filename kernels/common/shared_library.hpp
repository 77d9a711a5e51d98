// Where NVIDIA's libraries that are loaded at run time may be: nothing of them is linked, so that programs start
// without.
#pragma once

#include <string>
#include <vector>

namespace plumbline {

/// Names and paths of `file` ("libcupti.so.13") to try, in order: what the environment variable `override` names,
/// alone, when it is set; the loader's own search; the toolkits; the wheels of Python installations.
std::vector<std::string> library_candidates(const std::string& file, const char* override);

}  // namespace plumbline
