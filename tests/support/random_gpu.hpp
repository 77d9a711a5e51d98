// Random machines for property tests: descriptors within what has been built or could be soon, and calibrations within
// what has been measured.
#pragma once

#include <rapidcheck.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "arch/error.hpp"
#include "model/engine/rates.hpp"
#include "model/predict.hpp"
#include "tests/support/random_op.hpp"
#include "tests/support/toy_machine.hpp"

namespace plumbline {

/// How RapidCheck prints a counterexample.
template <int F, int B, int T, int J>
void showValue(Quantity<F, B, T, J> quantity, std::ostream& out) {
  out << quantity.in(UnitSource::one<Quantity<F, B, T, J>>()) << " (SI)";
}

}  // namespace plumbline

namespace plumbline::testing_support {

/// RapidCheck narrows its ranges in the first cases of a property; these are always whole.
inline std::int64_t whole_between(std::int64_t low, std::int64_t high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<std::int64_t>(low, high + 1));
}

/// Uniform in [low, high], a thousand steps.
inline double between(double low, double high) {
  return low + (high - low) * static_cast<double>(whole_between(0, 1000)) / 1000.0;
}

inline StreamingMultiprocessor random_sm() {
  StreamingMultiprocessor sm = toy_sm();
  const double bf16 = 256.0 * static_cast<double>(whole_between(1, 64));
  sm.tensor_flop_per_clk[DType::bf16] = sm.tensor_flop_per_clk[DType::fp16] = bf16;
  sm.tensor_flop_per_clk[DType::tf32] = bf16 / 2;
  sm.tensor_flop_per_clk[DType::int8] = 2 * bf16;
  sm.tensor_flop_per_clk[DType::fp8] = coin() ? 2 * bf16 : 0;
  sm.tensor_flop_per_clk[DType::fp4] = coin() ? 4 * bf16 : 0;
  sm.tensor_flop_per_clk[DType::fp64] = coin() ? 128 : 0;
  sm.fp32_flop_per_clk = 64.0 * static_cast<double>(whole_between(2, 8));
  sm.fp64_flop_per_clk = coin() ? 128 : 4;
  sm.sfu_op_per_clk = static_cast<double>(whole_between(4, 64));
  sm.issue_per_clk = static_cast<double>(whole_between(1, 8));
  sm.smem_bytes_per_clk = 64.0 * static_cast<double>(whole_between(1, 4)) * units::B;
  sm.l2_bytes_per_clk = 32.0 * static_cast<double>(whole_between(1, 8)) * units::B;
  sm.smem = static_cast<double>(whole_between(64, 256)) * units::KiB;
  sm.smem_per_block = sm.smem - 1.0 * units::KiB;
  sm.l1_and_smem = sm.smem + 28.0 * units::KiB;
  sm.threads = 512 * whole_between(2, 4);
  sm.warp_size = coin() ? 32 : 64;
  return sm;
}

/// How real generations feed their tensor units: Volta, Ampere, Hopper, data-centre and other Blackwell, CDNA3.
struct Feeding {
  MatrixUnit unit;
  AsyncCopy copy;
  bool clusters;

  void apply(Gpu& gpu) const {
    gpu.sm.matrix_unit = unit;
    gpu.sm.async_copy = copy;
    gpu.clusters = clusters ? ClusterSlots{132, 66, 32, 15} : ClusterSlots{};
  }
};
inline constexpr Feeding kVolta{MatrixUnit::mma_sync, AsyncCopy::none, false},
    kAmpere{MatrixUnit::mma_sync, AsyncCopy::cp_async, false}, kHopper{MatrixUnit::wgmma, AsyncCopy::tma, true},
    kBlackwell{MatrixUnit::tcgen05, AsyncCopy::tma, true}, kSmallBlackwell{MatrixUnit::mma_sync, AsyncCopy::tma, false},
    kCdna3{MatrixUnit::mfma, AsyncCopy::load_to_lds, false};

inline Gpu random_gpu() {
  Gpu gpu = toy_gpu();
  gpu.name = "random";
  gpu.title = "Random GPU";
  gpu.sm_count = whole_between(4, 300);
  gpu.boost_clock = between(0.8, 3.0) * units::GHz;
  gpu.base_clock = 0.5 * gpu.boost_clock;
  gpu.sm = random_sm();
  const Feeding feedings[] = {kVolta, kAmpere, kHopper, kBlackwell, kSmallBlackwell, kCdna3};
  feedings[whole_between(0, std::size(feedings) - 1)].apply(gpu);
  gpu.memory.capacity = between(8, 300) * units::GiB;
  gpu.memory.bandwidth = between(0.2, 10) * units::TB_per_s;
  gpu.memory.latency = between(350, 1000) * units::ns;
  gpu.l2 = {between(2, 256) * units::MiB, between(1.2, 8) * gpu.memory.bandwidth, between(100, 350) * units::ns, 1};
  constexpr std::int64_t kPartitions[] = {1, 2, 8};  // whole, halves, one a die
  gpu.l2.partitions = kPartitions[whole_between(0, std::size(kPartitions) - 1)];
  if (gpu.l2.partitions > 1) gpu.l2.reuse_fraction = between(0.5, 1);
  if (coin()) gpu.l2.far_latency_ratio = between(1, gpu.memory.latency / gpu.l2.latency);
  gpu.links = {between(50, 900) * units::GB_per_s, 18, between(8, 128) * units::GB_per_s};
  return gpu;
}

/// Family scalars: the ranges are those of the files under data/calibration, widened about twice either way.
inline void randomize(std::map<std::string, Scalar>& scalars) {
  const auto set = [&scalars](const char* name, double value) { scalars[name] = Scalar{value, "random"}; };
  set("fixed_s", between(0.3e-6, 10e-6));
  set("overlap", between(1.5, 16));
  set("efficiency_fraction", between(0.5, 1));
  set("exposed", between(0, 1));
  set("step_clk", coin() ? 0 : between(0, 5e3));
  set("start_clk", between(0, 3e4));
  set("merge_clk", between(0, 5e4));
  set("issue_start_clk", coin() ? 0 : between(0, 3e3));
  set("issue_step_clk", coin() ? 0 : between(0, 1e3));
  set("dram_share_fraction", between(0.6, 1));
  set("per_cta_s", between(0, 6e-6));
  set("step_s", between(0, 2e-6));
  set("in_flight_B", coin() ? 0 : between(4e3, 1e5));
  if (coin()) set("clock_droop_fraction", between(0.01, 0.3));
}

inline Calibration random_calibration() {
  Calibration c = toy_calibration();
  const auto set = [](std::map<std::string, Scalar>& scalars, const char* name, double value) {
    scalars[name] = Scalar{value, "random"};
  };
  set(c.machine, "dram_read_fraction", between(0.6, 1));
  set(c.machine, "dram_write_fraction", between(0.6, 1));
  set(c.machine, "dram_mix_loss_fraction", between(0, 0.3));
  set(c.machine, "dram_loaded_latency_ratio", between(1, 3));
  set(c.machine, "l2_bandwidth_fraction", between(0.5, 1));
  set(c.machine, "l2_usable_fraction", between(0.3, 1));
  set(c.machine, "pcie_fraction", between(0.6, 1));
  const double burst = between(0.5, 1);
  set(c.machine, "tensor_burst_fraction", burst);
  set(c.machine, "tensor_steady_fraction", burst * between(0.6, 1));
  set(c.machine, "regulator_lag_s", between(0.005, 0.2));
  const double gap = between(0.5e-6, 3e-6);
  set(c.machine, "gap_graph_s", gap);
  set(c.machine, "gap_stream_s", gap * between(1, 4));
  for (auto& [name, scalars] : c.families) randomize(scalars);
  return c;
}

/// Scalars of our own kernels beside them.
inline Calibration with_own_families(Calibration c) {
  for (const char* name : kOwnFamilies) randomize(c.families[std::string("own.") + name]);
  return c;
}

/// Its clock does not sink in long launches: burst and steady shares of the tensor peak are one.
inline Calibration without_regulator(Calibration c) {
  c.machine["tensor_steady_fraction"] = c.machine["tensor_burst_fraction"];
  c.machine["regulator_lag_s"].value = 0;
  return c;
}

inline Machine random_machine() { return toy_machine(random_gpu(), random_calibration()); }

/// The prediction, or nothing where the machine has no path for the dtype or the operator is not modelled.
inline std::optional<OpPrediction> try_predict(const Op& op, const Machine& machine) {
  try {
    return predict(op, machine);
  } catch (const BadInput&) {
    return std::nullopt;
  } catch (const NotModelled&) {
    return std::nullopt;
  }
}

/// A random operator that this machine runs.
inline Op random_op_on(const Machine& machine) {
  for (;;) {
    const Op op = *rc::gen::resize(rc::kNominalSize, rc::gen::exec(random_op));
    if (try_predict(op, machine)) return op;
  }
}

inline std::string describe(const Op& op) {
  return std::string(op_name(op)) + " " + std::string(dtype_text(op)) + " " + shape_text(op);
}

}  // namespace plumbline::testing_support
