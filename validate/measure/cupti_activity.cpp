#include "validate/measure/cupti_activity.hpp"

#include <cupti.h>
#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <mutex>

#include "arch/error.hpp"
#include "kernels/common/shared_library.hpp"
#include "validate/measure/cupti_refusal.hpp"

namespace plumbline {
namespace {

// The record that a library of these headers writes (the list of versions is in cupti_version.h). A newer library of
// the same toolkit generation appends fields; an older one lacks some, and is refused.
#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#elif CUPTI_API_VERSION >= 19
using Kernel = CUpti_ActivityKernel9;
#elif CUPTI_API_VERSION >= 17
using Kernel = CUpti_ActivityKernel8;
#else
#error "CUPTI of CUDA 11.7 or later is needed"
#endif
#if CUPTI_API_VERSION >= 17
using Memset = CUpti_ActivityMemset4;
#endif

constexpr int kToolkitMajor = CUPTI_API_VERSION >= 130000 ? CUPTI_API_VERSION / 10000
                              : CUPTI_API_VERSION >= 19   ? 12
                                                          : 11;
constexpr std::size_t kBufferBytes = 4 << 20, kAlignment = 8;

std::string cupti_version_text(std::uint32_t v) {
  if (v < 130000) return "API " + std::to_string(v);
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." + std::to_string(v % 100);
}

}  // namespace

struct KernelTracer::Library {
  void* handle = nullptr;
  std::string file;
  std::uint32_t version = 0;
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) count_dropped = nullptr;

  // Written by CUPTI's own thread.
  std::mutex mutex;
  std::vector<KernelRecord> records;
  std::string trouble;  ///< of the first buffer that could not be read
  std::atomic<std::uint64_t> dropped{0};

  static std::atomic<Library*>& current() {
    static std::atomic<Library*> one{nullptr};
    return one;
  }

  template <class F>
  void bind(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle, name));
    if (function == nullptr) throw DeviceError("cannot trace kernels: " + file + ": no " + name);
  }

  void check(CUptiResult result, const char* call) const {
    if (result == CUPTI_SUCCESS) return;
    const char* text = "unknown";
    result_string(result, &text);
    throw DeviceError(cupti_refusal(static_cast<int>(result), call, text));
  }

  void open() {
    std::string tried;
    for (const std::string& candidate :
         library_candidates("libcupti.so." + std::to_string(kToolkitMajor), "PLUMBLINE_CUPTI")) {
      handle = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
      tried += (tried.empty() ? "" : ", ") + candidate;
      file = candidate;
      if (handle != nullptr) break;
    }
    if (handle == nullptr) {
      throw DeviceError("cannot trace kernels: no libcupti found (tried " + tried +
                        "); set PLUMBLINE_CUPTI=/path/to/it");
    }
    bind(get_version, "cuptiGetVersion");
    bind(result_string, "cuptiGetResultString");
    bind(timestamp, "cuptiGetTimestamp");
    bind(register_callbacks, "cuptiActivityRegisterCallbacks");
    bind(enable, "cuptiActivityEnable");
    bind(disable, "cuptiActivityDisable");
    bind(flush, "cuptiActivityFlushAll");
    bind(next, "cuptiActivityGetNextRecord");
    bind(count_dropped, "cuptiActivityGetNumDroppedRecords");
    check(get_version(&version), "cuptiGetVersion");
    // 13.0 and its updates share a record; so compare without the update.
    if (version / 100 < CUPTI_API_VERSION / 100) {
      throw DeviceError("cannot trace kernels: " + file + " is CUPTI " + cupti_version_text(version) +
                        ", older than the one we were built with, " + cupti_version_text(CUPTI_API_VERSION));
    }
  }

  void start() {
    // A buffer that CUPTI asked for from an earlier tracer may still come back: current() tells.
    Library* none = nullptr;
    if (!current().compare_exchange_strong(none, this)) throw DeviceError("cannot trace kernels: already tracing");
    check(register_callbacks(buffer_requested, buffer_completed), "cuptiActivityRegisterCallbacks");
    check(enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "cuptiActivityEnable");
    check(enable(CUPTI_ACTIVITY_KIND_MEMSET), "cuptiActivityEnable");
  }

  void stop() noexcept {
    if (current().load() != this) return;
    disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    disable(CUPTI_ACTIVITY_KIND_MEMSET);
    flush(1);  // forced: nobody waits for what is under way
    current().store(nullptr);
  }

  static void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
    *size = *buffer == nullptr ? 0 : kBufferBytes;
    *most_records = 0;  // as many as fit
  }

  static void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                                        std::size_t valid) {
    if (Library* library = current().load(); library != nullptr && buffer != nullptr) {
      library->read(buffer, valid);
      std::size_t dropped = 0;
      if (library->count_dropped(context, stream, &dropped) == CUPTI_SUCCESS) library->dropped += dropped;
    }
    std::free(buffer);
  }

  void read(std::uint8_t* buffer, std::size_t valid) noexcept {
    const std::lock_guard lock(mutex);
    CUpti_Activity* record = nullptr;
    CUptiResult result = CUPTI_SUCCESS;
    while (valid > 0 && (result = next(buffer, valid, &record)) == CUPTI_SUCCESS) {
      try {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
          records.push_back(from(*reinterpret_cast<const Kernel*>(record)));
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
          records.push_back(from(*reinterpret_cast<const Memset*>(record)));
        }
      } catch (const std::exception&) {  // no memory: as bad as a dropped record, and told as one
        ++dropped;
      }
    }
    if (valid > 0 && result != CUPTI_ERROR_MAX_LIMIT_REACHED && trouble.empty()) {
      const char* text = "unknown";
      result_string(result, &text);
      trouble = text;
    }
  }

  static std::uint32_t count(std::int32_t n) { return static_cast<std::uint32_t>(n); }

  static KernelRecord from(const Kernel& k) {
    KernelRecord r;
    r.start_ns = k.start;
    r.end_ns = k.end;
    r.name = k.name == nullptr ? "" : k.name;
    r.graph_node = k.graphNodeId;
    r.graph = k.graphId;
    r.correlation = k.correlationId;
    r.stream = k.streamId;
    r.device = k.deviceId;
    r.grid[0] = count(k.gridX), r.grid[1] = count(k.gridY), r.grid[2] = count(k.gridZ);
    r.block[0] = count(k.blockX), r.block[1] = count(k.blockY), r.block[2] = count(k.blockZ);
    r.cluster[0] = k.clusterX, r.cluster[1] = k.clusterY, r.cluster[2] = k.clusterZ;
    r.registers = k.registersPerThread;
    r.static_shared_B = count(k.staticSharedMemory);
    r.dynamic_shared_B = count(k.dynamicSharedMemory);
    return r;
  }

  static KernelRecord from(const Memset& m) {
    KernelRecord r;
    r.start_ns = m.start;
    r.end_ns = m.end;
    r.name = "memset";
    r.graph_node = m.graphNodeId;
    r.graph = m.graphId;
    r.correlation = m.correlationId;
    r.stream = m.streamId;
    r.device = m.deviceId;
    return r;
  }
};

KernelTracer::KernelTracer() : library_(std::make_unique<Library>()) {
  try {
    library_->open();
    library_->start();
  } catch (...) {
    if (library_->handle != nullptr) library_->stop();
    throw;
  }
}

// The library stays loaded: CUPTI's thread may still be in it.
KernelTracer::~KernelTracer() { library_->stop(); }

std::vector<KernelRecord> KernelTracer::take() {
  library_->check(library_->flush(0), "cuptiActivityFlushAll");
  const std::lock_guard lock(library_->mutex);
  if (!library_->trouble.empty()) throw DeviceError("cannot read kernel records: " + library_->trouble);
  std::vector<KernelRecord> out;
  out.swap(library_->records);
  return out;
}

std::uint64_t KernelTracer::dropped() const { return library_->dropped; }

std::uint64_t KernelTracer::now_ns() const {
  std::uint64_t now = 0;
  library_->check(library_->timestamp(&now), "cuptiGetTimestamp");
  return now;
}

std::string KernelTracer::version() const {
  const std::size_t slash = library_->file.rfind('/');
  return "CUPTI " + cupti_version_text(library_->version) + " (" +
         (slash == std::string::npos ? library_->file : library_->file.substr(slash + 1)) + ")";
}

}  // namespace plumbline
