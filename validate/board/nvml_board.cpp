#include "validate/board/nvml_board.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace plumbline {
namespace nvml {

// From NVIDIA's nvml.h (NVML API reference), spelled out because the header is not part of every toolkit.
constexpr int kSuccess = 0;
constexpr unsigned kClockSm = 1, kClockMemory = 2, kTemperatureGpu = 0;
constexpr unsigned kFieldPowerAverage = 185, kFieldPowerInstant = 186;
constexpr unsigned kFieldNvlinkSent = 138, kFieldNvlinkReceived = 139;  // KiB, all links
constexpr unsigned kFieldPcieSent = 197, kFieldPcieReceived = 198;      // bytes
constexpr unsigned kScopeAllLinks = 0xFFFFFFFFU;
constexpr unsigned kScopeBoard = 0, kScopeMemory = 2;  // NVML_POWER_SCOPE_GPU, NVML_POWER_SCOPE_MEMORY
enum ValueType : unsigned { kDouble = 0, kUnsignedInt = 1, kUnsignedLong = 2, kUnsignedLongLong = 3, kSigned = 4 };
struct FieldValue {
  unsigned field, scope;
  long long timestamp_us, latency_us;
  unsigned type;
  int status;
  union {
    double d;
    unsigned ui;
    unsigned long ul;
    unsigned long long ull;
    long long sll;
  } value;
};

/// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v2 and _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory_B;
  unsigned gpu_instance, compute_instance;
};
constexpr int kInsufficientSize = 7;

/// nvmlMemory_t.
struct MemoryInfo {
  unsigned long long total_B, free_B, used_B;
};

}  // namespace nvml
using namespace nvml;
namespace {

constexpr unsigned kMostProcesses = 256;

using Device = void*;
constexpr Watts kMilliwatt = 1e-3 * units::W;

Seconds now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() * units::s;
}

std::optional<double> number(const FieldValue& v) {
  switch (v.type) {
    case kDouble: return v.value.d;
    case kUnsignedInt: return v.value.ui;
    case kUnsignedLong: return static_cast<double>(v.value.ul);
    case kUnsignedLongLong: return static_cast<double>(v.value.ull);
    case kSigned: return static_cast<double>(v.value.sll);
    default: return std::nullopt;
  }
}

}  // namespace

struct Board::Library {
  void* handle = nullptr;
  Device device = nullptr;
  int (*shutdown)() = nullptr;
  int (*clock)(Device, unsigned, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*limit)(Device, unsigned*) = nullptr;
  int (*energy)(Device, unsigned long long*) = nullptr;
  int (*temperature)(Device, unsigned, unsigned*) = nullptr;
  int (*reasons)(Device, unsigned long long*) = nullptr;
  int (*fields)(Device, int, FieldValue*) = nullptr;
  int (*memory)(Device, MemoryInfo*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  int (*processes)(Device, unsigned*, ProcessInfo*) = nullptr;

  template <class F>
  bool bind(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    return function != nullptr;
  }

  bool open(const std::string& pci_bus_id) {
    handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)() = nullptr;
    int (*find)(const char*, Device*) = nullptr;
    if (handle == nullptr || !bind(init, "nvmlInit_v2") || !bind(find, "nvmlDeviceGetHandleByPciBusId_v2"))
      return false;
    // Whatever an older driver lacks stays null, and its reading empty.
    bind(clock, "nvmlDeviceGetClockInfo");
    bind(power, "nvmlDeviceGetPowerUsage");
    bind(limit, "nvmlDeviceGetEnforcedPowerLimit");
    bind(energy, "nvmlDeviceGetTotalEnergyConsumption");
    bind(temperature, "nvmlDeviceGetTemperature");
    if (!bind(reasons, "nvmlDeviceGetCurrentClocksEventReasons")) {
      bind(reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");  // its name before driver 535
    }
    bind(fields, "nvmlDeviceGetFieldValues");
    bind(memory, "nvmlDeviceGetMemoryInfo");
    bind(driver, "nvmlSystemGetDriverVersion");
    if (!bind(processes, "nvmlDeviceGetComputeRunningProcesses_v3")) {
      bind(processes, "nvmlDeviceGetComputeRunningProcesses_v2");  // the same, before driver 510
    }
    if (init() != kSuccess) return false;
    bind(shutdown, "nvmlShutdown");
    return find(pci_bus_id.c_str(), &device) == kSuccess;
  }

  /// What `function` writes last, for this card.
  template <class T, class Function, class... Before>
  std::optional<T> read(Function function, Before... before) const {
    T value{};
    if (device == nullptr || function == nullptr || function(device, before..., &value) != kSuccess) return {};
    return value;
  }

  std::optional<Hertz> read_clock(unsigned which) const {
    const auto mhz = read<unsigned>(clock, which);
    return mhz ? std::optional(*mhz * units::MHz) : std::nullopt;
  }

  std::optional<double> read_field(unsigned field, unsigned scope) const {
    if (device == nullptr || fields == nullptr) return {};
    FieldValue v{};
    v.field = field;
    v.scope = scope;
    if (fields(device, 1, &v) != kSuccess || v.status != kSuccess) return {};
    return number(v);
  }

  std::optional<Bytes> read_counter(unsigned field, unsigned scope, Bytes unit) const {
    const auto count = read_field(field, scope);
    return count ? std::optional(*count * unit) : std::nullopt;
  }

  std::optional<Watts> read_power_field(unsigned field, unsigned scope = kScopeBoard) const {
    const auto milliwatts = read_field(field, scope);
    return milliwatts ? std::optional(*milliwatts * kMilliwatt) : std::nullopt;
  }

  ~Library() {
    if (shutdown != nullptr) shutdown();
    if (handle != nullptr) dlclose(handle);
  }
};

Board::Board(const std::string& pci_bus_id) : library_(std::make_unique<Library>()) {
  if (!library_->open(pci_bus_id)) library_->device = nullptr;
}
Board::~Board() = default;

bool Board::known() const { return library_->device != nullptr; }
std::optional<Hertz> Board::sm_clock() const { return library_->read_clock(kClockSm); }
std::optional<Hertz> Board::memory_clock() const { return library_->read_clock(kClockMemory); }
std::optional<Watts> Board::power() const { return library_->read_power_field(kFieldPowerInstant); }

std::optional<Watts> Board::average_power() const {
  if (const auto field = library_->read_power_field(kFieldPowerAverage)) return field;
  const auto milliwatts = library_->read<unsigned>(library_->power);
  return milliwatts ? std::optional(*milliwatts * kMilliwatt) : std::nullopt;
}

std::optional<Watts> Board::memory_power() const {
  const auto watts = library_->read_power_field(kFieldPowerAverage, kScopeMemory);
  return watts && *watts > Watts() ? watts : std::nullopt;
}

std::optional<Watts> Board::power_limit() const {
  const auto milliwatts = library_->read<unsigned>(library_->limit);
  return milliwatts ? std::optional(*milliwatts * kMilliwatt) : std::nullopt;
}

std::optional<Joules> Board::energy() const {
  const auto millijoules = library_->read<unsigned long long>(library_->energy);
  return millijoules ? std::optional(static_cast<double>(*millijoules) * units::mJ) : std::nullopt;
}

std::optional<double> Board::temperature_C() const {
  const auto celsius = library_->read<unsigned>(library_->temperature, kTemperatureGpu);
  return celsius ? std::optional<double>(*celsius) : std::nullopt;
}

std::optional<std::uint64_t> Board::clock_event_reasons() const {
  const auto bits = library_->read<unsigned long long>(library_->reasons);
  return bits ? std::optional<std::uint64_t>(*bits) : std::nullopt;
}

std::optional<Bytes> Board::memory_used() const {
  const auto info = library_->read<MemoryInfo>(library_->memory);
  return info ? std::optional(static_cast<double>(info->used_B) * units::B) : std::nullopt;
}

Board::Traffic Board::traffic() const {
  return {library_->read_counter(kFieldPcieSent, kScopeBoard, 1.0 * units::B),
          library_->read_counter(kFieldPcieReceived, kScopeBoard, 1.0 * units::B),
          library_->read_counter(kFieldNvlinkSent, kScopeAllLinks, 1.0 * units::KiB),
          library_->read_counter(kFieldNvlinkReceived, kScopeAllLinks, 1.0 * units::KiB)};
}

std::string Board::driver() const {
  std::array<char, 96> text{};
  if (!known() || library_->driver == nullptr) return "";
  return library_->driver(text.data(), static_cast<unsigned>(text.size())) == kSuccess ? text.data() : "";
}

std::optional<std::vector<unsigned>> Board::compute_processes() const {
  if (!known() || library_->processes == nullptr) return {};
  std::vector<ProcessInfo> infos(kMostProcesses);
  unsigned count = kMostProcesses;
  const int code = library_->processes(library_->device, &count, infos.data());
  if (code != kSuccess && code != kInsufficientSize) return {};
  std::vector<unsigned> pids;
  for (unsigned i = 0; i < std::min(count, kMostProcesses); ++i) pids.push_back(infos[i].pid);
  return pids;
}

BoardSample sample(const Board& board) {
  BoardSample out;
  out.sm_clock = board.sm_clock();
  out.memory_clock = board.memory_clock();
  out.power = board.power();
  out.temperature_C = board.temperature_C();
  out.clock_event_reasons = board.clock_event_reasons().value_or(0);
  out.memory_used = board.memory_used();
  out.at = now();
  return out;
}

BoardSampler::BoardSampler(const Board& board, std::chrono::milliseconds interval)
    : thread_([this, &board, interval] {
        if (!board.known()) return;
        do {
          samples_.push_back(sample(board));
          if (samples_.size() == 1) samples_.front().traffic = board.traffic();
          std::this_thread::sleep_for(interval);
        } while (!done_);
        BoardSample last;  // kernels have ended: its clock and power are not theirs
        last.at = now();
        last.traffic = board.traffic();
        samples_.push_back(last);
      }) {}

BoardSampler::~BoardSampler() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
}

std::vector<BoardSample> BoardSampler::stop() {
  done_ = true;
  if (thread_.joinable()) thread_.join();
  return std::move(samples_);
}

}  // namespace plumbline
