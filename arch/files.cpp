#include "arch/files.hpp"

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "arch/error.hpp"

namespace plumbline {
namespace fs = std::filesystem;

std::string read_text_file(const std::string& path, Bytes limit) {
  std::error_code ec;
  if (fs::is_directory(path, ec)) throw BadInput(path + ": expected a file, found a folder");
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path + ": cannot be opened for reading");
  std::string text;
  const auto most = static_cast<std::size_t>(limit.in(units::B));
  char block[1 << 16];
  while (in.read(block, sizeof block) || in.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(in.gcount()));
    if (text.size() > most) throw BadInput(path + ": larger than the " + std::to_string(most) + " bytes that are read");
  }
  if (in.bad()) throw BadInput(path + ": read failed");
  return text;
}

void write_text_file(const std::string& path, std::string_view text) {
  const std::string beside = path + ".partial-" + std::to_string(::getpid());
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  if (!out) throw BadInput(path + ": cannot be opened for writing");
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.close();
  std::error_code ec;
  if (out) fs::rename(beside, path, ec);
  if (!out || ec) {
    std::error_code ignored;
    fs::remove(beside, ignored);
    throw BadInput(path + ": write failed");
  }
}

std::string data_folder() {
  if (const char* chosen = std::getenv("PLUMBLINE_DATA"); chosen != nullptr && *chosen != '\0') return chosen;
  std::error_code ec;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ec);
  if (!ec) {
    const fs::path installed = executable.parent_path().parent_path() / "share/plumbline/data";
    if (fs::is_directory(installed, ec)) return installed.string();
  }
  return PLUMBLINE_SOURCE_DATA;
}

std::vector<std::string> json_file_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(folder, ec)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool looks_like_path(const std::string& text) {
  if (text.find('/') != std::string::npos) return true;
  if (text.size() > 5 && text.compare(text.size() - 5, 5, ".json") == 0) return true;
  return false;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view text, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestCompared = 100;  // a longer text is no typo of a name
  if (text.empty() || text.size() > kLongestCompared) return "";
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, text.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(text, candidate);
    const bool prefix = text.size() >= 2 && candidate.compare(0, text.size(), text) == 0;
    if (prefix) distance = std::min<std::size_t>(distance, 1);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view text, const std::vector<std::string>& candidates) {
  const std::string name = nearest_name(text, candidates);
  return name.empty() ? "" : " (did you mean '" + name + "'?)";
}

}  // namespace plumbline
