#include "validate/probe/cuda_links.hpp"

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <thread>

#include "arch/error.hpp"
#include "kernels/collective/fabric.hpp"
#include "validate/measure/cuda_session.hpp"
#include "validate/probe/disk_read.hpp"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;

struct Section {
  const char* name;
  void (*run)(LinkBench&, int);
  bool also_two;  ///< of two GPUs too, where there are more
  int limit_s;
  int least = 2;  ///< GPUs
};
constexpr Section kSections[] = {
    {"checks", check_collectives, true, 45},   {"own", time_own_collectives, true, 60},
    {"nccl", time_nccl_collectives, true, 60}, {"fabric", probe_fabric, false, 45},
    {"copies", probe_copies, false, 45, 1},    {"overlap", probe_overlap, true, 45},
    {"beside", probe_beside, false, 45},       {"disk", probe_disk, false, 60, 1},
};

/// The process's end, or its killing at the limit: false.
bool ended_in_time(pid_t child, int limit_s, int& status) {
  const auto end = Clock::now() + std::chrono::seconds(limit_s);
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > end) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// Runs this program again for one section; true when it ended well.
bool run_apart(const LinkOptions& options, const Section& section, int gpus) {
  const std::string only = std::string(section.name) + ":" + std::to_string(gpus);
  std::vector<std::string> words = options.again;
  words.insert(words.end(), {"--out", options.out, "--only", only});
  if (options.quick) words.emplace_back("--quick");
  if (!options.nccl.empty()) words.insert(words.end(), {"--nccl", options.nccl});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child < 0) throw DeviceError("fork failed");
  if (child == 0) {
    execv("/proc/self/exe", arguments.data());
    _exit(127);
  }
  int status = 0;
  const bool in_time = ended_in_time(child, section.limit_s, status);
  const bool well = in_time && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::fprintf(stderr, "section %s: %s, %.1f s\n", only.c_str(),
               !in_time ? "KILLED at its time limit"
               : well   ? "done"
                        : "FAILED",
               std::chrono::duration<double>(Clock::now() - start).count());
  return well;
}

void begin_file(const LinkOptions& options) {
  std::ofstream file(options.out, std::ios::trunc);
  file << link_header();
  if (!file.flush()) throw BadInput(options.out + ": can't be written");
}

int run_all(const LinkOptions& options) {
  begin_file(options);
  int failed = 0;
  for (const Section& section : kSections) {
    if (options.gpus < section.least) continue;
    std::vector<int> counts{options.gpus};
    if (section.run == check_collectives) {
      for (int gpus = options.gpus - 1; gpus >= 2; --gpus) counts.insert(counts.begin(), gpus);
    } else if (section.also_two && options.gpus > 2) {
      counts.insert(counts.begin(), 2);
    }
    for (const int gpus : counts) failed += run_apart(options, section, gpus) ? 0 : 1;
  }
  return failed;
}

int run_one(const LinkOptions& options) {
  const auto colon = options.only.find(':');
  const std::string name = options.only.substr(0, colon);
  const int gpus = colon == std::string::npos ? options.gpus : std::atoi(options.only.c_str() + colon + 1);
  for (const Section& section : kSections) {
    if (name != section.name) continue;
    if (gpus < section.least || gpus > options.gpus) {
      throw BadInput("--only " + options.only + ": expected " + std::to_string(section.least) + " to all GPUs");
    }
    if (std::ifstream(options.out).peek() == std::ifstream::traits_type::eof()) begin_file(options);
    LinkBench bench(options);
    section.run(bench, gpus);
    return bench.faults();
  }
  throw BadInput("--only " + options.only + ": expected checks, own, nccl, fabric, copies, overlap, beside or disk");
}

}  // namespace

LinkResult measure_links(const LinkOptions& options) {
  // A kernel that is loaded at its first launch waits for the device, which may be waiting for a peer.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  LinkResult result;
  if (!options.only.empty()) {
    result.faults = run_one(options);
    return result;
  }
  const Board board(select_card());
  first_devices(options.gpus);
  result.gpu = describe_session(board, "none").gpu;
  result.faults = run_all(options);
  return result;
}

void LinkBench::add(const LinkRow& row) {
  if (row.status != "ok") {
    ++faults_;
    std::fprintf(stderr, "FAULT %s %s %s: %s\n", row.op.c_str(), row.kernel.c_str(), row.shape.c_str(),
                 row.status.c_str());
  }
  std::ofstream file(options.out, std::ios::app);
  file << link_line(row);
  if (!file.flush()) throw BadInput(options.out + ": can't be written");
}

void LinkBench::measure(LinkRow row, const std::function<void(LinkRow&)>& work) {
  try {
    work(row);
    in_a_row_ = row.status == "ok" ? 0 : in_a_row_ + 1;
  } catch (const std::exception& e) {
    row.seconds.reset();
    row.status = e.what();
    ++in_a_row_;
  }
  add(row);
  if (in_a_row_ >= 6) throw DeviceError("six cases in a row failed, the last: " + row.status);
}

RankMemory::RankMemory(const PeerGroup& group, std::size_t bytes) {
  for (int r = 0; r < group.ranks(); ++r) {
    group.select(r);
    buffers_.push_back(std::make_unique<DeviceBuffer>(bytes));
  }
}

RankMemory::RankMemory(const std::vector<int>& devices, std::size_t bytes) {
  for (const int device : devices) {
    PLUMBLINE_CUDA_CHECK(cudaSetDevice(device));
    buffers_.push_back(std::make_unique<DeviceBuffer>(bytes));
  }
}

void RankMemory::fill_random(const PeerGroup& group, DType type, unsigned seed) const {
  for (int r = 0; r < group.ranks(); ++r) {
    group.select(r);
    const auto fill = type == DType::bf16 ? fill_uniform_bf16 : fill_uniform_fp32;
    fill(at(r), bytes(), seed * 977ULL + static_cast<unsigned>(r), nullptr);
    PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
  }
}

PeerBuffers peer_buffers(const PeerGroup& group, const RankMemory& in, const RankMemory& out) {
  PeerBuffers buffers;
  for (int r = 0; r < group.ranks(); ++r) {
    buffers.in[r] = in.at(r);
    buffers.out[r] = out.at(r);
  }
  return buffers;
}

std::vector<int> first_devices(int count) {
  int there = 0;
  if (cudaGetDeviceCount(&there) != cudaSuccess || there < count) {
    throw DeviceError("expected " + std::to_string(count) + " GPUs, found " + std::to_string(there));
  }
  std::vector<int> devices;
  for (int d = 0; d < count; ++d) devices.push_back(d);
  return devices;
}

void need_no_fault(const PeerGroup& group) {
  if (group.take_fault()) throw DeviceError("a rank gave up waiting for a peer");
}

void probe_disk(LinkBench& bench, int) {
  const std::size_t bytes = std::size_t{1} << (bench.options.quick ? 28 : 31);
  std::unique_ptr<DiskFile> file;
  for (const int threads : {1, 4, 16}) {
    LinkRow row;
    row.op = "disk_read";
    row.kernel = "pread";
    row.shape = "bytes=" + std::to_string(bytes);
    row.cache = "cold";
    row.counted = static_cast<double>(bytes) * units::B;
    bench.measure(row, [&](LinkRow& r) {
      if (!file) file = std::make_unique<DiskFile>(bench.options.out, bytes);
      std::vector<double> seconds;
      bool direct = true;
      for (int repeat = 0; repeat < 3; ++repeat) {
        const DiskFile::Read read = file->read(threads);
        seconds.push_back(read.seconds);
        direct = direct && read.direct;
      }
      r.plan = "threads=" + std::to_string(threads) + (direct ? " direct" : " through the page cache");
      r.seconds = spread(seconds);
    });
  }
}

RankGraphs::Enqueue own_collective(const PeerGroup& group, const Collective& shape, const PeerPlan& plan,
                                   const PeerBuffers& buffers) {
  return [&group, shape, plan, buffers](const std::vector<StreamHandle>& streams) {
    for (int r = 0; r < group.ranks(); ++r) {
      group.launch(shape, plan, r, buffers, streams[static_cast<std::size_t>(r)]);
    }
  };
}

}  // namespace plumbline
