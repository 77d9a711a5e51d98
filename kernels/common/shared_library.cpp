#include "kernels/common/shared_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace plumbline {
namespace {

namespace fs = std::filesystem;

/// The folders in `folder` whose names start with `prefix`, sorted; none when it can't be read.
std::vector<fs::path> children(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> out;
  std::error_code trouble;
  for (fs::directory_iterator it(folder, trouble), end; !trouble && it != end; it.increment(trouble)) {
    if (it->path().filename().string().rfind(prefix, 0) == 0) out.push_back(it->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Folders in which Python keeps packages, the active environment's first.
std::vector<fs::path> python_folders() {
  std::vector<fs::path> roots;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* root = std::getenv(variable); root != nullptr) roots.emplace_back(root);
  }
  if (const char* home = std::getenv("HOME"); home != nullptr) roots.push_back(fs::path(home) / ".local");
  for (const char* root : {"/usr/local", "/usr", "/opt/venv", "/opt/conda"}) roots.emplace_back(root);
  for (const fs::path& root : children("/opt", "")) roots.push_back(root / ".venv");
  std::vector<fs::path> out;
  for (const fs::path& root : roots) {
    for (const fs::path& python : children(root / "lib", "python3")) {
      out.push_back(python / "site-packages");
      out.push_back(python / "dist-packages");
    }
  }
  return out;
}

}  // namespace

std::vector<std::string> library_candidates(const std::string& file, const char* override) {
  if (const char* chosen = std::getenv(override); chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<fs::path> folders, toolkits;
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    if (const char* root = std::getenv(variable); root != nullptr) toolkits.emplace_back(root);
  }
  toolkits.emplace_back("/usr/local/cuda");
  for (const fs::path& root : children("/usr/local", "cuda-")) toolkits.push_back(root);
  for (const fs::path& root : toolkits) {
    for (const char* inside : {"extras/CUPTI/lib64", "lib64", "lib"}) folders.push_back(root / inside);
  }
  // Wheels: one folder for all of CUDA 13 (nvidia/cu13/lib), one a library before (nvidia/cuda_cupti/lib).
  for (const fs::path& packages : python_folders()) {
    for (const fs::path& part : children(packages / "nvidia", "")) folders.push_back(part / "lib");
  }
  std::vector<std::string> out{file};
  for (const fs::path& folder : folders) {
    std::error_code trouble;
    if (fs::exists(folder / file, trouble)) out.push_back((folder / file).string());
  }
  return out;
}

}  // namespace plumbline
