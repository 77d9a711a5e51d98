// One operator on one machine: which provider of its stack has a kernel, what the engine says of the launches, and the
// band.
#include <algorithm>
#include <cmath>

#include "arch/error.hpp"
#include "arch/fabric/cluster.hpp"
#include "model/bands/bands.hpp"
#include "model/engine/roofline.hpp"
#include "model/engine/timing.hpp"
#include "model/machine/parts.hpp"
#include "model/predictor/power_clock.hpp"
#include "model/predictor/predict_internal.hpp"
#include "ops/table/table.hpp"
#include "ops/table/text.hpp"

namespace plumbline {
namespace {

Bound bound_of(Resource r) {
  switch (r) {
    case Resource::l2:
    case Resource::dram: return Bound::memory;
    case Resource::link: return Bound::network;
    case Resource::latency: return Bound::latency;
    default: return Bound::compute;
  }
}

void set_limiter(OpPrediction& out) {
  const LaunchPrediction* longest = &out.launches[0];
  for (int i = 1; i < out.launch_count; ++i) {
    const LaunchPrediction& l = out.launches[static_cast<std::size_t>(i)];
    if (l.time.total > longest->time.total) longest = &l;
  }
  out.limiter = longest->time.limiter;
  out.limiter_share = std::min(1.0, longest->time.by_resource[out.limiter] / longest->time.total);
  out.bound = bound_of(out.limiter);
}

/// Residuals of other cards, or of kernels in another number format, say how far a prediction is off; whether what they
/// have in common carries over, nobody has measured. So the band holds them as they are and about their median.
BandRange carried_over(const BandEnds& ends, double middle) {
  return {std::min(ends.low, ends.low - middle), 0, std::max(ends.high, ends.high - middle)};
}

/// The band of kernels that were measured on the card as it was: of their own rows, widened towards that of a card of the
/// same generation the further its numbers were changed. What errs before errs after too, so that it is never narrower.
BandRange range_of(const OpPrediction& out, const MachineParts& parts, const Band& band) {
  const Origin& origin = *parts.origin;
  const BandEnds ends =
      origin.bands(out.provenance).ends(out.band_kernels, out.band_class, out.time, out.bound, out.roofline / out.time);
  if (!parts.changed || out.provenance != Provenance::same_generation ||
      origin.provenance(false) != Provenance::measured) {
    if (out.provenance != Provenance::measured) return carried_over(ends, band.middle);
    return {ends.low, band.middle, ends.high};
  }
  const Band& before = origin.bands(Provenance::measured).find(out.band_kernels, out.band_class, out.time, out.bound);
  return {before.low + parts.distance * std::min(0.0, ends.low - before.low), before.middle,
          before.high + parts.distance * std::max(0.0, ends.high - before.high)};
}

/// Residuals that are all on one side do not put the prediction outside its own band, nor do any put it below what no
/// kernel can be faster than.
void set_band(OpPrediction& out, const Machine& m) {
  const MachineParts& parts = *m.parts();
  const Band& band = parts.origin->bands(out.provenance).find(out.band_kernels, out.band_class, out.time, out.bound);
  out.band = &band;
  out.band_range = range_of(out, parts, band);
  out.low = std::max(out.time * std::exp(std::min(0.0, out.band_range.low)), std::min(out.time, out.roofline));
  out.high = out.time * std::exp(std::max(0.0, out.band_range.high));
  out.band_rows = band.rows;
}

/// The first provider of the stack that has a kernel for the operator. `question`: but for the families.
const StackedProvider& plan(const Origin& origin, Question& question, Answer& answer) {
  const std::size_t op = question.op.index();
  const std::uint64_t kind = std::uint64_t{1} << operator_name(question.op).kind;
  for (const StackedProvider& stacked : origin.stack.providers) {
    if ((stacked.kinds[op] & kind) == 0) continue;
    question.families = std::span(question.rates.families).subspan(stacked.first_family);
    if (stacked.provider->plan(question, answer)) return stacked;
  }
  throw NotModelled("stack " + origin.stack.stack.name + ": none of its providers has a kernel for " +
                    std::string(op_name(question.op)));
}

/// Where energies are on file, reprice() gives launches with tensor work their time, and the sum of all.
void price_launches(OpPrediction& out, const Rates& m) {
  for (int i = 0; i < out.launch_count; ++i) {
    LaunchPrediction& l = out.launches[static_cast<std::size_t>(i)];
    l.speeds = usual_speeds(l.demand, m, *l.family);
    if (!m.power || l.demand.tensor_clk <= 0) l.time = price(l.demand, m, *l.family, l.speeds);
    l.family_share = l.speeds.tensor;
    l.clock = m.clock * (l.demand.tensor_clk > 0 ? 1 - l.family->skipped_cycles : 1);
    out.time += l.time.total + m.gap_graph;
    out.dram_read += l.demand.dram_read;
    out.dram_write += l.demand.dram_write;
  }
}

/// An operator without launches takes its floor.
void price_floor(OpPrediction& out, const Work& work, const Answer& answer) {
  out.family = out.provider;
  out.time = out.low = out.high = answer.floor;
  out.dram_read = work.read;
  out.dram_write = work.write;
  out.limiter = answer.floor_limiter;
  out.bound = bound_of(out.limiter);
  out.limiter_share = 1;
}

/// Whose residuals the band is of.
std::size_t band_class_of(const Op& op, const FamilyOrigin& origin, Variant variant) {
  return origin.by_operator ? band_class_of_operator(op) : origin.classes[static_cast<std::size_t>(variant)];
}

/// The roofline of what must pass: of operands that L2 may hold, arithmetic alone.
Seconds floor_of(const Op& op, const Work& w, const Rates& m, Warmth warmth, const Resident& held) {
  const bool cold = warmth == Warmth::cold && held.inputs == 0 && held.weights == 0 && held.output == 0;
  if (cold) return roofline(op, w, m.gpu);
  Work arithmetic = w;
  arithmetic.read = arithmetic.write = Bytes{};
  return roofline(op, arithmetic, m.gpu);
}

void clear(OpPrediction& out, const Work& w, const Machine& machine) {
  out.time = Seconds{};
  out.dram_read = out.dram_write = Bytes{};
  out.flops = w.flops();
  out.tensor = w.tensor;
  out.math = w.math;
  out.clock = machine.rates().clock;
  out.provenance = machine.provenance();
  out.alike = false;
  out.power.reset();
  out.power_low.reset();
  out.power_high.reset();
  out.energy.reset();
  out.chip_energy = out.memory_energy = out.tensor_estimate = Joules{};
  out.band_rows = 0;
  out.band = nullptr;
  out.power_limited = false;
  out.uncapped = Seconds{};
}

}  // namespace

bool sends_to_peers(const Op& op) {
  const auto* transfer = std::get_if<Transfer>(&op);
  return std::holds_alternative<Collective>(op) || std::holds_alternative<ExpertExchange>(op) ||
         (transfer != nullptr &&
          (transfer->kind == TransferKind::send_recv || transfer->kind == TransferKind::p2p_copy));
}

bool copies_to_or_from_host(const Op& op) {
  const auto* transfer = std::get_if<Transfer>(&op);
  return transfer != nullptr && (transfer->kind == TransferKind::h2d || transfer->kind == TransferKind::d2h);
}

bool sends_by_nvlink(const Op& op, const Rates& m) {
  return m.fabric != nullptr && m.fabric->inner().kind != LinkKind::pcie && sends_to_peers(op);
}

void predict_op(const Op& op, const Machine& machine, GemmCache& cache, const Held& held, OpPrediction& out,
                const PredictOptions& options, bool priced_alone) {
  const Rates& m = machine.rates();
  const Origin& origin = *machine.parts()->origin;
  const Work w = work(op);
  clear(out, w, machine);
  out.roofline = floor_of(op, w, m, held.how, options.resident);
  Answer answer(out.launches.room());
  Question question{.op = op,
                    .work = w,
                    .rates = m,
                    .gpu = origin.gpu.name,
                    .warmth = held.how,
                    .read_through = options.read_through,
                    .appends = origin.stack.stack.prefill_appends,
                    .gemm_plan = options.gemm_plan,
                    .attention_plan = options.attention_plan,
                    .resident = options.resident,
                    .held = held.share,
                    // what stands in for kernels of ours is cut by our planner
                    .cutting = options.cut_by_time || origin.stack.stack.kernels() == KernelSet::own ? Cutting::by_time
                                                                                                     : Cutting::by_rule,
                    .collective_call = options.alone ? CollectiveCall{} : origin.stack.stack.collective_call,
                    .collective = options.collective != CollectiveChoice::automatic ? options.collective
                                                                                    : origin.stack.stack.collective,
                    .protocol = origin.stack.stack.protocol,
                    .queued = options.queued,
                    .priced_alone = priced_alone,
                    .cache = cache};
  const StackedProvider& signer = plan(origin, question, answer);
  out.provider = signer.provider->name();
  out.stands_in = signer.stands_in;
  out.launch_count = answer.count();
  out.launches.hold(static_cast<std::size_t>(out.launch_count));
  out.gemm_plan = answer.gemm_plan;
  out.attention_plan = answer.attention_plan;
  if (answer.math) out.math = *answer.math;
  if (out.launch_count == 0) return price_floor(out, w, answer);
  price_launches(out, m);
  out.dram_read += answer.read_beside;
  out.dram_write += answer.written_beside;
  const FamilyOrigin& family = origin.stack.families[static_cast<std::size_t>(&answer.main() - m.families.data())];
  out.scalars = &answer.main();
  out.family = answer.main().name;
  out.band_class = band_class_of(op, family, answer.variant());
  out.band_kernels = signer.provider->set();
  if (const FamilyScalars* own = answer.lacking()) {
    const FamilyOrigin& of_own = origin.stack.families[static_cast<std::size_t>(own - m.families.data())];
    out.band_class = band_class_of(op, of_own, answer.lacking_variant());
  }
  out.alike = signer.stands_in || family.inherited || answer.unmeasured || answer.lacking() != nullptr;
  out.provenance = out.alike
                       ? Provenance::never_measured
                       : origin.provenance(out.band_kernels, out.band_class, dtype_text(op), machine.parts()->changed);
  if (m.power) {
    set_energies(out, m);
    if (sends_by_nvlink(op, m)) add_link_energy(out, m);
    reprice(out, m, 1);
    add_polling_energy(out, m);
  }
}

void conclude(OpPrediction& out, const Machine& m) {
  if (out.launch_count == 0) return;  // its floor has no band
  set_limiter(out);
  set_band(out, m);
}

}  // namespace plumbline
