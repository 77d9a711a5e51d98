#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "validate/timeline/timeline.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kSqlite("SQLite format 3");
constexpr std::string_view kGzip("\x1f\x8b");
/// Of an unpacked trace: what a profiler writes of some hundred steps.
constexpr Bytes kLargestTrace = 4.0 * units::GiB;
constexpr std::size_t kBeginning = 1U << 16U;

/// Of a packed file, at least `most` bytes where it has them.
std::string unpacked(const std::string& file, std::size_t most) {
  // The library is the system's: every Debian has it.
  void* library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw BadInput(file + ": packed traces need zlib (libz.so.1), which is not here");
  const auto open = reinterpret_cast<void* (*)(const char*, const char*)>(dlsym(library, "gzopen"));
  const auto read = reinterpret_cast<int (*)(void*, void*, unsigned)>(dlsym(library, "gzread"));
  const auto close = reinterpret_cast<int (*)(void*)>(dlsym(library, "gzclose"));
  if (open == nullptr || read == nullptr || close == nullptr) throw BadInput(file + ": libz.so.1 lacks gzread");
  void* stream = open(file.c_str(), "rb");
  if (stream == nullptr) throw BadInput(file + ": cannot be read");
  std::string text;
  std::array<char, kBeginning> part{};
  int got = 0;
  while (text.size() < most && (got = read(stream, part.data(), static_cast<unsigned>(part.size()))) > 0) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  close(stream);
  if (got < 0) throw BadInput(file + ": packed text ends or breaks off where more was expected");
  if (static_cast<double>(text.size()) > kLargestTrace.in(units::B)) {
    throw BadInput(file + ": expected at most 4 GiB unpacked; trace fewer steps");
  }
  return text;
}

/// The first 64 KiB, unpacked.
std::string beginning_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(kBeginning, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text.starts_with(kGzip) ? unpacked(file, kBeginning) : text;
}

std::string text_of(const std::string& file) {
  std::string magic(kGzip.size(), '\0');
  std::ifstream(file, std::ios::binary).read(magic.data(), static_cast<std::streamsize>(magic.size()));
  return magic == kGzip ? unpacked(file, std::string::npos - 1) : read_text_file(file, kLargestTrace);
}

bool is_ncu(std::string_view text) {
  return text.starts_with("==PROF==") || text.find("\"Kernel Name\"") != std::string_view::npos;
}

/// A recording of ours is JSON too.
bool is_chrome(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return false;
  if (text[first] == '[') return text.find("\"ph\"") != std::string_view::npos;
  return text[first] == '{' && (text.find("\"traceEvents\"") != std::string_view::npos ||
                                text.find("\"deviceProperties\"") != std::string_view::npos);
}

}  // namespace

std::string_view name(TimelineSource source) {
  switch (source) {
    case TimelineSource::pytorch: return "PyTorch profiler trace";
    case TimelineSource::ncu: return "Nsight Compute CSV";
    case TimelineSource::nsys: return "Nsight Systems export";
  }
  return "";
}

Seconds Timeline::busy() const {
  Seconds sum;
  for (const TimelineKernel& kernel : kernels) sum += kernel.duration;
  return sum;
}

Seconds Timeline::span() const {
  Seconds first, last;
  for (const TimelineKernel& kernel : kernels) {
    first = &kernel == kernels.data() ? kernel.start : std::min(first, kernel.start);
    last = std::max(last, kernel.start + kernel.duration);
  }
  return last - first;
}

bool is_timeline(const std::string& file) {
  const std::string text = beginning_of(file);
  return text.starts_with(kSqlite) || is_chrome(text) || is_ncu(text);
}

Timeline read_timeline(const std::string& file) {
  const std::string beginning = beginning_of(file);
  Timeline timeline;
  if (beginning.starts_with(kSqlite)) {
    timeline = read_nsys_sqlite(file);
  } else {
    const std::string text = text_of(file);
    timeline = is_chrome(beginning) ? read_pytorch_trace(text, file) : read_ncu_csv(text, file);
  }
  if (timeline.kernels.empty()) throw BadInput(file + ": expected launches of a GPU, found none");
  std::vector<TimelineKernel>& all = timeline.kernels;
  std::stable_sort(all.begin(), all.end(),
                   [](const TimelineKernel& a, const TimelineKernel& b) { return a.start < b.start; });
  // a trace of several ranks: what the first of them ran
  const std::int64_t device = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) {
                                return a.device < b.device;
                              })->device;
  timeline.other_devices =
      static_cast<long>(std::erase_if(all, [&](const TimelineKernel& each) { return each.device != device; }));
  const Seconds first = all.front().start;
  for (TimelineKernel& each : all) each.start -= first;
  return timeline;
}

}  // namespace plumbline
