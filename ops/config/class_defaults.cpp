#include "ops/config/class_defaults.hpp"

#include <map>
#include <mutex>

#include "arch/files.hpp"

namespace plumbline {

std::optional<JsonValue> class_defaults(const std::string& model_type) {
  if (model_type.empty()) return std::nullopt;
  static std::mutex mutex;
  static std::map<std::string, JsonDocument> files;  // by path: the data folder may be another one later
  const std::string path = data_folder() + "/families/class_defaults.json";
  const std::lock_guard lock(mutex);
  auto file = files.find(path);
  if (file == files.end()) file = files.emplace(path, JsonDocument::read_file(path)).first;
  return file->second.root().at("models").find_object(model_type);
}

}  // namespace plumbline
