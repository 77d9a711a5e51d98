#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "model/machine/parts.hpp"

namespace plumbline {
namespace {

/// Reads the scalars of one section ("machine", or a family) with a message that names what is missing.
class Section {
 public:
  Section(const Calibration& calibration, const std::map<std::string, Scalar>& scalars, std::string name)
      : calibration_(calibration), scalars_(scalars), name_(std::move(name)) {}

  double number(const char* key) const {
    const auto it = scalars_.find(key);
    if (it == scalars_.end()) {
      throw BadInput("calibration of " + calibration_.gpu + ": " + name_ + ": missing scalar '" + key + "'");
    }
    return it->second.value;
  }
  double number_or(const char* key, double otherwise) const {
    const auto it = scalars_.find(key);
    return it == scalars_.end() ? otherwise : it->second.value;
  }
  Seconds seconds(const char* key) const { return number(key) * units::s; }
  Seconds seconds_or_zero(const char* key) const { return number_or(key, 0) * units::s; }

 private:
  const Calibration& calibration_;
  const std::map<std::string, Scalar>& scalars_;
  std::string name_;
};

FamilyScalars read_family(const Calibration& calibration, const Rates& m, const std::string& name) {
  const auto it = calibration.families.find(name);
  if (it == calibration.families.end()) {
    throw BadInput("calibration of " + calibration.gpu + ": missing family '" + name + "'");
  }
  const Section section(calibration, it->second, it->first);
  FamilyScalars f;
  f.fixed = section.seconds("fixed_s");
  f.overlap = section.number("overlap");
  f.efficiency = section.number_or("efficiency_fraction", 1);
  f.dram_share = section.number_or("dram_share_fraction", 1);
  f.exposed = section.number_or("exposed", 0);
  f.per_cta = section.seconds_or_zero("per_cta_s");
  f.step = section.seconds_or_zero("step_s");
  f.step_clk = section.number_or("step_clk", 0);
  f.start_clk = section.number_or("start_clk", 0);
  f.merge_clk = section.number_or("merge_clk", 0);
  f.in_flight = section.number_or("in_flight_B", 0) * units::B;
  f.sm_in_flight = section.number_or("sm_in_flight_B", 0) * units::B;
  f.counter = section.seconds_or_zero("counter_s");
  f.tensor_burst = section.number_or("tensor_burst_fraction", m.tensor_fraction);
  f.tensor_steady = section.number_or("tensor_steady_fraction", m.tensor_steady_fraction);
  f.droop = section.number_or("clock_droop_fraction", 0);
  // where power is modelled, the clock that it leaves takes the place of a measured share
  if (m.clock_mode == ClockMode::steady && calibration.power.empty()) f.tensor_burst = f.tensor_steady;
  return f;
}

void read_machine_scalars(const Calibration& calibration, RateScalars& scalars) {
  const Section s(calibration, calibration.machine, "machine");
  Rates& m = scalars.base;
  scalars.dram_read = s.number("dram_read_fraction");
  scalars.dram_write = s.number("dram_write_fraction");
  m.dram_mix_loss = s.number("dram_mix_loss_fraction");
  scalars.dram_latency = s.number("dram_loaded_latency_ratio");
  scalars.l2_bandwidth = s.number("l2_bandwidth_fraction");
  scalars.l2_usable = s.number("l2_usable_fraction");
  scalars.pcie = s.number("pcie_fraction");
  m.tensor_fraction = s.number("tensor_burst_fraction");
  m.tensor_steady_fraction = s.number("tensor_steady_fraction");
  if (m.clock_mode == ClockMode::steady && calibration.power.empty()) m.tensor_fraction = m.tensor_steady_fraction;
  m.regulator_lag = s.seconds("regulator_lag_s");
  m.gap_graph = s.seconds("gap_graph_s");
  m.gap_stream = s.seconds("gap_stream_s");
  m.kernel_change = s.seconds_or_zero("kernel_change_s");
  m.host_per_operator = s.seconds("host_per_operator_s");
}

/// The family as the kernel set has it; nothing when it is not on file.
std::optional<FamilyScalars> find_family(const Calibration& calibration, const Rates& m, const char* set,
                                         const char* family) {
  const std::string name = std::string(set) + "." + family;
  if (calibration.families.count(name) == 0) return std::nullopt;
  FamilyScalars f = read_family(calibration, m, name);
  f.name = family;
  f.own = true;
  return f;
}

void read_own_families(const Calibration& c, Rates& m) {
  m.own.gemm = find_family(c, m, "own", "gemm");
  m.own.gemm_portable = find_family(c, m, "own", "gemm_portable");
  m.own.reduce = find_family(c, m, "own", "reduce");
  m.own.prefill = find_family(c, m, "own", "attention_prefill");
  m.own.decode = find_family(c, m, "own", "attention_decode");
  m.own.combine = find_family(c, m, "own", "combine");
  if (auto rowwise = find_family(c, m, "own", "rowwise")) m.rowwise = *rowwise;
}

/// The library kernels' scalars: with our own kernels, of the shapes that none of those runs.
void read_families(const Calibration& c, Rates& m, std::vector<std::string>& assumptions) {
  const bool own = m.kernels == KernelSet::own;
  std::string borrowed;
  const auto read = [&](const char* family) {
    FamilyScalars f = read_family(c, m, std::string("library.") + family);
    f.name = family;
    f.borrowed = own;
    return f;
  };
  m.gemm = read("gemm");
  m.gemm_mma = c.families.count("library.gemm_mma") > 0 ? read("gemm_mma") : m.gemm;
  if (c.families.count("library.grouped_gemm") > 0) {
    m.grouped = read("grouped_gemm");
  } else {  // the same main loop over a list of problems: without rows of its own it is priced as one GEMM
    m.grouped = m.gemm;
    m.grouped.name = "grouped_gemm";
    m.grouped_as_gemm = true;
  }
  const bool flash = m.attention == AttentionStack::flash_attention;
  m.prefill = read(flash ? "flash_prefill" : "attention_prefill");
  m.decode = read(flash ? "flash_decode" : "attention_decode");
  m.decode_single = flash ? m.decode : read("attention_decode_single");
  if (!flash && c.families.count("library.attention_decode_8bit") > 0) {
    m.decode_8bit = read("attention_decode_8bit");
  }
  m.mla = read("mla_decode");
  m.rowwise = read("rowwise");
  m.reduce = read("reduce");
  m.combine = read("combine");
  m.prepare = read(flash ? "flash_append" : "attention_prepare");
  if (!own) return;
  read_own_families(c, m);
  for (const auto* family : {&m.own.gemm, &m.own.prefill, &m.own.decode}) {
    if (*family) continue;
    borrowed += borrowed.empty() ? "" : ", ";
    borrowed += family == &m.own.gemm ? "gemm" : family == &m.own.prefill ? "attention_prefill" : "attention_decode";
  }
  if (m.rowwise.borrowed) borrowed += std::string(borrowed.empty() ? "" : ", ") + "rowwise";
  if (!borrowed.empty()) {
    assumptions.push_back("kernels own: not measured yet, priced with the library kernels' scalars: " + borrowed);
  }
  assumptions.push_back(
      "kernels own: shapes that none of our kernels runs (grouped and quantized GEMM, latent attention, windows, ...) "
      "are priced with the library kernels' scalars");
}

}  // namespace

RateScalars read_rate_scalars(const Gpu& gpu, const Calibration& calibration, const std::optional<Gpu>& donor,
                              const MachineOptions& options, std::vector<std::string>& assumptions) {
  RateScalars scalars;
  Rates& m = scalars.base;
  m.kernels = options.kernels;
  m.attention = options.attention;
  m.clock_mode = options.clock;
  m.data = options.data;
  m.path = tensor_path(gpu);
  if (options.kernels == KernelSet::ideal) {
    if (options.power_cap) throw NotModelled("--power-cap: ideal kernels have no power");
    return scalars;
  }
  scalars.power = read_power_scalars(calibration);
  scalars.power_cap = options.power_cap;
  if (!scalars.power && options.power_cap)
    throw NotModelled("--power-cap: no energies of " + gpu.name + " are on file");
  if (!scalars.power && options.data != DataPattern::normal)
    throw NotModelled("--data: no energies of " + gpu.name + " are on file");
  if (calibration.inherited && donor) {
    scalars.donor = RateScalars::Donor{static_cast<const GpuNumbers&>(*donor), donor->generation == gpu.generation,
                                       gpu.process.energy_ratio / donor->process.energy_ratio};
  }
  if (calibration.inherited && scalars.power) {
    if (!donor) throw BadInput("calibration of " + calibration.gpu + ": energies of a card that has no descriptor");
    assumptions.push_back("no energies of " + gpu.name + ": derived from those of " + calibration.gpu +
                          " by process node and voltage, idle power and cap; not measured");
  }
  read_machine_scalars(calibration, scalars);
  read_families(calibration, m, assumptions);
  return scalars;
}

}  // namespace plumbline
