#include "model/engine/machine.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/predict.hpp"

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

FamilyScalars read_family(const Machine& m, const std::string& name) {
  const Calibration& calibration = m.calibration;
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
  if (m.clock_mode == ClockMode::steady && !m.power) f.tensor_burst = f.tensor_steady;
  return f;
}

void read_machine_scalars(Machine& m) {
  const Section s(m.calibration, m.calibration.machine, "machine");
  const Gpu& gpu = m.gpu;
  m.dram_read = s.number("dram_read_fraction") * gpu.memory.bandwidth;
  m.dram_write = s.number("dram_write_fraction") * gpu.memory.bandwidth;
  m.dram_mix_loss = s.number("dram_mix_loss_fraction");
  m.dram_latency = s.number("dram_loaded_latency_ratio") * gpu.memory.latency;
  m.l2_latency = gpu.l2.latency;
  m.l2 = s.number("l2_bandwidth_fraction") * l2_peak(gpu, m.clock);
  m.l2_per_sm = gpu.sm.l2_bytes_per_clk * m.clock;
  m.l2_capacity = s.number("l2_usable_fraction") * gpu.l2.size;
  m.l2_kept = m.l2_capacity / static_cast<double>(std::max<std::int64_t>(1, gpu.l2.partitions));
  m.pcie = s.number("pcie_fraction") * gpu.links.pcie_per_direction;
  m.tensor_fraction = s.number("tensor_burst_fraction");
  m.tensor_steady_fraction = s.number("tensor_steady_fraction");
  if (m.clock_mode == ClockMode::steady && !m.power) m.tensor_fraction = m.tensor_steady_fraction;
  m.regulator_lag = s.seconds("regulator_lag_s");
  m.gap_graph = s.seconds("gap_graph_s");
  m.gap_stream = s.seconds("gap_stream_s");
  m.kernel_change = s.seconds_or_zero("kernel_change_s");
  m.host_per_operator = s.seconds("host_per_operator_s");
}

/// The family as the kernel set has it; nothing when it is not on file.
std::optional<FamilyScalars> find_family(const Machine& m, const char* set, const char* family) {
  const std::string name = std::string(set) + "." + family;
  if (m.calibration.families.count(name) == 0) return std::nullopt;
  FamilyScalars f = read_family(m, name);
  f.name = family;
  f.own = true;
  return f;
}

void read_own_families(Machine& m) {
  m.own.gemm = find_family(m, "own", "gemm");
  m.own.gemm_portable = find_family(m, "own", "gemm_portable");
  m.own.reduce = find_family(m, "own", "reduce");
  m.own.prefill = find_family(m, "own", "attention_prefill");
  m.own.decode = find_family(m, "own", "attention_decode");
  m.own.combine = find_family(m, "own", "combine");
  if (auto rowwise = find_family(m, "own", "rowwise")) m.rowwise = *rowwise;
}

/// Two scalars of library GEMM that are no fractions. What a launch takes at least is work of the front end, of
/// schedulers and of code: cycles, not seconds. What an SM keeps outstanding is the same for the same kind of SM;
/// another generation is built to keep its own memory busy. A donor that has no descriptor here (a calibration of one's
/// own) changes nothing.
void adapt_gemm(Machine& m) {
  const std::string& name = m.calibration.gpu;
  const std::vector<std::string> known = gpu_names();
  if (!m.calibration.inherited || std::find(known.begin(), known.end(), name) == known.end()) return;
  const Gpu donor = load_gpu(name);
  const double cycles = donor.boost_clock / m.clock;
  m.gemm.fixed *= cycles;
  m.gemm_mma.fixed *= cycles;
  const auto needed = [](const Gpu& g) {
    return g.memory.bandwidth * g.memory.latency / static_cast<double>(g.sm_count);
  };
  if (donor.compute_capability != m.gpu.compute_capability)
    m.gemm.sm_in_flight *= std::max(1.0, needed(m.gpu) / needed(donor));
}

/// The library kernels' scalars: with our own kernels, of the shapes that none of those runs.
void read_families(Machine& m) {
  const bool own = m.kernels == KernelSet::own;
  std::string borrowed;
  const auto read = [&](const char* family) {
    FamilyScalars f = read_family(m, std::string("library.") + family);
    f.name = family;
    f.borrowed = own;
    return f;
  };
  m.gemm = read("gemm");
  m.gemm_mma = m.calibration.families.count("library.gemm_mma") > 0 ? read("gemm_mma") : m.gemm;
  adapt_gemm(m);
  if (m.calibration.families.count("library.grouped_gemm") > 0) {
    m.grouped = read("grouped_gemm");
  } else {  // the same main loop over a list of problems: without rows of its own it is priced as one GEMM
    m.grouped = m.gemm;
    m.grouped.name = "grouped_gemm";
  }
  const bool flash = m.attention == AttentionStack::flash_attention;
  m.prefill = read(flash ? "flash_prefill" : "attention_prefill");
  m.decode = read(flash ? "flash_decode" : "attention_decode");
  m.decode_single = flash ? m.decode : read("attention_decode_single");
  if (!flash && m.calibration.families.count("library.attention_decode_8bit") > 0) {
    m.decode_8bit = read("attention_decode_8bit");
  }
  m.mla = read("mla_decode");
  m.rowwise = read("rowwise");
  m.reduce = read("reduce");
  m.combine = read("combine");
  m.prepare = read(flash ? "flash_append" : "attention_prepare");
  if (!own) return;
  read_own_families(m);
  for (const auto* family : {&m.own.gemm, &m.own.prefill, &m.own.decode}) {
    if (*family) continue;
    borrowed += borrowed.empty() ? "" : ", ";
    borrowed += family == &m.own.gemm ? "gemm" : family == &m.own.prefill ? "attention_prefill" : "attention_decode";
  }
  if (m.rowwise.borrowed) borrowed += std::string(borrowed.empty() ? "" : ", ") + "rowwise";
  if (!borrowed.empty()) {
    m.assumptions.push_back("kernels own: not measured yet, priced with the library kernels' scalars: " + borrowed);
  }
  m.assumptions.push_back(
      "kernels own: shapes that none of our kernels runs (grouped and quantized GEMM, latent attention, windows, ...) "
      "are priced with the library kernels' scalars");
}

void read_power(Machine& m, const MachineOptions& options) {
  m.power = read_power_scalars(m.calibration);
  if (m.power && m.calibration.inherited) {
    m.power = scaled_to(*m.power, load_gpu(m.calibration.gpu), m.gpu);
    m.assumptions.push_back("no energies of " + m.gpu.name + ": derived from those of " + m.calibration.gpu +
                            " by process node and voltage, idle power and cap; not measured");
  }
  if (m.power && !m.calibration.inherited && m.power->boost > Hertz{} && m.power->boost != m.gpu.boost_clock) {
    m.power = at_boost(*m.power, m.gpu.boost_clock / m.power->boost);  // --set boost_clock
  }
  m.power_cap = options.power_cap.value_or(m.gpu.tdp);
  m.data = options.data;
  if (m.power) {
    const Watts idle = settled_power(*m.power, kLowestClockShare, Watts{});
    if (m.power_cap <= idle) throw BadInput("--power-cap: expected more than the " + format(idle) + " of an idle chip");
    return;
  }
  if (options.power_cap) throw NotModelled("--power-cap: no energies of " + m.gpu.name + " are on file");
  if (options.data != DataPattern::normal) throw NotModelled("--data: no energies of " + m.gpu.name + " are on file");
}

/// How far the machine is from the card that the calibration's rows were measured on.
BandSection band_section(const Machine& m) {
  if (m.provenance == Provenance::calibrated) return BandSection::own_card;
  if (m.provenance == Provenance::derived || m.gpu.name == m.calibration.gpu) return BandSection::near;
  try {
    return load_gpu(m.calibration.gpu).compute_capability == m.gpu.compute_capability ? BandSection::near
                                                                                      : BandSection::far;
  } catch (const BadInput&) {
    return BandSection::far;  // a file of a card that has no descriptor
  }
}

std::string clock_assumption(const Machine& m) {
  const bool burst = m.clock_mode == ClockMode::burst;
  if (!m.power) {
    return burst ? "clock burst: SM cycles at the boost clock; dense tensor work at the share of it measured in short "
                   "bursts; no energies of this card are on file, so no power"
                 : "clock steady: SM cycles at the boost clock; dense tensor work at the share of it measured when "
                   "sustained; no energies of this card are on file, so no power";
  }
  std::string text = burst ? "clock burst: the boost clock, less the cycles that SMs skip where tensor units work; "
                             "power before the regulator acts may pass the cap"
                           : "clock steady: the clock at which mean power meets the cap of " + format(m.power_cap) +
                                 ", less the cycles that SMs skip where tensor units work";
  if (!burst && m.power->tensor_limit > Watts{}) text += "; tensor work has a limit of its own, whatever its data";
  if (m.data != DataPattern::normal) text += "; operands hold " + std::string(name(m.data));
  return text;
}

}  // namespace

double Machine::sustained_fraction(Seconds launch, double burst, double steady) const {
  if (clock_mode == ClockMode::steady || regulator_lag <= Seconds{}) return burst;
  // mean over a burst of ten launches of an exponential approach to the steady share
  constexpr double kBurstLaunches = 10;
  const double x = kBurstLaunches * launch / regulator_lag;
  // (1 - e^-x) / x, by its series where that is exact to 1e-9: most launches are short
  const double mean = x < 1e-2 ? 1.0 - x * (1.0 / 2 - x * (1.0 / 6 - x / 24)) : (1.0 - std::exp(-x)) / x;
  return steady + (burst - steady) * mean;
}

std::shared_ptr<const Machine> make_machine(const Gpu& gpu, const Calibration& calibration,
                                            const MachineOptions& options) {
  auto machine = std::make_shared<Machine>();
  Machine& m = *machine;
  static std::atomic<std::uint64_t> made{0};
  m.serial = ++made;
  m.gpu = gpu;
  m.path = tensor_path(gpu);
  m.calibration = calibration;
  m.kernels = options.kernels;
  m.attention = options.attention;
  m.clock_mode = options.clock;
  m.clock = gpu.boost_clock;
  m.sm_count = static_cast<double>(gpu.sm_count);
  m.assumptions = gpu.assumptions;
  const bool own_families = calibration.families_of.empty() || calibration.families_of == gpu.name;
  m.provenance = calibration.inherited || !own_families ? Provenance::inherited
                 : gpu.modified                         ? Provenance::derived
                                                        : Provenance::calibrated;
  if (m.kernels == KernelSet::ideal) {
    if (options.power_cap) throw NotModelled("--power-cap: ideal kernels have no power");
    m.provenance = Provenance::datasheet;
    m.assumptions.push_back("kernels ideal: roofline of datasheet rates at the boost clock, no overheads");
    return machine;
  }
  read_power(m, options);
  read_machine_scalars(m);
  read_families(m);
  if (calibration.inherited) {
    m.assumptions.push_back("no calibration of " + gpu.name + ": fractions of peak taken over from " + calibration.gpu +
                            ", bands as found on cards that were measured");
  } else if (!own_families) {
    m.assumptions.push_back("kernels of " + gpu.name + " not measured: their scalars taken over from " +
                            calibration.families_of + ", bands as found on cards that were measured");
  }
  if (m.attention == AttentionStack::flash_attention) {
    m.assumptions.push_back("attention of the library: FlashAttention as vLLM and PyTorch call it");
  }
  m.bands = BandTable(calibration, band_section(m));
  m.assumptions.push_back(clock_assumption(m));
  return machine;
}

std::shared_ptr<const Machine> make_machine(const Gpu& gpu, const MachineOptions& options) {
  return make_machine(gpu, load_calibration(gpu.name, gpu.calibration), options);
}

const Gpu& gpu(const Machine& machine) { return machine.gpu; }
KernelSet kernel_set(const Machine& machine) { return machine.kernels; }
const std::vector<std::string>& assumptions(const Machine& machine) { return machine.assumptions; }

}  // namespace plumbline
