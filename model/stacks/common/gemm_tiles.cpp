#include "model/stacks/common/gemm_tiles.hpp"

#include <algorithm>

namespace plumbline::gemm {

namespace {

/// Of an operand whose rows are so long.
RowStarts starts_of_rows(double bytes) {
  constexpr std::int64_t kLine = 128, kSector = 32, kAccess = 64;
  const std::int64_t aligned = std::gcd(static_cast<std::int64_t>(bytes), kLine);
  const double inside = aligned >= kAccess ? 0 : 1 - static_cast<double>(aligned) / kAccess;
  return {2.0 - static_cast<double>(aligned) / kLine, aligned >= kSector, inside};
}

}  // namespace

RowStarts row_starts(const GemmTask& t) {
  const RowStarts inputs = starts_of_rows(t.k * bytes_in_row(t.input_bytes));
  if (!t.weights_kn) return inputs;
  // rows of the weights are N long: of what is loaded, weights are as much as their share of the operands' bytes
  const RowStarts weights = starts_of_rows(t.n * bytes_in_row(t.weight_bytes));
  const double x = t.m * t.input_bytes, w = t.n * t.weight_bytes, share = w / (x + w);
  return {inputs.lines + share * (weights.lines - inputs.lines), inputs.whole_sectors && weights.whole_sectors,
          inputs.inside + share * (weights.inside - inputs.inside)};
}

Context::Context(const GemmTask& t, const Rates& m, const FamilyScalars& f, const FamilyScalars& r, const TensorPath& p,
                 const RowStarts& s)
    : task(t), rates(m), family(f), reduce(r), path(p), starts(s) {
  a_bytes = t.m * t.k * t.input_bytes;
  w_bytes = t.n * t.k * t.weight_bytes * t.weight_kept * t.weights_read;
  out_bytes = t.m * t.n * t.output_bytes;
  smem = m.gpu.sm.smem.in(units::B);
  smem_port = m.gpu.sm.smem_bytes_per_clk.in(units::B);
  l2_port = m.gpu.sm.l2_bytes_per_clk.in(units::B);
  clk = 1.0 / (m.clock * (1 - family.skipped_cycles));
}

TileCosts tile_costs(const Context& c, Tile tile, double tile_k, bool swapped) {
  const GemmTask& task = c.task;
  TileCosts e;
  e.tile = tile;
  e.swapped = swapped;
  e.tile_m = swapped ? tile.cols : tile.rows;
  e.tile_n = swapped ? tile.rows : tile.cols;
  e.tile_k = tile_k;
  e.a = e.tile_m * tile_k * task.input_bytes;
  e.w = e.tile_n * tile_k * task.weight_bytes * task.weight_kept;
  // mma.sync takes operands from registers, so that weights stay packed in shared memory and each tile unpacks what it reads;
  // elsewhere unpacked weights take the activations' width there, whether lanes unpacked them or a copy did
  const bool in_registers = c.path.kind == TensorPath::Kind::mma_sync;
  const double weights = e.tile_n * tile_k;
  const bool by_copies = !in_registers && task.dequant_per_weight <= 0 && task.weight_bytes < task.input_bytes;
  const bool unpacked = by_copies || (!in_registers && task.dequant_per_weight > 0);
  const double w_smem = unpacked ? weights * task.input_bytes : e.w;
  const double row_side = swapped ? w_smem : e.a;
  const double col_side = swapped ? e.a : w_smem;
  e.tensor_clk = 2.0 * e.tile_m * e.tile_n * tile_k / task.tensor_flop_per_clk;
  const StreamingMultiprocessor& sm = c.rates.gpu.sm;
  if (in_registers)
    e.issue_clk = task.slots_per_weight * weights / static_cast<double>(sm.warp_size) / sm.issue_per_clk;
  else e.fp32_clk = task.dequant_per_weight * weights / (0.5 * sm.fp32_flop_per_clk);
  e.smem_clk = (c.path.operand_reads(tile.rows, tile.cols, row_side, col_side) + row_side + col_side) / c.smem_port;
  e.once_clk = c.family.exposed * e.tile_m * e.tile_n * task.output_bytes / c.l2_port;
  e.stage_bytes = e.a + (by_copies ? w_smem : e.w);
  return e;
}

TileLayout::TileLayout(const Context& c, const TileCosts& e)
    : costs(&e), smem_clk(e.smem_clk), step_latency(e.step_latency) {
  tiles_m = std::ceil(c.task.m / e.tile_m);
  tiles_n = std::ceil(c.task.n / e.tile_n);
  tiles = tiles_m * tiles_n * c.task.batch;
  k_steps = std::ceil(c.task.k / e.tile_k);
  l2_bytes = e.a + e.w;
}

void TileLayout::fill_clusters(const Context& c) {
  double& rows = costs->swapped ? tiles_n : tiles_m;
  rows = std::ceil(rows / costs->cluster) * costs->cluster;
  tiles = tiles_m * tiles_n * c.task.batch;
}

void share_by_pair(TileLayout& t, const Context& c) {
  const TileCosts& e = *t.costs;
  t.l2_bytes -= 0.5 * e.col_side();
  t.smem_clk -=
      0.5 * (c.path.operand_reads(e.tile.rows, e.tile.cols, 0, e.col_side()) + kFillShare * e.col_side()) / c.smem_port;
}

WorkSplit tiled(const TileLayout& layout, double splits) {
  WorkSplit s;
  s.splits = splits;
  s.ctas = layout.tiles * splits;
  s.steps = std::ceil(layout.k_steps / splits);
  s.serial_clk = layout.costs->serial_clk;
  s.once_clk = layout.costs->once_clk;
  s.second_launch = splits > 1;
  return s;
}

bool worth_splitting(const TileLayout& layout, const Rates& m, double splits) {
  return layout.tiles / m.sm_count * splits <= 2 && layout.k_steps >= 2 * splits;
}

double ctas_at_once(const Context& c, const TileLayout& layout, const WorkSplit& split) {
  return std::min(split.ctas, c.rates.sm_count * layout.costs->resident);
}

namespace {

/// Panels of A and B that cross the DRAM interface, given how many tiles run at a time. CTAs walk in super-rows of
/// about the square root of the concurrent tiles; the operand that is swept again for each super-row is re-read unless
/// it fits in L2 beside the other's panel (docs/sources.md: matrix products). Of operands that L2 does not
/// hold together.
double dram_panels(const Context& c, const TileLayout& layout, double concurrent) {
  const double a = c.a_bytes, b = c.w_bytes, l2_capacity = c.rates.l2_capacity.in(units::B);
  const double tile_ratio = layout.costs->tile_n / layout.costs->tile_m;
  const double rows = std::clamp(std::round(std::sqrt(concurrent * tile_ratio)), 1.0, layout.tiles_m);
  const double cols = std::clamp(std::round(concurrent / rows), 1.0, layout.tiles_n);
  const double a_panel = a * rows / layout.tiles_m;
  const double b_panel = b * cols / layout.tiles_n;
  const double sweep_b = a + (b + a_panel <= l2_capacity ? b : b * std::ceil(layout.tiles_m / rows));
  const double sweep_a = b + (a + b_panel <= l2_capacity ? a : a * std::ceil(layout.tiles_n / cols));
  return std::min(sweep_a, sweep_b);
}

}  // namespace

Demand launch_demand(const Context& c, const TileLayout& layout, const WorkSplit& split, Traffic traffic,
                     double twice) {
  const TileCosts& e = *layout.costs;
  const GemmTask& task = c.task;
  Demand d;
  d.plan.ctas = static_cast<std::int64_t>(split.ctas);
  d.plan.ctas_per_sm = static_cast<std::int64_t>(e.resident);
  d.plan.cluster = static_cast<std::int64_t>(e.cluster);
  d.plan.persistent = e.persistent;
  d.plan.threads = c.path.threads(e.tile.rows);
  d.plan.shared_memory = e.stages * e.stage_bytes * units::B;
  d.plan.steps = d.plan.longest = split.steps;
  d.tensor_clk = e.tensor_clk;
  d.fp32_clk = e.fp32_clk;
  d.issue_clk = e.issue_clk;
  d.smem_clk = layout.smem_clk + layout.pieces_clk;
  d.pieces_clk = layout.pieces_clk;
  d.edge_fill_clk = layout.edge_fill_clk;
  d.port_fill_clk = layout.port_fill_clk;
  d.outside_clk = layout.outside_clk;
  d.once_clk = split.once_clk;
  d.serial_clk = split.serial_clk;
  d.l2 = layout.l2_bytes * units::B;
  d.delivered = layout.delivered * units::B;
  if (!split.second_launch) {
    // the result's own way: into shared memory, out of it, through L2
    const double out = task.batch * c.out_bytes / (split.ctas * split.steps);
    d.l2_hidden = out * units::B;
    d.smem_hidden_clk = 2 * out / c.smem_port;
  }
  d.step_latency = layout.step_latency;
  d.polls = c.path.kind != TensorPath::Kind::mma_sync;
  d.in_flight = e.stages * e.stage_bytes * units::B;
  double panels = c.a_bytes + c.w_bytes;
  if (traffic == Traffic::counted && panels > c.rates.l2_capacity.in(units::B)) {
    const double at_once = ctas_at_once(c, layout, split);
    panels =
        dram_panels(c, layout, std::max(1.0, at_once / std::max(1.0, split.splits) / std::min(task.batch, at_once)));
  }
  d.dram_read = task.batch * (panels * (1 + twice) + task.bias_bytes) * units::B;
  d.dram_write = split.second_launch ? Bytes{} : task.batch * c.out_bytes * units::B;
  return d;
}

GemmPlan plan_of(const TileLayout& layout, const WorkSplit& split) {
  const TileCosts& e = *layout.costs;
  GemmPlan plan;
  plan.tile_m = static_cast<std::int64_t>(e.tile_m);
  plan.tile_n = static_cast<std::int64_t>(e.tile_n);
  plan.tile_k = static_cast<std::int64_t>(e.tile_k);
  plan.stages = static_cast<std::int64_t>(e.stages);
  plan.splits = static_cast<std::int64_t>(split.splits);
  plan.swapped = e.swapped;
  return plan;
}

Demand reduction_demand(const GemmTask& t, const Rates& m, double splits) {
  constexpr double kFp32Bytes = 4, kElementsPerCta = 1024;
  Demand d;
  const double elements = t.batch * t.m * t.n;
  d.plan.ctas = static_cast<std::int64_t>(std::ceil(elements / kElementsPerCta));
  d.plan.ctas_per_sm = 8;
  d.plan.threads = 256;
  d.l2 = 2.0 * std::min(elements, kElementsPerCta) * splits * kFp32Bytes * units::B;  // written by the first, read here
  const Bytes spill = elements * splits * kFp32Bytes * units::B;
  if (spill > m.l2_capacity) d.partials = d.dram_read = d.dram_write = spill;
  d.dram_write += elements * t.output_bytes * units::B;
  d.step_latency = m.l2_latency;
  return d;
}

}  // namespace plumbline::gemm
