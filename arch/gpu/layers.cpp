#include "arch/gpu/layers.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/gpu/gpu.hpp"

namespace plumbline::descriptor {
namespace {

constexpr std::size_t kLongestChain = 6;

std::string gpu_folder() { return data_folder() + "/gpus"; }

bool file_exists(const std::string& path) {
  std::error_code ec;
  return std::filesystem::is_regular_file(path, ec);
}

std::string family_file(const JsonValue& extends, const std::string& family) {
  const std::string folder = gpu_folder() + "/family";
  const std::string name = normalised_name(family);
  const std::string path = folder + "/" + name + ".json";
  if (name.empty() || !file_exists(path)) {
    extends.fail("unknown family '" + family.substr(0, 60) + "'" + did_you_mean(family, json_file_names(folder)));
  }
  return path;
}

/// The document that `extends` names. Files elsewhere are not followed: a descriptor is one file on top of known data.
Layer read_base(const JsonValue& extends) {
  const std::string text = extends.as_string();
  const std::string kFamily = "family:";
  if (text.compare(0, kFamily.size(), kFamily) == 0) {
    const std::string family = text.substr(kFamily.size());
    const std::string path = family_file(extends, family);
    return {"family " + normalised_name(family), true, JsonDocument::read_file(path)};
  }
  std::string path;
  try {
    path = gpu_file(text);
  } catch (const BadInput& e) {
    extends.fail(e.what());
  }
  return {std::filesystem::path(path).stem().string(), false, JsonDocument::read_file(path)};
}

}  // namespace

std::string normalised_name(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0 && u < 128) out += static_cast<char>(std::tolower(u));
    else if (!out.empty() && out.back() != '_') out += '_';
  }
  if (!out.empty() && out.back() == '_') out.pop_back();
  for (const char* brand : {"nvidia_", "amd_", "tesla_", "geforce_", "instinct_"}) {  // as drivers print names
    const std::string prefix = brand;
    if (out.size() > prefix.size() && out.compare(0, prefix.size(), prefix) == 0) out.erase(0, prefix.size());
  }
  return out;
}

namespace {

/// Whether the descriptor's title or one of its aliases is `wanted`.
bool is_called(const JsonValue& card, const std::string& wanted) {
  const auto title = card.find("title");
  if (title && normalised_name(title->as_string()) == wanted) return true;
  const auto aliases = card.find("aliases");
  if (!aliases) return false;
  for (const JsonValue& alias : aliases->elements()) {
    if (normalised_name(alias.as_string()) == wanted) return true;
  }
  return false;
}

}  // namespace

std::string gpu_file(const std::string& name) {
  const std::string wanted = normalised_name(name);
  const std::string path = gpu_folder() + "/" + wanted + ".json";
  if (!wanted.empty() && file_exists(path)) return path;
  // The index saves reading every descriptor for an alias; a test holds it against the descriptors.
  const JsonDocument index = JsonDocument::read_file(gpu_folder() + "/index/aliases.json");
  if (const auto target = index.root().find(wanted)) return gpu_folder() + "/" + target->as_string() + ".json";
  std::vector<std::string> known = gpu_names();
  for (const std::string& card : known) {  // one that the index does not have yet
    const std::string file = gpu_folder() + "/" + card + ".json";
    if (is_called(JsonDocument::read_file(file).root(), wanted)) return file;
  }
  const std::vector<std::string> aliases = index.root().keys();
  known.insert(known.end(), aliases.begin(), aliases.end());
  throw BadInput("unknown GPU '" + name.substr(0, 60) + "': expected a name from `list gpus` or a descriptor file" +
                 did_you_mean(wanted, known));
}

std::vector<Layer> extends_chain(JsonDocument top, const std::string& label) {
  std::vector<Layer> layers;
  layers.push_back({label, false, std::move(top)});
  for (;;) {
    const JsonValue root = layers.back().document.root();
    if (!root.is_object()) root.fail("expected a GPU descriptor (an object)");
    const auto extends = root.find("extends");
    if (!extends) break;
    if (layers.size() >= kLongestChain)
      extends->fail("the chain of `extends` is longer than 6: does it go in a circle?");
    layers.push_back(read_base(*extends));
  }
  std::reverse(layers.begin(), layers.end());
  return layers;
}

}  // namespace plumbline::descriptor
