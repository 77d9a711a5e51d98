// probe: checks our kernels on this GPU, then measures the machine scalars. Changes no setting of the card.
//
//   probe FOLDER [--check] [--seed N] [--shapes N]    --check: only the checks, which need no folder; --shapes: random
//                                                     shapes of each kernel (200)
//
// Operators are timed by the `validate` command.
#include <cuda_runtime_api.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>
#include <string>

#include "kernels/cases.hpp"
#include "kernels/measure.cuh"
#include "kernels/probes.hpp"
#include "validate/nvml_board.hpp"

namespace {

using namespace plumbline;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string folder;
  bool check_only = false;
  unsigned seed = std::random_device{}();
  int shapes = 200;
};

unsigned number(const char* option, const char* text) {
  char* end = nullptr;
  errno = 0;
  const unsigned long value = text == nullptr ? 0 : std::strtoul(text, &end, 10);
  if (text == nullptr || *text == '\0' || *end != '\0' || errno != 0 || value > 0xffffffffUL || *text == '-') {
    throw BadInput(std::string(option) + ": expected a whole number, found '" + (text == nullptr ? "" : text) + "'");
  }
  return static_cast<unsigned>(value);
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--check") {
      a.check_only = true;
    } else if (word == "--seed") {
      a.seed = number("--seed", next);
      ++i;
    } else if (word == "--shapes") {
      a.shapes = static_cast<int>(number("--shapes", next));
      if (a.shapes < 1 || a.shapes > 100000) throw BadInput("--shapes: expected 1 to 100000");
      ++i;
    } else if (word.rfind("--", 0) == 0) {
      throw BadInput(word + ": expected --check, --seed or --shapes");
    } else {
      a.folder = word;
    }
  }
  if (a.folder.empty() && !a.check_only) throw BadInput("usage: probe FOLDER [--check] [--seed N] [--shapes N]");
  return a;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string pci_bus_id() {
  char text[32] = {};
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetPCIBusId(text, sizeof text, 0));
  return text;
}

Session describe(const Board& board) {
  cudaDeviceProp p{};
  PLUMBLINE_CUDA_CHECK(cudaGetDeviceProperties(&p, 0));
  if (p.major != 9) throw DeviceError(std::string(p.name) + ": our kernels are built for compute capability 9.0");
  Session s;
  s.gpu = p.name;
  s.sms = p.multiProcessorCount;
  s.l2_bytes = p.l2CacheSize;
  int runtime = 0;
  PLUMBLINE_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  s.runtime = "CUDA " + version_text(runtime);
  s.driver = board.driver();
  s.power_limit_W = board.power_limit().value_or(Watts()).in(units::W);
  const std::time_t now = std::time(nullptr);
  char date[32] = {};
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  s.date = date;
  return s;
}

int failed_of(const std::vector<Check>& checks) {
  return static_cast<int>(std::count_if(checks.begin(), checks.end(), [](const Check& c) { return !c.fault.empty(); }));
}

int failures(const std::vector<Check>& checks) {
  int failed = 0;
  for (const Check& c : checks) {
    if (c.fault.empty()) continue;
    ++failed;
    std::fprintf(stderr, "FAILED %s %s: %s (error %.3g, allowed %.3g)\n", c.op.c_str(), c.shape.c_str(),
                 c.fault.c_str(), c.error, c.allowed);
  }
  return failed;
}

void append(std::vector<Record>& all, const std::vector<Record>& more, const char* what, Clock::time_point start) {
  all.insert(all.end(), more.begin(), more.end());
  const double at = std::chrono::duration<double>(Clock::now() - start).count();
  std::fprintf(stderr, "%6.1f s  %s: %zu records\n", at, what, more.size());
}

int run(const Arguments& a) {
  const auto start = Clock::now();
  int devices = 0;
  PLUMBLINE_CUDA_CHECK(cudaGetDeviceCount(&devices));
  PLUMBLINE_CUDA_CHECK(cudaSetDevice(0));
  const Board board(pci_bus_id());
  Session session = describe(board);
  std::fprintf(stderr, "%s, driver %s, %s, seed %u\n", session.gpu.c_str(), session.driver.c_str(),
               session.runtime.c_str(), a.seed);
  const std::vector<Check> checks =
      check_kernels(a.seed, a.shapes, [&](const char* topic, const std::vector<Check>& done) {
        std::fprintf(stderr, "%6.1f s  %s: %zu checks, %d failed\n",
                     std::chrono::duration<double>(Clock::now() - start).count(), topic, done.size(), failed_of(done));
      });
  const int failed = failures(checks);
  std::fprintf(stderr, "%zu checks, %d failed\n", checks.size(), failed);
  if (a.check_only || failed > 0) {
    if (!a.folder.empty()) write_results(a.folder, session, checks, {});
    return static_cast<int>(failed > 0 ? ExitCode::answered_no : ExitCode::done);
  }
  std::vector<Record> records;
  append(records, probe_dram(), "DRAM bandwidth", start);  // first: it brings the clocks up too
  session.memory_clock_MHz = board.memory_clock().value_or(Hertz()).in(units::MHz);
  append(records, probe_latency(), "latency", start);
  append(records, probe_loaded_latency(), "latency under load", start);
  append(records, probe_l2(), "L2 bandwidth", start);
  append(records, probe_launches(), "launches", start);
  append(records, probe_barrier(), "grid barrier", start);
  append(records, probe_instructions(), "instruction rates", start);
  append(records, probe_epilogue(), "epilogue", start);
  session.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  write_results(a.folder, session, checks, records);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    if (!arguments.folder.empty() && mkdir(arguments.folder.c_str(), 0777) != 0 && errno != EEXIST) {
      throw BadInput(arguments.folder + ": cannot make the folder: " + std::strerror(errno));
    }
    return run(arguments);
  } catch (const Error& e) {
    std::fprintf(stderr, "probe: %s\n", e.what());
    return static_cast<int>(e.code());
  }
}
