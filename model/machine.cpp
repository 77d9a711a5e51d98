#include "model/machine.hpp"

#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/machine/parts.hpp"
#include "model/words.hpp"

namespace plumbline {
namespace {

bool own_kernels_measured(const Gpu& gpu, const Calibration& c) {
  return c.families_of.empty() || c.families_of == gpu.name;
}

std::string clock_assumption(const Rates& m) {
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
  if (m.clock_limit < 1) text += "; the SM clock locked at " + format(m.clock_limit * m.gpu.boost_clock);
  if (m.data != DataPattern::normal) text += "; operands hold " + std::string(name(m.data));
  return text;
}

std::vector<std::string> words_of(const MachineParts& parts) {
  const Origin& o = *parts.origin;
  std::vector<std::string> text = o.gpu.assumptions;
  text.insert(text.end(), parts.changes.begin(), parts.changes.end());
  if (parts.changed && parts.changes.empty()) {
    text.push_back("numbers of " + o.gpu.name + " changed since its descriptor was read");
  }
  text.insert(text.end(), o.kernel_assumptions.begin(), o.kernel_assumptions.end());
  if (o.stack.stack.kernels() == KernelSet::ideal) {
    text.push_back("kernels ideal: roofline of datasheet rates at the boost clock, no overheads");
    return text;
  }
  if (o.calibration.inherited) {
    text.push_back("no calibration of " + o.gpu.name + ": fractions of peak taken over from " + o.calibration.gpu +
                   ", bands as found on cards that were measured");
  } else if (!own_kernels_measured(o.gpu, o.calibration)) {
    text.push_back("kernels of " + o.gpu.name + " not measured: their coefficients taken over from " +
                   o.calibration.families_of + ", bands as found on cards that were measured");
  }
  for (const StackedProvider& stacked : o.stack.providers) {
    if (!stacked.stands_in && !stacked.provider->assumption().empty())
      text.emplace_back(stacked.provider->assumption());
  }
  text.push_back(clock_assumption(parts.rates));
  return text;
}

const MachineParts::Words& words(const MachineParts& parts) {
  std::call_once(parts.words.once, [&parts] {
    MachineParts::Words& w = parts.words;
    w.gpu = parts.origin->gpu;
    static_cast<GpuNumbers&>(w.gpu) = parts.rates.gpu;
    w.gpu.modified = w.gpu.modified || parts.changed;
    w.assumptions = words_of(parts);
  });
  return parts.words;
}

void check_clock(const Rates& m, const MachineOptions& options) {
  if (!m.power) return;
  const Watts idle = settled_power(*m.power, kLowestClockShare, Watts{});
  const Hertz lowest = kLowestClockShare * m.gpu.boost_clock;
  if (options.sm_clock && (*options.sm_clock > m.gpu.boost_clock || *options.sm_clock < lowest)) {
    throw BadInput("SM clock: expected from " + format(lowest) + " to the boost clock of " + format(m.gpu.boost_clock) +
                   ", found " + format(*options.sm_clock));
  }
  if (m.power_cap <= idle) {
    throw BadInput("power cap: expected more than the " + format(idle) + " of an idle chip, found " +
                   format(m.power_cap));
  }
}

Machine machine_of(std::shared_ptr<const Origin> origin, const GpuNumbers& numbers, bool changed,
                   std::vector<std::string> changes = {}) {
  check_numbers(numbers);
  auto parts = std::make_shared<MachineParts>();
  if (changed) parts->distance = distance_between(origin->gpu, numbers);
  parts->changes = std::move(changes);
  parts->rates = make_rates(numbers, origin->scalars);
  check_clock(parts->rates, origin->options);
  parts->origin = std::move(origin);
  parts->changed = changed;
  return Machine(std::move(parts));
}

}  // namespace

/// How far numbers that price something are from those of a card: the largest factor between them, as a share of what
/// lies between H100 SXM and H200 SXM, the measured cards of one generation that the near bands come from: 4.8 / 3.35 in
/// memory bandwidth, and no other. At most 1: beyond that, nobody knows more.
double distance_between(const GpuNumbers& a, const GpuNumbers& b) {
  constexpr double kNearFactor = 4.8 / 3.35;
  double most = 0;
  const auto see = [&most](double x, double y) {
    if (x == y) return;
    most = x > 0 && y > 0 ? std::max(most, std::abs(std::log(x / y))) : std::log(kNearFactor);
  };
  see(static_cast<double>(a.sm_count), static_cast<double>(b.sm_count));
  see(a.boost_clock.in(units::Hz), b.boost_clock.in(units::Hz));
  see(a.tdp.in(units::W), b.tdp.in(units::W));
  see(a.memory.data_bandwidth().in(units::B_per_s), b.memory.data_bandwidth().in(units::B_per_s));
  see(a.memory.latency.in(units::s), b.memory.latency.in(units::s));
  see(a.l2.size.in(units::B), b.l2.size.in(units::B));
  see(a.l2.bandwidth.in(units::B_per_s), b.l2.bandwidth.in(units::B_per_s));
  see(a.l2.latency.in(units::s), b.l2.latency.in(units::s));
  see(a.links.pcie_per_direction.in(units::B_per_s), b.links.pcie_per_direction.in(units::B_per_s));
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    see(a.sm.tensor_flop_per_clk[type], b.sm.tensor_flop_per_clk[type]);
  }
  see(a.sm.fp32_flop_per_clk, b.sm.fp32_flop_per_clk);
  see(a.sm.sfu_op_per_clk, b.sm.sfu_op_per_clk);
  see(a.sm.issue_per_clk, b.sm.issue_per_clk);
  see(a.sm.smem_bytes_per_clk.in(units::B), b.sm.smem_bytes_per_clk.in(units::B));
  see(a.sm.l2_bytes_per_clk.in(units::B), b.sm.l2_bytes_per_clk.in(units::B));
  see(a.sm.smem.in(units::B), b.sm.smem.in(units::B));
  return std::min(1.0, most / std::log(kNearFactor));
}

MeasuredFormats::MeasuredFormats(const Calibration& calibration) {
  for (const BandSection section : {BandSection::own_card, BandSection::near, BandSection::far}) {
    const std::string distance = section == BandSection::own_card ? ""
                                 : section == BandSection::near   ? "near."
                                                                  : "far.";
    for (const KernelSet set : {KernelSet::own, KernelSet::library}) {
      const std::string prefix = distance + std::string(word_of(kKernelSetWords, set)) + ".";
      for (const auto& [name, formats] : calibration.measured) {
        if (!name.starts_with(prefix)) continue;
        lists_.push_back({section, set, band_class_of_name(name.substr(prefix.size())), formats});
      }
    }
  }
}

std::optional<BandSection> MeasuredFormats::find(KernelSet set, std::size_t band_class, std::string_view format) const {
  if (lists_.empty() && !band_class_is_unfitted(band_class)) return BandSection::own_card;
  const auto same = [](std::string_view a, std::string_view b) {
    const auto wide = [](std::string_view name) {
      if (name.empty()) return kAnyFormat;
      return name == "fp16" ? std::string_view("bf16") : name;
    };
    return wide(a) == wide(b);
  };
  for (const Formats& list : lists_) {
    if (list.band_class != band_class || list.set != set) continue;
    for (const std::string& name : list.names) {
      if (same(name, format)) return list.section;
    }
  }
  return std::nullopt;
}

Provenance Origin::provenance(bool changed) const {
  if (stack.stack.kernels() == KernelSet::ideal) return Provenance::datasheet;
  if (calibration.inherited || !own_kernels_measured(gpu, calibration)) {
    const bool near = same_generation || gpu.name == calibration.gpu;
    return near ? Provenance::same_generation : Provenance::other_generation;
  }
  return gpu.modified || changed ? Provenance::same_generation : Provenance::measured;
}

/// What was measured on the calibration's card is as near as that card is; what was measured elsewhere alone is not
/// nearer than that.
Provenance Origin::provenance(KernelSet set, std::size_t band_class, std::string_view format, bool changed) const {
  const std::optional<BandSection> where = measured.find(set, band_class, format);
  if (!where) return Provenance::never_measured;
  const Provenance of_card = provenance(changed);
  if (*where == BandSection::own_card) return of_card;
  const Provenance there = *where == BandSection::near ? Provenance::same_generation : Provenance::other_generation;
  return std::max(of_card, there);
}

const BandTable& Origin::bands(Provenance provenance) const {
  const BandSection section = provenance == Provenance::measured          ? BandSection::own_card
                              : provenance == Provenance::same_generation ? BandSection::near
                              : provenance == Provenance::never_measured  ? BandSection::never
                                                                          : BandSection::far;
  Table& table = tables_[static_cast<std::size_t>(section)];
  std::call_once(table.once, [&] { table.bands = BandTable(calibration, section); });
  return table.bands;
}

const Gpu& Machine::gpu() const { return parts_->changed ? words(*parts_).gpu : parts_->origin->gpu; }
const GpuNumbers& Machine::numbers() const { return parts_->rates.gpu; }
const MachineOptions& Machine::options() const { return parts_->origin->options; }
const Stack& Machine::stack() const { return parts_->origin->stack.stack; }
KernelSet Machine::kernels() const { return stack().kernels(); }
const Calibration& Machine::calibration() const { return parts_->origin->calibration; }
Provenance Machine::provenance() const { return parts_->origin->provenance(parts_->changed); }
const std::vector<std::string>& Machine::assumptions() const { return words(*parts_).assumptions; }
const BandTable& Machine::bands() const { return parts_->origin->bands(provenance()); }
const Rates& Machine::rates() const { return parts_->rates; }

Machine Machine::for_steps() const {
  const Origin& origin = *parts_->origin;
  if (!origin.step_scalars) return *this;
  MachineParts::Steps& steps = parts_->steps;
  std::call_once(steps.once, [&] {
    if (parts_->rates.clock_mode == ClockMode::steady) return;  // is that machine
    auto parts = std::make_shared<MachineParts>();
    parts->rates = make_rates(parts_->rates.gpu, *origin.step_scalars);
    parts->origin = parts_->origin;
    parts->changed = parts_->changed;
    parts->distance = parts_->distance;
    parts->changes = parts_->changes;
    steps.parts = std::move(parts);
  });
  return steps.parts ? Machine(steps.parts) : *this;
}

Machine Machine::with(const GpuNumbers& numbers) const { return with(numbers, {}, {}); }

Machine Machine::with(const GpuNumbers& numbers, std::vector<std::string> changes) const {
  return with(numbers, {}, std::move(changes));
}

Machine Machine::with(const Gpu& gpu, std::vector<std::string> changes) const {
  return with(static_cast<const GpuNumbers&>(gpu), gpu.set, std::move(changes));
}

Machine Machine::with(const GpuNumbers& given, const std::vector<std::string>& set,
                      std::vector<std::string> changes) const {
  if (given == parts_->rates.gpu) return *this;
  const GpuNumbers numbers = derived_again(parts_->origin->gpu, parts_->rates.gpu, given, set);
  const bool changed = !(numbers == parts_->origin->gpu);
  return machine_of(parts_->origin, numbers, changed, std::move(changes));
}

Machine assemble_machine(const Gpu& gpu, const Calibration& calibration, const Stack& stack,
                         const MachineOptions& options, const MachineAids& aids) {
  auto origin = std::make_shared<Origin>();
  origin->gpu = gpu;
  origin->calibration = calibration;
  origin->options = options;
  origin->stack = StackParts(stack);
  origin->scalars = read_rate_scalars(gpu, calibration, aids.donor, options, origin->stack, origin->kernel_assumptions);
  if (!options.clock && stack.kernels() != KernelSet::ideal) {
    MachineOptions settled = options;
    settled.clock = ClockMode::steady;
    StackParts again(stack);
    std::vector<std::string> said;
    origin->step_scalars = read_rate_scalars(gpu, calibration, aids.donor, settled, again, said);
    origin->step_scalars->base.counts = aids.counts.get();
    origin->step_scalars->base.fabric = aids.cluster.get();
  }
  origin->measured = MeasuredFormats(calibration);
  origin->counts = aids.counts;
  origin->steps = aids.steps;
  origin->scalars.base.counts = aids.counts.get();
  origin->cluster = aids.cluster;
  origin->scalars.base.fabric = aids.cluster.get();
  origin->same_generation = aids.donor && aids.donor->generation == gpu.generation;
  return machine_of(std::move(origin), gpu, false);
}

}  // namespace plumbline
