#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "model/machine/parts.hpp"
#include "model/stacks/own/own_kernels.hpp"
#include "model/words.hpp"
#include "ops/table/table.hpp"

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
  f.half_lines = section.number_or("half_lines_fraction", 1);
  f.exposed = section.number_or("exposed", 0);
  f.per_cta = section.seconds_or_zero("per_cta_s");
  f.step = section.seconds_or_zero("step_s");
  f.step_clk = section.number_or("step_clk", 0);
  f.start_clk = section.number_or("start_clk", 0);
  f.merge_clk = section.number_or("merge_clk", 0);
  f.issue_start_clk = section.number_or("issue_start_clk", 0);
  f.issue_step_clk = section.number_or("issue_step_clk", 0);
  f.in_flight = section.number_or("in_flight_B", 0) * units::B;
  f.sm_in_flight = section.number_or("sm_in_flight_B", 0) * units::B;
  f.counter = section.seconds_or_zero("counter_s");
  f.gap_inside = section.seconds_or_zero("gap_inside_s");
  f.link_share = section.number_or("link_share_fraction", 1);
  f.channel = section.number_or("channel_B_per_s", 0) * units::B_per_s;
  f.element = section.number_or("element_B_per_s", 0) * units::B_per_s;
  f.tensor_burst = section.number_or("tensor_burst_fraction", m.tensor_fraction);
  f.tensor_steady = section.number_or("tensor_steady_fraction", m.tensor_steady_fraction);
  f.skipped_cycles = section.number_or("clock_droop_fraction", 0);
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
}

/// Families of one provider of the stack, behind those that are read.
class FamilyReader {
 public:
  FamilyReader(const Calibration& calibration, RateScalars& scalars, StackParts& parts)
      : calibration_(calibration), scalars_(scalars), parts_(parts) {}

  void read(StackedProvider& stacked) {
    stacked.first_family = parts_.families.size();
    const Provider& provider = *stacked.provider;
    const std::string_view set = word_of(kKernelSetWords, provider.set());
    for (const FamilyDeclaration& declared : provider.families()) {
      const std::string own = std::string(set) + "." + declared.name;
      add(declared, on_file(own) || declared.stand_in == nullptr ? own : declared.stand_in, stacked);
      if (declared.noted_when_absent && !last().on_file)
        absent_ += (absent_.empty() ? "" : ", ") + std::string(declared.name);
    }
  }

  /// Names of families whose absence is to be said, joined.
  const std::string& absent() const { return absent_; }

 private:
  bool on_file(const std::string& name) const { return calibration_.families.count(name) > 0; }
  FamilyScalars& last() { return scalars_.base.families[parts_.families.size() - 1]; }

  void add(const FamilyDeclaration& declared, const std::string& name, const StackedProvider& stacked) {
    if (parts_.families.size() == Rates::kMostFamilies) {
      throw BadInput("stack " + parts_.stack.name + ": more than " + std::to_string(Rates::kMostFamilies) +
                     " kernel families");
    }
    parts_.families.push_back(origin_of(declared));
    FamilyScalars& family = last();
    const bool asked = declared.op[0] == '\0' || stacked.runs(declared.op);
    parts_.families.back().inherited = declared.stand_in_inherits && name == declared.stand_in;
    if (asked && (declared.required || on_file(name))) {
      family = read_family(calibration_, scalars_.base, name);
      family.on_file = true;
      family.carry = carry_of(declared, name, *stacked.provider);
      family.fitted_in_bursts = declared.fitted_in_bursts;
    }
    family.name = declared.name;
  }

  /// What stands in goes over as it does where it is itself, but for what the plan counts.
  static CarryOver carry_of(const FamilyDeclaration& declared, const std::string& name, const Provider& provider) {
    if (declared.stand_in == nullptr || name != declared.stand_in) return declared.carry;
    CarryOver carry;
    for (const FamilyDeclaration& other : provider.families()) {
      if (name.substr(name.find('.') + 1) == other.name) carry = other.carry;
    }
    carry.cold_trips = declared.carry.cold_trips;
    return carry;
  }

  static FamilyOrigin origin_of(const FamilyDeclaration& declared) {
    FamilyOrigin origin;
    for (const BandClass& each : declared.classes) {
      if (each.variant == Variant::usual) origin.classes.fill(band_class_of_name(each.name));
    }
    for (const BandClass& each : declared.classes) {
      origin.classes[static_cast<std::size_t>(each.variant)] = band_class_of_name(each.name);
    }
    origin.by_operator = declared.classes.empty();
    return origin;
  }

  const Calibration& calibration_;
  RateScalars& scalars_;
  StackParts& parts_;
  std::string absent_;
};

/// Scalars of all kernels that the stack may run.
void read_families(const Calibration& calibration, RateScalars& scalars, StackParts& parts,
                   std::vector<std::string>& assumptions) {
  FamilyReader reader(calibration, scalars, parts);
  for (StackedProvider& stacked : parts.providers) reader.read(stacked);
  if (parts.stack.kernels() != KernelSet::own) return;
  const auto of_library = [](const StackedProvider& each) { return each.provider->set() == KernelSet::library; };
  const bool others = std::any_of(parts.providers.begin(), parts.providers.end(), of_library);
  if (!runs_own_kernels(scalars.base)) {
    assumptions.push_back(std::string("none of this project's kernels runs on this card") +
                          (others ? ": all that are priced are the libraries'" : ""));
    return;
  }
  if (!others) {
    assumptions.push_back("kernels own alone: what none of our kernels runs is not modelled");
    return;
  }
  if (!reader.absent().empty()) {
    assumptions.push_back("kernels own: not measured yet, priced with the library kernels' coefficients: " +
                          reader.absent());
  }
  assumptions.push_back(
      "kernels own: shapes that none of our kernels runs (grouped and quantized GEMM, latent attention, windows, ...) "
      "are priced with the library kernels' coefficients");
}

/// The clock that the data sheet's tensor peaks assume, of the boost clock. Units of mma.sync skip nothing: what a GeForce runs at
/// beyond the clock on its sheet (2655 for 2520 MHz) is boost, and no cycles left out.
double rated_clock_share(const Gpu& gpu) {
  if (tensor_path(gpu).kind == TensorPath::Kind::mma_sync) return 1;
  return gpu.datasheet_tensor_clock > Hertz{} ? gpu.datasheet_tensor_clock / gpu.boost_clock : 1;
}

/// Shares of the tensor rate on a card that takes them over (CarryOver::lost_at_flop_per_clk): of the card as it is built,
/// whatever numbers are changed in a study. Of units that are faster nobody has seen that they lose more: other kernels feed them.
void carry_losses(RateScalars& scalars, const Gpu& gpu) {
  for (FamilyScalars& family : scalars.base.families) {
    if (family.carry.lost_at_flop_per_clk <= 0) continue;
    const double rate = std::min(1.0, gpu.sm.tensor_flop_per_clk[DType::bf16] / family.carry.lost_at_flop_per_clk);
    family.efficiency = 1 / (1 + (1 / family.efficiency - 1) * rate);
  }
}

/// Shares of the tensor peak that launches of one length or another were measured to reach belong to the instructions that they
/// were measured with: those of warpgroups bring a Hopper to its cap within a launch. A card whose units have mma.sync alone takes
/// none of it over: the clock that power leaves stands for them, and an A100's own share is 1 but for a hundredth. (A GeForce's
/// units of half the rate are busy in FlashAttention-2 all the time: 169 TFLOP/s of 165 at the rated clock are in print.)
void carry_tensor_shares(Rates& m, const Gpu& donor) {
  using Kind = TensorPath::Kind;
  if (m.path.kind != Kind::mma_sync || tensor_path(donor).kind == Kind::mma_sync) return;
  m.tensor_fraction = m.tensor_steady_fraction = 1;
}

/// A slot feeds a board with 75 W and no more (PCI Express Card Electromechanical Specification: 10 W of 3.3 V, 66 of 12 V). One
/// that has no connector besides (L4, T4) cannot draw more until a slow regulator acts: its bursts are at the cap too.
bool is_fed_by_its_slot(const Gpu& gpu) {
  constexpr Watts kSlot = 75.0 * units::W;
  return gpu.tdp <= kSlot;
}

/// Why bursts of a board are held to its cap as steady runs are; empty where a regulator acts behind them.
std::string why_bursts_are_capped(const Gpu& gpu) {
  if (is_fed_by_its_slot(gpu)) return gpu.name + " is fed by its slot alone";
  constexpr Seconds kBurst = 1e-2 * units::s;  // ten launches of a millisecond, as short benchmarks have them
  if (gpu.cap_within > Seconds{} && gpu.cap_within <= kBurst) return gpu.name + " holds its cap within milliseconds";
  return "";
}

StackedProvider stacked(const Stack::Entry& entry) {
  StackedProvider out;
  out.provider = entry.provider;
  out.stands_in = entry.stands_in;
  if (entry.ops.empty() && entry.provider->ops().empty()) {
    out.kinds.fill(~std::uint64_t{0});
    return out;
  }
  const auto take = [&out](std::string_view name) {
    const Operator& op = *find_operator(name);
    out.kinds[op.make(op.kind, Precision{}).index()] |= std::uint64_t{1} << op.kind;
  };
  for (const std::string& name : entry.ops) take(name);
  if (entry.ops.empty()) {
    for (const std::string_view name : entry.provider->ops()) take(name);
  }
  return out;
}

}  // namespace

bool StackedProvider::runs(std::string_view name) const {
  const Operator& op = *find_operator(name);
  return (kinds[op.make(op.kind, Precision{}).index()] >> op.kind & 1) != 0;
}

StackParts::StackParts(const Stack& all) : stack(all) {
  for (const Stack::Entry& entry : stack.providers) providers.push_back(stacked(entry));
}

RateScalars read_rate_scalars(const Gpu& gpu, const Calibration& calibration, const std::optional<Gpu>& donor,
                              const MachineOptions& options, StackParts& parts, std::vector<std::string>& assumptions) {
  RateScalars scalars;
  Rates& m = scalars.base;
  m.clock_mode = options.clock.value_or(ClockMode::burst);
  if (const std::string why = why_bursts_are_capped(gpu); m.clock_mode == ClockMode::burst && !why.empty()) {
    m.clock_mode = ClockMode::steady;
    assumptions.push_back(why + ": a burst is held to the cap as a steady run is");
  }
  m.data = options.data;
  m.path = tensor_path(gpu);
  if (parts.stack.kernels() == KernelSet::ideal) {
    if (options.power_cap) throw NotModelled("power cap: ideal kernels have no power");
    if (options.sm_clock) throw NotModelled("SM clock: ideal kernels run at the boost clock");
    return scalars;
  }
  if (options.power_cap && options.clock == ClockMode::burst) {
    throw BadInput("power cap: has no meaning with clock burst, which ends before a regulator acts: expected steady");
  }
  scalars.power = read_power_scalars(calibration);
  scalars.power_cap = options.power_cap;
  scalars.sm_clock = options.sm_clock;
  if (!scalars.power && options.power_cap) throw NotModelled("power cap: no energies of " + gpu.name + " are on file");
  if (!scalars.power && options.sm_clock) throw NotModelled("SM clock: no energies of " + gpu.name + " are on file");
  if (!scalars.power && options.data != DataPattern::normal)
    throw NotModelled("data: no energies of " + gpu.name + " are on file");
  if (calibration.inherited && donor) {
    scalars.donor = RateScalars::Donor{
        static_cast<const GpuNumbers&>(*donor), gpu.process.energy_ratio / donor->process.energy_ratio,
        outstanding_ratio(gpu, *donor, donor->generation == gpu.generation),
        skipped_as_rated(rated_clock_share(gpu), rated_clock_share(*donor), donor->generation == gpu.generation)};
  }
  if (calibration.inherited && scalars.power) {
    if (!donor) throw BadInput("calibration of " + calibration.gpu + ": energies of a card that has no descriptor");
    assumptions.push_back("no energies of " + gpu.name + ": derived from those of " + calibration.gpu +
                          " by process node and voltage, idle power and cap; not measured");
  }
  read_machine_scalars(calibration, scalars);
  if (const Seconds own = parts.stack.gap_in_graph; own > Seconds{}) {
    m.gap_graph = std::min(m.gap_graph, own);
    m.kernel_change = Seconds{};
  }
  if (scalars.donor && scalars.power) carry_tensor_shares(m, *donor);
  read_families(calibration, scalars, parts, assumptions);
  if (scalars.donor) carry_losses(scalars, gpu);
  return scalars;
}

}  // namespace plumbline
