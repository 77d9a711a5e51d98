#include "kernels/board.hpp"

#include <dlfcn.h>

#include <array>

namespace plumbline {
namespace {

// From NVIDIA's nvml.h (NVML API reference), spelled out because the header is not part of every toolkit.
constexpr int kSuccess = 0;
constexpr unsigned kClockSm = 1, kClockMemory = 2;
constexpr unsigned kFieldPowerInstant = 186;
constexpr unsigned kUnsignedInt = 1;  // nvmlValueType_t
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

using Device = void*;

}  // namespace

struct Board::Library {
  void* handle = nullptr;
  Device device = nullptr;
  int (*shutdown)() = nullptr;
  int (*clock)(Device, unsigned, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*limit)(Device, unsigned*) = nullptr;
  int (*fields)(Device, int, FieldValue*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;

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
    if (!bind(clock, "nvmlDeviceGetClockInfo") || !bind(power, "nvmlDeviceGetPowerUsage")) return false;
    if (!bind(limit, "nvmlDeviceGetEnforcedPowerLimit") || !bind(driver, "nvmlSystemGetDriverVersion")) return false;
    bind(fields, "nvmlDeviceGetFieldValues");  // older drivers have none
    if (init() != kSuccess) return false;
    bind(shutdown, "nvmlShutdown");
    return find(pci_bus_id.c_str(), &device) == kSuccess;
  }

  double read_clock(unsigned which) const {
    unsigned mhz = 0;
    return device != nullptr && clock(device, which, &mhz) == kSuccess ? mhz : 0.0;
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
double Board::sm_clock_MHz() const { return library_->read_clock(kClockSm); }
double Board::memory_clock_MHz() const { return library_->read_clock(kClockMemory); }

double Board::power_W() const {
  if (!known()) return 0;
  FieldValue v{};
  v.field = kFieldPowerInstant;
  if (library_->fields != nullptr && library_->fields(library_->device, 1, &v) == kSuccess && v.status == kSuccess &&
      v.type == kUnsignedInt) {
    return 1e-3 * v.value.ui;
  }
  unsigned milliwatts = 0;
  return library_->power(library_->device, &milliwatts) == kSuccess ? 1e-3 * milliwatts : 0;
}

double Board::power_limit_W() const {
  unsigned milliwatts = 0;
  return known() && library_->limit(library_->device, &milliwatts) == kSuccess ? 1e-3 * milliwatts : 0;
}

std::string Board::driver() const {
  std::array<char, 96> text{};
  return known() && library_->driver(text.data(), static_cast<unsigned>(text.size())) == kSuccess ? text.data() : "";
}

}  // namespace plumbline
