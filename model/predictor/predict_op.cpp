// One operator on one machine: the visitor that picks a planner, the shared pricing of its launches, and the band.
#include <algorithm>
#include <cmath>
#include <optional>

#include "arch/error.hpp"
#include "arch/gpu/peaks.hpp"
#include "model/bands/bands.hpp"
#include "model/engine/timing.hpp"
#include "model/predictor/power_clock.hpp"
#include "model/predictor/predict_internal.hpp"
#include "model/stacks/common/gemm_tiles.hpp"
#include "model/stacks/common/plan_attention.hpp"
#include "model/stacks/cublas/plan_gemm.hpp"
#include "model/stacks/generic/plan_stream.hpp"
#include "model/stacks/plan_gemm.hpp"
#include "ops/op/text.hpp"
#include "ops/op/work.hpp"

namespace plumbline {
namespace {

/// What is left of a library GEMM's traffic, and of its waits for memory.
Demand with_resident(const Demand& cold, const GemmTask& t, const Rates& m, const Resident& r) {
  Demand d = cold;
  const Bytes inputs = t.batch * t.m * t.k * t.input_bytes * units::B;
  const Bytes weights = t.batch * t.n * t.k * t.weight_bytes * t.weight_kept * t.weights_read * units::B;
  d.dram_read = r.inputs >= 1 && r.weights >= 1
                    ? Bytes{}
                    : std::max(Bytes{}, cold.dram_read - r.inputs * inputs - r.weights * weights);
  d.dram_write = (1 - r.output) * cold.dram_write;
  const double latency = m.l2_mean_latency() / m.dram_latency;
  d.step_latency = cold.step_latency * (cold.plan.persistent ? 1 : 1 - r.weights * (1 - latency));
  const Seconds first = cold.plan.persistent ? gemm::kColdTrips * m.gpu.memory.latency : Seconds{};
  d.serial_latency = cold.serial_latency - r.weights * (1 - m.l2_mean_latency() / m.gpu.memory.latency) * first;
  return d;
}

/// Fills an OpPrediction launch by launch.
class Pricer {
 public:
  Pricer(const Machine& machine, GemmCache& cache, const Op& op, const Work& work, Warmth warmth,
         const PredictOptions& options, OpPrediction& out)
      : machine_(machine),
        m_(machine.rates()),
        cache_(cache),
        op_(op),
        work_(work),
        warmth_(warmth),
        options_(options),
        out_(out) {}

  void operator()(const Gemm& s) { gemm(s, "gemm"); }
  void operator()(const GemmSparse24& s) { gemm(s, "gemm 2:4"); }
  void operator()(const GroupedGemm& s) { gemm(s, "grouped gemm"); }
  void operator()(const AttentionPrefill& s) {
    require_tensor_path(s.dtype);
    attention(plan_prefill(s, m_), "attention");
  }
  void operator()(const AttentionDecode& s) {
    require_tensor_path(s.dtype);
    attention(plan_decode(s, m_, options_.attention_plan), "split-KV attention");
  }
  void operator()(const MlaDecode& s) {
    require_tensor_path(s.dtype);
    attention(plan_mla_decode(s, m_), "latent attention");
  }
  void operator()(const Collective&) { throw NotModelled("collectives between GPUs are not modelled yet"); }
  void operator()(const Transfer& s) {
    if (s.kind == TransferKind::send_recv) throw NotModelled("send_recv between GPUs is not modelled yet");
    if (s.kind == TransferKind::d2d) return stream();
    Demand d;
    d.plan.ctas = 1;
    d.link = static_cast<double>(s.bytes) * units::B;
    family_ = &m_.rowwise;
    launch("copy engine", d, m_.rowwise);
    out_.dram_read += work_.read;  // beside the link's time, not in it
    out_.dram_write += work_.write;
  }
  template <class Other>
  void operator()(const Other&) {
    stream();
  }

  const FamilyScalars& family() const { return *family_; }
  std::size_t band_class() const {
    const auto* gemm = std::get_if<Gemm>(&op_);
    const bool ragged =
        gemm != nullptr && family_->own && std::string_view(family_->name) == "gemm" && ends_within_a_step(*gemm);
    return plumbline::band_class(op_, ragged ? "gemm_ragged" : family_->name, band_kernel_);
  }

 private:
  static bool ends_within_a_step(const Gemm& s) {
    return std::fmod(static_cast<double>(s.k) * bits(s.precision.math) / 8.0, gemm::kStepBytes) != 0;
  }
  void require_tensor_path(DType type) const {
    if (m_.gpu.sm.tensor_flop_per_clk[type] <= 0) {
      throw BadInput(machine_.gpu().name + " has no " + std::string(name(type)) + " tensor path for attention");
    }
  }

  void launch(const char* kernel, const Demand& demand, const FamilyScalars& family) {
    LaunchPrediction& l = out_.launches[static_cast<std::size_t>(out_.launch_count++)];
    l.kernel = kernel;
    l.demand = demand;
    l.family = &family;
    l.speeds = usual_speeds(demand, m_, family);
    l.time = price(demand, m_, family, l.speeds);
    l.family_share = l.speeds.tensor;
    l.clock = m_.clock * (demand.tensor_clk > 0 ? 1 - family.droop : 1);
    out_.time += l.time.total + m_.gap_graph;
    out_.dram_read += demand.dram_read;
    out_.dram_write += demand.dram_write;
  }

  /// A launch whose operands may lie in L2. `latency`: what a step's loads take then / from DRAM; the chain of a step
  /// that has its operands stays.
  void launch_warm(const char* kernel, const Demand& cold, const FamilyScalars& family, double latency = 1) {
    if (warmth_ != Warmth::everything || !kept(cold)) return launch(kernel, cold, family);
    Demand warm = cold;
    warm.dram_read = warm.dram_write = warm.in_flight = Bytes{};
    warm.step_latency = std::max(latency * cold.step_latency, std::min(cold.step_latency, family.step));
    warm.start *= std::min(1.0, m_.dram_read / m_.l2);
    if (cold.l2_limit == L2Limit::lookups)
      warm.serial_latency -= kChainedLoads * std::max(Seconds{}, m_.gpu.memory.latency - m_.l2_latency);
    launch(kernel, warm, family);
  }
  /// Lines that are written may be kept by both partitions of L2, and all lines where reads evict first or at random;
  /// our GEMM of 37 MB of operands and 0.5 MB of result finds them all (H200, 2026-11-20).
  bool kept(const Demand& d) const {
    return d.l2_distinct > Bytes{} ? d.l2_distinct + 2.0 * d.l2_written <= m_.l2_capacity : work_.bytes() <= m_.l2_kept;
  }

  template <class Shape>
  void gemm(const Shape& shape, const char* kernel) {
    if (matrix_flop_per_clk(shape.precision.math, m_) <= 0) {
      throw BadInput(machine_.gpu().name + " has no " + std::string(name(shape.precision.math)) + " path for dtype " +
                     std::string(name(shape.precision)));
    }
    gemm(gemm_task(shape, m_), kernel);
  }

  void gemm(const GemmTask& task, const char* kernel) {
    const FamilyScalars& family = gemm_family(task, m_);
    family_ = &family;
    std::optional<GemmChoice> as_cut;
    if (options_.gemm_plan) as_cut = price_own_plan(task, *options_.gemm_plan, m_, cache_);
    const GemmChoice& choice = as_cut ? *as_cut : plan_gemm(task, m_, cache_);
    out_.gemm_plan = choice.plan;
    if (!task.own) return library_gemm(task, choice, family, kernel);
    launch_warm(kernel, choice.main, family, m_.l2_latency / m_.dram_latency);
    if (choice.reduces) launch_warm("split-K reduce", choice.reduce, reduce_family(task, m_));
  }

  void library_gemm(const GemmTask& task, const GemmChoice& choice, const FamilyScalars& family, const char* kernel) {
    const bool all = warmth_ == Warmth::everything && work_.bytes() <= m_.l2_held();
    launch(kernel, with_resident(choice.main, task, m_, all ? Resident{1, 1, 1} : options_.resident), family);
    if (choice.reduces) launch_warm("split-K reduce", choice.reduce, reduce_family(task, m_));
  }

  void attention(const AttentionChoice& choice, const char* kernel) {
    family_ = choice.family;
    const bool alone = std::holds_alternative<AttentionPrefill>(op_) && !choice.prepares;
    if (!choice.family->own) band_kernel_ = alone ? BandKernel::library_alone : BandKernel::library;
    out_.attention_plan = choice.plan;
    if (choice.prepares) launch_warm("rotate and append", choice.prepare, m_.prepare);
    launch_warm(kernel, choice.main, *choice.family);
    if (choice.combines) launch_warm("combine", choice.combine, *choice.combine_family);
  }

  void stream() {
    family_ = &m_.rowwise;
    launch("stream", plan_stream(op_, work_, m_, warmth_ != Warmth::cold), m_.rowwise);
  }

  const Machine& machine_;
  const Rates& m_;
  GemmCache& cache_;
  const Op& op_;
  const Work& work_;
  Warmth warmth_;
  const PredictOptions& options_;
  OpPrediction& out_;
  const FamilyScalars* family_ = nullptr;  // of the main launch
  BandKernel band_kernel_ = BandKernel::plain;
};

Bound bound_of(Resource r) {
  switch (r) {
    case Resource::l2:
    case Resource::dram: return Bound::memory;
    case Resource::link: return Bound::network;
    case Resource::latency: return Bound::latency;
    default: return Bound::compute;
  }
}

/// Roofline of the machine as given: datasheet rates at the boost clock, no launches.
void price_ideal(const Op& op, const Work& work, const Rates& m, OpPrediction& out) {
  out.family = "ideal";
  out.time = out.low = out.high = roofline(op, m.gpu);
  out.dram_read = work.read;
  out.dram_write = work.write;
  const Seconds memory = work.bytes() / m.gpu.memory.bandwidth;
  const Seconds lanes = work.fp32 / fp32_peak(m.gpu, m.gpu.boost_clock);
  if (memory >= out.time) out.limiter = Resource::dram;
  else if (lanes >= out.time) out.limiter = Resource::fp32;
  else out.limiter = work.link > Bytes{} ? Resource::link : Resource::tensor;
  out.bound = bound_of(out.limiter);
  out.limiter_share = 1;
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

/// Residuals that are all on one side do not put the prediction outside its own band.
void set_band(OpPrediction& out, const Machine& m) {
  const Band& band = m.bands().find(out.band_kernels, out.band_class, out.time, out.bound);
  out.band = &band;
  out.low = out.time * std::exp(std::min(0.0, band.low));
  out.high = out.time * std::exp(std::max(0.0, band.high));
  out.band_rows = band.rows;
}

}  // namespace

Seconds roofline(const Op& op, const GpuNumbers& gpu) {
  const Work w = work(op);
  Seconds time = w.bytes() / gpu.memory.bandwidth;
  if (w.tensor > Flops{}) {
    FlopRate peak = tensor_peak(gpu, w.math, gpu.boost_clock);
    if (peak <= FlopRate{})
      peak = w.math == DType::fp64 ? fp64_peak(gpu, gpu.boost_clock) : fp32_peak(gpu, gpu.boost_clock);
    time = std::max(time, w.tensor / peak);  // 2:4: kept work only, at the dense rate, is the sparse rate
  }
  time = std::max(time, w.fp32 / fp32_peak(gpu, gpu.boost_clock));
  if (w.link > Bytes{}) {
    const auto* transfer = std::get_if<Transfer>(&op);
    const bool host = transfer && (transfer->kind == TransferKind::h2d || transfer->kind == TransferKind::d2h);
    const Bandwidth link = host ? gpu.links.pcie_per_direction : gpu.links.nvlink_per_direction;
    if (link > Bandwidth{}) time = std::max(time, w.link / link);
  }
  return time;
}

void predict_op(const Op& op, const Machine& machine, GemmCache& cache, Warmth warmth, OpPrediction& out,
                const PredictOptions& options) {
  const Rates& m = machine.rates();
  const Work w = work(op);
  out.time = Seconds{};
  out.dram_read = out.dram_write = Bytes{};
  out.launch_count = 0;
  out.gemm_plan = GemmPlan{};
  out.attention_plan = AttentionPlan{};
  out.flops = w.flops();
  out.tensor = w.tensor;
  out.math = w.math;
  out.clock = m.clock;
  out.provenance = machine.provenance();
  out.power.reset();
  out.power_low.reset();
  out.power_high.reset();
  out.energy.reset();
  out.chip_energy = out.memory_energy = out.tensor_estimate = Joules{};
  out.band_rows = 0;
  out.band = nullptr;
  if (m.kernels == KernelSet::ideal) return price_ideal(op, w, m, out);
  Pricer pricer(machine, cache, op, w, warmth, options, out);
  std::visit(pricer, op);
  out.family = pricer.family().name;
  out.band_class = pricer.band_class();
  // Borrowed scalars price the library's kernel on this card, so it is that kernel's band.
  out.band_kernels = pricer.family().borrowed ? KernelSet::library : m.kernels;
  if (pricer.family().borrowed) out.provenance = Provenance::inherited;
  out.scalars = &pricer.family();
  if (m.power) {
    set_energies(out, m);
    reprice(out, m, 1);
  }
  conclude(out, machine);
}

void conclude(OpPrediction& out, const Machine& m) {
  set_limiter(out);
  set_band(out, m);
}

}  // namespace plumbline
