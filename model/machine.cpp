#include "model/machine.hpp"

#include "arch/error.hpp"
#include "arch/format.hpp"
#include "model/machine/parts.hpp"

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
  if (m.data != DataPattern::normal) text += "; operands hold " + std::string(name(m.data));
  return text;
}

std::vector<std::string> words_of(const MachineParts& parts) {
  const Origin& o = *parts.origin;
  std::vector<std::string> text = o.gpu.assumptions;
  if (parts.changed) text.push_back("numbers of " + o.gpu.name + " changed since its descriptor was read");
  text.insert(text.end(), o.kernel_assumptions.begin(), o.kernel_assumptions.end());
  if (o.stack.stack.kernels() == KernelSet::ideal) {
    text.push_back("kernels ideal: roofline of datasheet rates at the boost clock, no overheads");
    return text;
  }
  if (o.calibration.inherited) {
    text.push_back("no calibration of " + o.gpu.name + ": fractions of peak taken over from " + o.calibration.gpu +
                   ", bands as found on cards that were measured");
  } else if (!own_kernels_measured(o.gpu, o.calibration)) {
    text.push_back("kernels of " + o.gpu.name + " not measured: their scalars taken over from " +
                   o.calibration.families_of + ", bands as found on cards that were measured");
  }
  for (const StackedProvider& stacked : o.stack.providers) {
    if (!stacked.provider->assumption().empty()) text.emplace_back(stacked.provider->assumption());
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

void check_power_cap(const Rates& m) {
  if (!m.power) return;
  const Watts idle = settled_power(*m.power, kLowestClockShare, Watts{});
  if (m.power_cap <= idle) throw BadInput("--power-cap: expected more than the " + format(idle) + " of an idle chip");
}

Machine machine_of(std::shared_ptr<const Origin> origin, const GpuNumbers& numbers, bool changed) {
  auto parts = std::make_shared<MachineParts>();
  parts->rates = make_rates(numbers, origin->scalars);
  check_power_cap(parts->rates);
  parts->origin = std::move(origin);
  parts->changed = changed;
  return Machine(std::move(parts));
}

}  // namespace

Provenance Origin::provenance(bool changed) const {
  if (stack.stack.kernels() == KernelSet::ideal) return Provenance::datasheet;
  if (calibration.inherited || !own_kernels_measured(gpu, calibration)) return Provenance::inherited;
  return gpu.modified || changed ? Provenance::derived : Provenance::calibrated;
}

/// How far the machine is from the card that the calibration's rows were measured on.
BandSection Origin::section(bool changed) const {
  const Provenance from = provenance(changed);
  if (from == Provenance::calibrated) return BandSection::own_card;
  if (from == Provenance::derived || gpu.name == calibration.gpu) return BandSection::near;
  return same_generation ? BandSection::near : BandSection::far;
}

const BandTable& Origin::bands(bool changed) const {
  Table& table = changed ? when_changed_ : as_given_;
  std::call_once(table.once, [&] { table.bands = BandTable(calibration, section(changed)); });
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
const BandTable& Machine::bands() const { return parts_->origin->bands(parts_->changed); }
const Rates& Machine::rates() const { return parts_->rates; }

Machine Machine::with(const GpuNumbers& numbers) const {
  if (numbers == parts_->rates.gpu) return *this;
  const bool changed = !(numbers == parts_->origin->gpu);
  return machine_of(parts_->origin, numbers, changed);
}

Machine assemble_machine(const Gpu& gpu, const Calibration& calibration, const std::optional<Gpu>& donor,
                         const std::shared_ptr<const KernelCounts>& counts, const Stack& stack,
                         const MachineOptions& options) {
  auto origin = std::make_shared<Origin>();
  origin->gpu = gpu;
  origin->calibration = calibration;
  origin->options = options;
  origin->stack = StackParts(stack);
  origin->scalars = read_rate_scalars(gpu, calibration, donor, options, origin->stack, origin->kernel_assumptions);
  origin->counts = counts;
  origin->scalars.base.counts = counts.get();
  origin->same_generation = donor && donor->generation == gpu.generation;
  return machine_of(std::move(origin), gpu, false);
}

}  // namespace plumbline
