// What a byte takes on each way to an SM, what warps take that wait, and what heat adds: steady runs of kernels that do
// one thing each (energy_paths.cuh), by NVML's energy counter between two of its steps. One JSON object a line:
// "what" a run is, bytes a second, watts, the memory's own watts, temperatures, clock. Lines with "at_s" are a run's
// moments behind a hot one: watts over degrees is what heat adds.
//
//   nvcc -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -I. tools/energy_paths.cu kernels/common/tensor_map.cu
//     validate/board/nvml_board.cpp -o energy_paths -ldl
//   ./energy_paths [SECONDS a run, 0.8]
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>

#include "kernels/common/cuda_check.hpp"
#include "kernels/common/tensor_map.cuh"
#include "tools/energy_paths.cuh"
#include "validate/board/nvml_board.hpp"

namespace plumbline::paths {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

struct Look {
  double at_s, joules, watts, memory_watts, celsius, mhz;
  unsigned long long reasons;
};

/// Reads the board from a thread of its own.
class Watcher {
 public:
  explicit Watcher(const Board& board) : thread_([this, &board] { watch(board); }) {}
  ~Watcher() {
    done_ = true;
    thread_.join();
  }
  double now() const { return since(start_); }
  std::vector<Look> looks(double from, double to) {
    const std::lock_guard<std::mutex> hold(mutex_);
    std::vector<Look> some;
    for (const Look& look : looks_)
      if (look.at_s >= from && look.at_s <= to) some.push_back(look);
    return some;
  }

 private:
  void watch(const Board& board) {
    while (!done_) {
      Look look{};
      look.joules = board.energy().value_or(Joules{}).in(units::J);
      look.at_s = since(start_);
      look.watts = board.power().value_or(Watts{}).in(units::W);
      look.memory_watts = board.memory_power().value_or(Watts{}).in(units::W);
      look.celsius = board.temperature_C().value_or(0);
      look.mhz = board.sm_clock().value_or(Hertz{}).in(units::MHz);
      look.reasons = board.clock_event_reasons().value_or(0);
      {
        const std::lock_guard<std::mutex> hold(mutex_);
        looks_.push_back(look);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  }
  Clock::time_point start_ = Clock::now();
  std::vector<Look> looks_;
  std::mutex mutex_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

/// Mean power between the counter's first step and its last one.
double mean_watts(const std::vector<Look>& looks) {
  double first_at = 0, first = 0, last_at = 0, last = 0;
  bool begun = false;
  for (std::size_t i = 1; i < looks.size(); ++i) {
    if (looks[i].joules == looks[i - 1].joules) continue;
    if (!begun) first_at = looks[i].at_s, first = looks[i].joules, begun = true;
    last_at = looks[i].at_s, last = looks[i].joules;
  }
  return last_at > first_at ? (last - first) / (last_at - first_at) : 0;
}

struct Run {
  std::string what;
  double bytes;  // of a launch
  std::function<void()> go;
};

class Bench {
 public:
  Bench(const Board& board, double seconds) : watcher_(board), seconds_(seconds) {
    for (auto& e : events_) PLUMBLINE_CUDA_CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  }

  /// Keeps four launches in flight for so long; how many ended.
  long keep_busy(const Run& run, double seconds) {
    const auto began = Clock::now();
    long launches = 0;
    while (since(began) < seconds) {
      if (launches >= 4) PLUMBLINE_CUDA_CHECK(cudaEventSynchronize(events_[launches % 4]));
      run.go();
      PLUMBLINE_CUDA_CHECK(cudaGetLastError());
      PLUMBLINE_CUDA_CHECK(cudaEventRecord(events_[launches++ % 4]));
    }
    return launches;
  }

  void measure(const Run& run) {
    keep_busy(run, 0.25);
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    const double from = watcher_.now();
    const long launches = keep_busy(run, seconds_);
    const double issued = watcher_.now();
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    const double took = watcher_.now() - from;
    print(run.what, from + 0.02, issued, launches * run.bytes / took / 1e12, -1);
  }

  /// The same in parts of 0.5 s, for what changes with the temperature.
  void follow(const Run& run, double seconds) {
    const double begin = watcher_.now();
    while (watcher_.now() - begin < seconds) {
      const double from = watcher_.now();
      const long launches = keep_busy(run, 0.5);
      const double to = watcher_.now();
      print(run.what, from, to, launches * run.bytes / (to - from) / 1e12, from - begin);
    }
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
  }

 private:
  void print(const std::string& what, double from, double to, double rate, double at) {
    const std::vector<Look> looks = watcher_.looks(from, to);
    if (looks.size() < 2) return;
    double mhz = 0, watts = 0, memory = 0, celsius = 0;
    unsigned long long reasons = 0;
    for (const Look& look : looks) {
      mhz += look.mhz, watts += look.watts, celsius += look.celsius, reasons |= look.reasons;
      memory = look.memory_watts;
    }
    const double n = static_cast<double>(looks.size());
    std::printf(
        "{\"what\": \"%s\", \"TB_per_s\": %.3f, \"watts\": %.1f, \"instant_W\": %.1f, \"memory_W\": %.1f, "
        "\"celsius\": [%.0f, %.1f, %.0f], \"MHz\": %.0f, \"reasons\": %llu",
        what.c_str(), rate, mean_watts(looks), watts / n, memory, looks.front().celsius, celsius / n,
        looks.back().celsius, mhz / n, reasons);
    if (at >= 0) std::printf(", \"at_s\": %.1f", at);
    std::printf("}\n");
    std::fflush(stdout);
  }
  Watcher watcher_;
  double seconds_;
  cudaEvent_t events_[4];
};

constexpr std::uint32_t kMemoryChunks = 131072, kL2Chunks = 1280;  // 2 GiB and 20 MiB
constexpr std::size_t kRingBytes = kStages * kChunk + 1024;

struct Card {
  const unsigned char* data;
  uint4* sink;
  int sms;
};

CUtensorMap map_of(const Card& card, std::uint32_t chunks, std::uint32_t k_chunks) {
  const cuuint64_t sizes[] = {64ULL * k_chunks, cuuint64_t{chunks} / k_chunks * kRows};
  const cuuint64_t strides[] = {cuuint64_t{k_chunks} * kRowBytes};
  const cuuint32_t box[] = {64, kRows};
  TensorMapRequest request;
  request.rank = 2;
  request.data = card.data;
  request.sizes = sizes;
  request.strides = strides;
  request.box = box;
  return encode_tensor_map(request);
}

struct Asked {
  bool memory;  // else L2
  std::uint32_t k_chunks = 1;
  int pause_ns = 0;
};

Source source_of(const Card& card, const Asked& asked, int& rounds) {
  const std::uint32_t chunks = asked.memory ? kMemoryChunks : kL2Chunks;
  rounds = asked.memory ? static_cast<int>(chunks) / card.sms * 3 : 8000;
  if (asked.pause_ns > 0) rounds = rounds / 2;
  rounds = rounds / 2 * 2;
  return {card.data, chunks, asked.k_chunks, rounds, asked.pause_ns};
}

std::string name_of(const char* how, const Asked& asked) {
  std::string name = std::string(asked.memory ? "memory, " : "L2, ") + how;
  if (asked.k_chunks > 1) name += ", rows of " + std::to_string(asked.k_chunks) + " chunks";
  if (asked.pause_ns > 0) name += ", pause " + std::to_string(asked.pause_ns);
  return name;
}

template <Way kWay, Readers kDo>
Run ring_run(const Card& card, const char* how, const Asked& asked) {
  int rounds = 0;
  const Source source = source_of(card, asked, rounds);
  const CUtensorMap map = map_of(card, source.chunks, source.k_chunks);
  const auto kernel = ring_stream<kWay, kDo>;
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRingBytes));
  const int threads = kDo == Readers::none ? 32 : 32 + kReaders;
  return {name_of(how, asked), double(rounds) * card.sms * kChunk,
          [=] { kernel<<<card.sms, threads, kRingBytes>>>(source, map, card.sink); }};
}

Run load_run(const Card& card, const Asked& asked) {
  int rounds = 0;
  Source source = source_of(card, asked, rounds);
  source.rounds = rounds = rounds / 8 * 4;
  return {name_of("loads", asked), double(rounds) * card.sms * 2 * kChunk,
          [=] { load_stream<<<2 * card.sms, 512>>>(source, card.sink); }};
}

Run cp_async_run(const Card& card, const Asked& asked) {
  int rounds = 0;
  const Source source = source_of(card, asked, rounds);
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(cp_async_stream, cudaFuncAttributeMaxDynamicSharedMemorySize, kRingBytes));
  return {name_of("cp.async", asked), double(rounds) * card.sms * kChunk,
          [=] { cp_async_stream<<<card.sms, kReaders, kRingBytes>>>(source); }};
}

template <bool kMatrices>
Run shared_run(const Card& card, int warps) {
  constexpr int kRounds = 20000;
  const auto kernel = shared_reads<kMatrices>;
  PLUMBLINE_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
  return {std::string("shared memory, ") + (kMatrices ? "ldmatrix, " : "loads, ") + std::to_string(warps) + " warps",
          double(kRounds) * 8 * 16 * 32 * warps * card.sms, [=] {
            kernel<<<card.sms, 32 * warps, 65536>>>(reinterpret_cast<const uint4*>(card.data), kRounds, card.sink);
          }};
}

template <Wait kWait>
Run wait_run(const Card& card, const char* how, int warps, int sms) {
  return {std::string("waits, ") + how + ", " + std::to_string(warps) + " warps, " + std::to_string(sms) + " SMs", 0,
          [=] { wait_for<kWait><<<sms, 32 * warps>>>(6000000); }};
}

std::vector<Run> standing_runs(const Card& c) {
  std::vector<Run> runs{{"nothing", 0, [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }}};
  runs.push_back(wait_run<Wait::sleep>(c, "sleep", 1, c.sms));
  runs.push_back(wait_run<Wait::sleep>(c, "sleep", 16, c.sms));
  runs.push_back(wait_run<Wait::barrier>(c, "bar.sync", 16, c.sms));
  for (const int warps : {1, 4, 9, 16, 32}) runs.push_back(wait_run<Wait::try_wait>(c, "try_wait", warps, c.sms));
  runs.push_back(wait_run<Wait::try_wait>(c, "try_wait", 16, c.sms / 2));
  runs.push_back(wait_run<Wait::test_wait>(c, "test_wait", 4, c.sms));
  runs.push_back(wait_run<Wait::clock>(c, "clock", 1, c.sms));
  runs.push_back(wait_run<Wait::clock>(c, "clock", 16, c.sms));
  return runs;
}

std::vector<Run> byte_runs(const Card& c, bool memory) {
  using enum Readers;
  std::vector<Run> runs;
  const int pause = memory ? 6000 : 1500;
  const std::uint32_t k_chunks = memory ? 64 : 8;
  runs.push_back(load_run(c, {memory}));
  runs.push_back(load_run(c, {memory, 1, 2 * pause}));
  runs.push_back(ring_run<Way::bulk, none>(c, "bulk", {memory}));
  runs.push_back(ring_run<Way::bulk, none>(c, "bulk", {memory, 1, pause / 6}));
  runs.push_back(ring_run<Way::bulk, none>(c, "bulk", {memory, 1, pause / 3}));
  runs.push_back(ring_run<Way::bulk, waiting>(c, "bulk, eight warps wait", {memory}));
  runs.push_back(ring_run<Way::bulk, reading>(c, "bulk, eight warps read", {memory}));
  runs.push_back(ring_run<Way::boxes, none>(c, "boxes", {memory}));
  runs.push_back(ring_run<Way::boxes, none>(c, "boxes", {memory, k_chunks}));
  runs.push_back(ring_run<Way::boxes, waiting>(c, "boxes, eight warps wait", {memory, k_chunks}));
  runs.push_back(ring_run<Way::boxes, reading>(c, "boxes, eight warps read", {memory, k_chunks}));
  if (memory) runs.push_back(ring_run<Way::boxes, none>(c, "boxes", {memory, 256}));
  runs.push_back(ring_run<Way::pieces, none>(c, "pieces of 256 B", {memory, memory ? 16 : 8U}));
  runs.push_back(cp_async_run(c, {memory}));
  runs.push_back(cp_async_run(c, {memory, 1, pause / 3}));
  return runs;
}

std::vector<Run> shared_runs(const Card& c) {
  return {shared_run<false>(c, 16), shared_run<false>(c, 2), shared_run<true>(c, 16), shared_run<true>(c, 2)};
}

/// Hot, then the same work as it cools.
void heat_runs(Bench& bench, const Card& c) {
  const Run hot{"hot", 0, [=] {
                  products<<<2 * c.sms, 512>>>(reinterpret_cast<const std::uint32_t*>(c.data), 6000,
                                               reinterpret_cast<float*>(c.sink));
                }};
  const Run sleep = wait_run<Wait::sleep>(c, "sleep", 1, c.sms);
  const Run bulk = ring_run<Way::bulk, Readers::none>(c, "bulk", {true});
  const Run l2 = ring_run<Way::bulk, Readers::none>(c, "bulk", {false});
  bench.follow(hot, 9);
  bench.follow(sleep, 9);
  bench.follow(hot, 8);
  bench.follow(bulk, 7);
  bench.follow(hot, 5);
  bench.follow(l2, 7);
  bench.follow(hot, 5);
  bench.measure(load_run(c, {true}));
  bench.measure(ring_run<Way::boxes, Readers::reading>(c, "boxes, eight warps read", {true, 64}));
}

void run_all(double seconds) {
  int device = 0, sms = 0;
  cudaDeviceProp properties{};
  PLUMBLINE_CUDA_CHECK(cudaGetDevice(&device));
  PLUMBLINE_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  sms = properties.multiProcessorCount;
  char bus[32] = {};
  PLUMBLINE_CUDA_CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  const Board board(bus);
  std::printf(
      "{\"card\": \"%s\", \"sms\": %d, \"driver\": \"%s\", \"cap_W\": %.0f, \"celsius\": %.0f, \"memory_MHz\": %.0f}\n",
      properties.name, sms, board.driver().c_str(), board.power_limit().value_or(Watts{}).in(units::W),
      board.temperature_C().value_or(0), board.memory_clock().value_or(Hertz{}).in(units::MHz));
  std::uint32_t* data = nullptr;
  uint4* sink = nullptr;
  const std::size_t bytes = std::size_t{kMemoryChunks} * kChunk;
  PLUMBLINE_CUDA_CHECK(cudaMalloc(&data, bytes));
  PLUMBLINE_CUDA_CHECK(cudaMalloc(&sink, 64));
  fill_normal<<<4 * sms, 512>>>(data, bytes / 4);
  PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
  const Card card{reinterpret_cast<const unsigned char*>(data), sink, sms};
  Bench bench(board, seconds);
  for (const bool memory : {true, false})
    for (const Run& run : byte_runs(card, memory)) bench.measure(run);
  for (const Run& run : standing_runs(card)) bench.measure(run);
  for (const Run& run : shared_runs(card)) bench.measure(run);
  heat_runs(bench, card);
}

}  // namespace
}  // namespace plumbline::paths

int main(int argc, char** argv) {
  try {
    plumbline::paths::run_all(argc > 1 ? std::atof(argv[1]) : 0.8);
  } catch (const plumbline::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
