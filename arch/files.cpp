#include "arch/files.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>

#include "arch/error.hpp"
#include "arch/sink.hpp"

namespace plumbline {
namespace fs = std::filesystem;

namespace {

/// ": No such file or directory", where the standard library's streams left it.
std::string system_reason() { return errno == 0 ? "" : std::string(": ") + std::strerror(errno); }

}  // namespace

std::string read_text_file(const std::string& path, Bytes limit) {
  std::error_code ec;
  if (fs::is_directory(path, ec)) throw BadInput(path + ": expected a file, found a folder");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw BadInput(path + ": cannot be opened for reading" + system_reason());
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
  OutputSink sink(path);
  sink.write(text);
  sink.commit();
}

// --- the data folder -----------------------------------------------------------------------------------------------

namespace {

constexpr std::array<const char*, 5> kDataParts{"gpus", "models", "calibration", "clusters", "stacks"};

bool holds_data(const fs::path& folder) {
  return std::any_of(kDataParts.begin(), kDataParts.end(), [&](const char* part) {
    std::error_code ec;
    return fs::is_directory(folder / part, ec);
  });
}

std::string checked_data(const std::string& who, const std::string& folder) {
  if (holds_data(folder)) return folder;
  std::error_code ec;
  throw BadInput(who + ": expected Plumbline's data folder (with gpus, models, calibration in it), found " +
                 (fs::is_directory(folder, ec) ? "another one: '" : "no folder '") + folder + "'");
}

std::mutex chosen_mutex;
std::string chosen_folder;                              // by set_data_folder
constinit std::atomic<const char*> installed_folder{};  // by know_installed_data

std::string beside_executable() {
  std::error_code ec;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ec);
  return ec ? "" : (executable.parent_path().parent_path() / "share/plumbline/data").string();
}

}  // namespace

void set_data_folder(const std::string& path) {
  const std::string folder = path.empty() ? path : checked_data("set_data_folder", path);
  const std::lock_guard lock(chosen_mutex);
  chosen_folder = folder;
}

void know_installed_data(const char* folder) noexcept { installed_folder.store(folder); }

std::string data_folder() {
  {
    const std::lock_guard lock(chosen_mutex);
    if (!chosen_folder.empty()) return chosen_folder;
  }
  if (const char* named = std::getenv("PLUMBLINE_DATA"); named != nullptr && *named != '\0') {
    return checked_data("PLUMBLINE_DATA", named);
  }
  if (const std::string folder = beside_executable(); !folder.empty() && holds_data(folder)) return folder;
  if (const char* folder = installed_folder.load(); folder != nullptr && holds_data(folder)) return folder;
  if (holds_data(PLUMBLINE_SOURCE_DATA)) return PLUMBLINE_SOURCE_DATA;
  throw BadInput(
      "no data folder (GPUs, models, calibrations): set the environment variable PLUMBLINE_DATA, or call "
      "set_data_folder");
}

std::vector<std::string> data_names(const std::string& part) {
  const std::string folder = data_folder();
  std::error_code ec;
  if (!fs::is_directory(folder + "/" + part, ec)) {
    throw BadInput("data folder '" + folder + "' (see PLUMBLINE_DATA): expected a folder '" + part + "' in it");
  }
  return json_file_names(folder + "/" + part);
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

/// Letters to put in, leave out, change, or change places with the next: one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// The same letter, small for large: any other name of one letter is as far from it as the next.
std::string other_case(char letter, const std::vector<std::string>& candidates) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const std::string& name) {
    return name.size() == 1 && lower(name.front()) == lower(letter);
  });
  return found == candidates.end() ? "" : *found;
}

std::size_t alike_from_the_start(std::string_view a, std::string_view b) {
  const auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(end - a.begin());
}

/// The longest candidate that `text` begins with, up to a mark between words: `kv` of `kv_dtype`.
std::string beginning_of(std::string_view text, const std::vector<std::string>& candidates) {
  std::string best;
  for (const std::string& candidate : candidates) {
    const std::size_t n = candidate.size();
    if (n <= best.size() || n >= text.size() || text.compare(0, n, candidate) != 0) continue;
    if (text[n] == '_' || text[n] == '-' || text[n] == '.') best = candidate;
  }
  return best;
}

}  // namespace

/// Of candidates that are as far the one that begins alike.
std::string nearest_name(std::string_view text, const std::vector<std::string>& candidates) {
  constexpr std::size_t kLongestCompared = 100;  // a longer text is no typo of a name
  if (text.empty() || text.size() > kLongestCompared) return "";
  if (text.size() == 1) return other_case(text.front(), candidates);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, text.size() / 3) + 1, best_alike = 0;
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(text, candidate);
    const bool prefix = text.size() >= 2 && candidate.compare(0, text.size(), text) == 0;
    if (prefix) distance = std::min<std::size_t>(distance, 1);
    const std::size_t alike = alike_from_the_start(text, candidate);
    if (distance < best_distance || (distance == best_distance && !best.empty() && alike > best_alike)) {
      best_distance = distance;
      best_alike = alike;
      best = candidate;
    }
  }
  return best.empty() ? beginning_of(text, candidates) : best;
}

std::string did_you_mean(std::string_view text, const std::vector<std::string>& candidates) {
  const std::string name = nearest_name(text, candidates);
  return name.empty() ? "" : " (did you mean '" + name + "'?)";
}

}  // namespace plumbline
