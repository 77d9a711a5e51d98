// From a name to the chain of JSON documents behind a GPU descriptor: short names, aliases, `extends`. Internal.
#pragma once

#include <string>
#include <vector>

#include "arch/json_reader.hpp"

namespace plumbline::descriptor {

/// One document of an `extends` chain.
struct Layer {
  std::string label;  ///< "h100_sxm", "family hopper", or the place of the user's text
  bool is_family = false;
  JsonDocument document;
};

/// "NVIDIA H100 80GB HBM3", "H100-SXM" -> "h100_80gb_hbm3", "h100_sxm": what names and aliases are compared as.
std::string normalised_name(const std::string& text);

/// The file of a GPU by short name, alias or title. Throws BadInput with the nearest name.
std::string gpu_file(const std::string& name);

/// `top` and all that it extends, the most basic first. Throws BadInput on an unknown or endless chain.
std::vector<Layer> extends_chain(JsonDocument top, const std::string& label);

}  // namespace plumbline::descriptor
