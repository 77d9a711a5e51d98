// Our collectives against fp64 on random sizes, types, plans and places, and all ranks' sums against each other's bits.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>

#include "arch/error.hpp"
#include "validate/probe/cuda_links.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kPool = std::int64_t{1} << 21;  // elements a rank draws its inputs from
constexpr std::size_t kGuard = 256;                    // bytes behind an output that must stay as they are
constexpr unsigned char kPoison = 0xff;                // NaN in both types

float widen(std::uint16_t bf16) {
  const std::uint32_t bits = std::uint32_t{bf16} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Every rank's random numbers, on the host and on its device.
struct Pool {
  Pool(const PeerGroup& group, unsigned seed)
      : bf16_device(group, kPool * sizeof(std::uint16_t)), fp32_device(group, kPool * sizeof(float)) {
    for (int r = 0; r < group.ranks(); ++r) {
      std::mt19937 generator(seed + static_cast<unsigned>(r) * 7919U);
      std::vector<float> values(kPool);
      std::vector<std::uint16_t> halves(kPool);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(static_cast<std::int32_t>(generator())) * 0x1p-31F;
        std::uint32_t bits = 0;
        std::memcpy(&bits, &values[i], sizeof bits);
        halves[i] = static_cast<std::uint16_t>(bits >> 16);
      }
      group.select(r);
      PLUMBLINE_CUDA_CHECK(cudaMemcpy(bf16_device.at(r), halves.data(), halves.size() * 2, cudaMemcpyHostToDevice));
      PLUMBLINE_CUDA_CHECK(cudaMemcpy(fp32_device.at(r), values.data(), values.size() * 4, cudaMemcpyHostToDevice));
      bf16.push_back(std::move(halves));
      fp32.push_back(std::move(values));
    }
  }

  double value(DType type, std::size_t rank, std::int64_t at) const {
    const auto i = static_cast<std::size_t>(at);
    return type == DType::bf16 ? static_cast<double>(widen(bf16[rank][i])) : static_cast<double>(fp32[rank][i]);
  }

  RankMemory bf16_device, fp32_device;
  std::vector<std::vector<std::uint16_t>> bf16;
  std::vector<std::vector<float>> fp32;
};

struct Case {
  Collective shape;
  PeerPlan plan;
  std::int64_t offset = 0;  ///< of the inputs in the pool
  bool in_place = false;

  std::int64_t part() const { return peer_elements(shape); }
  std::size_t each() const { return shape.dtype == DType::bf16 ? 2 : 4; }
  bool adds() const { return shape.kind == CollectiveKind::all_reduce || shape.kind == CollectiveKind::reduce_scatter; }
  bool scatters() const {
    return shape.kind == CollectiveKind::reduce_scatter || shape.kind == CollectiveKind::all_to_all;
  }
  std::int64_t in_elements() const { return part() * (scatters() ? shape.gpus : 1); }
  std::int64_t out_elements() const { return part() * (adds() ? 1 : shape.gpus); }
  std::string text() const {
    return std::string(name(shape.kind)) + " " + collective_shape_text(shape) + " " + plan_text(shape, plan) +
           (shape.dtype == DType::bf16 ? " bf16" : " fp32") + (in_place ? " in place" : "");
  }
};

Case draw_case(std::mt19937& generator, int gpus) {
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(generator); };
  constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter, CollectiveKind::all_to_all};
  Case c;
  c.shape.kind = kinds[below(4)];
  c.shape.dtype = below(4) == 0 ? DType::fp32 : DType::bf16;
  c.shape.gpus = gpus;
  const double most = std::log(static_cast<double>(kPool) / gpus / 2);
  auto part = static_cast<std::int64_t>(std::exp(std::uniform_real_distribution<double>(0, most)(generator)));
  if (below(3) == 0) part = (part + 63) / 64 * 64;
  const bool whole = c.shape.kind == CollectiveKind::all_reduce;
  c.shape.bytes = part * static_cast<std::int64_t>(c.each()) * (whole ? 1 : gpus);
  c.offset = std::int64_t{8} * below(1 << 14);
  const int sms = below(2) == 0 ? 132 : 1 + below(132);
  const std::optional<PeerPlan> one_shot = peer_plan(c.shape, sms, PeerAlgorithm::one_shot);
  c.plan = one_shot && below(2) == 0 ? *one_shot : *peer_plan(c.shape, sms, PeerAlgorithm::two_shot);
  c.plan.early = below(3) == 0;
  c.plan.in_turn = whole && below(2) == 0;
  c.in_place = whole && below(4) == 0;
  return c;
}

/// Inputs and outputs of all ranks.
class CheckedGroup {
 public:
  CheckedGroup(int gpus, unsigned seed)
      : group(first_devices(gpus)), graphs(group), pool(group, seed), out_(group, kPool * 4 * 2 + kGuard) {}

  const PeerGroup group;
  const RankGraphs graphs;

  PeerBuffers prepare(const Case& c, std::size_t out_at = 0) const {
    PeerBuffers buffers;
    for (int r = 0; r < group.ranks(); ++r) {
      const RankMemory& from = c.shape.dtype == DType::bf16 ? pool.bf16_device : pool.fp32_device;
      buffers.in[r] = from.at(r, static_cast<std::size_t>(c.offset) * c.each());
      buffers.out[r] = out_.at(r, out_at);
      group.select(r);
      PLUMBLINE_CUDA_CHECK(cudaMemset(buffers.out[r], kPoison, out_bytes(c) + kGuard));
      if (c.in_place) {
        PLUMBLINE_CUDA_CHECK(cudaMemcpy(buffers.out[r], buffers.in[r], out_bytes(c), cudaMemcpyDeviceToDevice));
        buffers.in[r] = buffers.out[r];
      }
      PLUMBLINE_CUDA_CHECK(cudaDeviceSynchronize());
    }
    return buffers;
  }

  /// What is wrong with the outputs; empty: nothing.
  std::string fault(const Case& c, const PeerBuffers& buffers) const {
    std::vector<unsigned char> first;
    for (int r = 0; r < group.ranks(); ++r) {
      std::vector<unsigned char> got(out_bytes(c) + kGuard);
      group.select(r);
      PLUMBLINE_CUDA_CHECK(cudaMemcpy(got.data(), buffers.out[r], got.size(), cudaMemcpyDeviceToHost));
      for (std::size_t i = out_bytes(c); i < got.size(); ++i) {
        if (got[i] != kPoison) return "rank " + std::to_string(r) + " wrote behind its output";
      }
      if (c.shape.kind == CollectiveKind::all_reduce && r > 0) {
        if (got != first) return "rank " + std::to_string(r) + " has other bits than rank 0";
        continue;
      }
      if (std::string wrong = wrong_element(c, r, got); !wrong.empty()) return wrong;
      if (r == 0) first = std::move(got);
    }
    return {};
  }

 private:
  static std::size_t out_bytes(const Case& c) { return static_cast<std::size_t>(c.out_elements()) * c.each(); }

  std::string wrong_element(const Case& c, int rank, const std::vector<unsigned char>& got) const {
    const DType type = c.shape.dtype;
    const std::int64_t part = c.part(), own = c.offset + (c.scatters() ? rank * part : 0);
    for (std::int64_t i = 0; i < c.out_elements(); ++i) {
      double value = 0, expected = 0, magnitude = 0;
      if (type == DType::bf16) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, got.data() + i * 2, sizeof bits);
        value = static_cast<double>(widen(bits));
      } else {
        float single = 0;
        std::memcpy(&single, got.data() + i * 4, sizeof single);
        value = static_cast<double>(single);
      }
      if (c.adds()) {
        for (std::size_t s = 0; s < static_cast<std::size_t>(c.shape.gpus); ++s) {
          const double x = pool.value(type, s, own + i);
          expected += x;
          magnitude += std::abs(x);
        }
      } else {
        expected = pool.value(type, static_cast<std::size_t>(i / part), own + i % part);
      }
      // One rounding to bf16, and the roundings of fp32 sums.
      const double allowed = magnitude * static_cast<double>(c.shape.gpus) * 0x1p-24 +
                             (type == DType::bf16 && c.adds() ? std::abs(expected) * 0x1p-8 : 0);
      if (!(std::abs(value - expected) <= allowed)) {
        std::ostringstream text;
        text << "rank " << rank << " element " << i << ": " << value << " expected " << expected;
        return text.str();
      }
    }
    return {};
  }

  const Pool pool;
  RankMemory out_;
};

std::string checked(const CheckedGroup& ranks, const Case& c) {
  const PeerBuffers buffers = ranks.prepare(c);
  const RankGraphs::Enqueue collective = own_collective(ranks.group, c.shape, c.plan, buffers);
  // Twice in a row where the result does not change the input.
  ranks.graphs.run([&](const std::vector<StreamHandle>& streams) {
    for (int call = 0; call < (c.in_place ? 1 : 2); ++call) collective(streams);
  });
  if (ranks.group.take_fault()) return "a rank gave up waiting for a peer";
  return ranks.fault(c, buffers);
}

/// Graphs of several collectives that take turns, replayed: the counters on the devices must keep them apart.
std::string replayed(const CheckedGroup& ranks, std::mt19937& generator, int gpus) {
  std::vector<Case> cases;
  std::vector<PeerBuffers> buffers;
  std::size_t at = 0;
  while (cases.size() < 6) {
    const Case c = draw_case(generator, gpus);
    const auto bytes = static_cast<std::size_t>(c.out_elements()) * c.each();
    if (c.in_place || bytes > std::size_t{1} << 20) continue;
    buffers.push_back(ranks.prepare(c, at));
    cases.push_back(c);
    at += (bytes + 2 * kGuard) / kGuard * kGuard;  // behind this one's guard
  }
  ranks.graphs.time(5, 20, [&](const std::vector<StreamHandle>& streams) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      own_collective(ranks.group, cases[i].shape, cases[i].plan, buffers[i])(streams);
    }
  });
  if (ranks.group.take_fault()) return "a rank gave up waiting for a peer";
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (std::string wrong = ranks.fault(cases[i], buffers[i]); !wrong.empty()) return cases[i].text() + ": " + wrong;
  }
  return {};
}

}  // namespace

void check_collectives(LinkBench& bench, int gpus) {
  LinkRow row;
  row.op = "check";
  row.gpus = gpus;
  std::mt19937 generator(bench.options.seed);
  const CheckedGroup ranks(gpus, bench.options.seed);
  const int cases = bench.options.quick ? 100 : 500;
  int passed = 0;
  for (int i = 0; i < cases; ++i) {
    const Case c = draw_case(generator, gpus);
    std::string wrong;
    try {
      wrong = checked(ranks, c);
    } catch (const Error& e) {
      wrong = e.what();
    }
    if (wrong.empty()) {
      ++passed;
      continue;
    }
    row.shape = c.text();
    row.kernel = kernel_name(c.shape.kind, c.plan.algorithm);
    row.status = wrong;
    bench.add(row);
    if (i - passed > 10) break;
  }
  row.kernel = "random_sizes";
  row.shape = "passed=" + std::to_string(passed) + ";cases=" + std::to_string(cases) + ";gpus=" + std::to_string(gpus);
  row.status = passed == cases ? "ok" : "failed";
  bench.add(row);
  row.kernel = "graph_replay";
  row.shape = "graphs=20;gpus=" + std::to_string(gpus);
  row.status = "ok";
  bench.measure(row, [&](LinkRow& r) {
    for (int graph = 0; graph < 20; ++graph) {
      if (const std::string wrong = replayed(ranks, generator, gpus); !wrong.empty()) r.status = wrong;
    }
  });
}

}  // namespace plumbline
