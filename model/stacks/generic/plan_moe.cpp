// The launches, by the source (release 1.3): top-k of the logits (customMoeRoutingKernels.cu); tokens in the order of
// experts (one launch up to 256 tokens, else three: threeStepBuildExpertMapsSortFirstToken()); rows copied there
// (expandInputRowsKernel), in 8 bits if products are; the products' sizes and strides for each expert
// (computeStridesTmaWarpSpecializedKernel); a grouped product; the activation (doActivationKernel), which rounds its result
// where there is one scale; a grouped product; the weighted sum (finalizeMoeRoutingKernel). With a scale for each block of 128 a
// launch before each product rounds its rows, and the products are DeepGEMM's.
//
// The grouped product has the weights on the row side of the instruction (128 or 256 rows) and 16 to 256 tokens on the other;
// the library tries all and keeps the quickest (AutoTuner). On cards before Hopper tiles are those of its kernels for
// cp.async.
//
// vLLM multiplies rows where they are: blocks of sorted row numbers (two launches, moe_align_block_size()) are gathered by the
// product, each of topk rows a token has a place of its own in its result, and all T x topk places are passed over by the
// activation and by the sum, whatever experts are on other ranks; with experts elsewhere the second product's result is
// cleared before (intermediate_cache3.zero_()).
//
// trtllm-gen (tensorrt_llm/kernels/trtllmGenKernels/blockScaleMoe/runner.cu; FlashInfer's copy of it in vLLM): its routing chooses
// and orders in one launch up to 256 tokens, else in three (RoutingRenormalize.cu); the first product gathers its rows and leaves
// the activation, but of scales of 128, which a launch behind it finds; then the second product and the weighted sum.
#include "model/stacks/generic/plan_moe.hpp"

#include <algorithm>
#include <cmath>

#include "model/stacks/common/gemm_block.hpp"
#include "model/stacks/common/make_gemm_task.hpp"
#include "model/stacks/common/plan_groups.hpp"
#include "model/stacks/common/plan_quantize.hpp"
#include "model/stacks/common/plan_stream.hpp"
#include "model/stacks/generic/moe_tiles.hpp"
#include "ops/as_double.hpp"
#include "ops/facts/precision.hpp"

namespace plumbline {
namespace {

/// What one call needs to know.
class MoeCall {
 public:
  MoeCall(const Moe& s, const MoeFamilies& f, MoeLibrary library, const Question& q, Answer& out)
      : s_(s),
        f_(f),
        library_(library),
        q_(q),
        out_(out),
        m_(q.rates),
        load_(expert_rows(s)),
        rows_(load_.total()),
        passed_(rows_) {}

  void answer_as_vllm() {
    triton_ = true;
    const DType plain = s_.precision.output;
    const double hidden = d(s_.hidden), tokens = d(s_.tokens), inner = d(s_.own_width()), gates = d(s_.matrices - 1);
    passed_ = tokens * d(s_.topk);
    const bool narrow = bits(s_.precision.input) <= 8;
    const FamilyScalars& products = this->products();
    out_.sign(products, variant());
    choose_experts(passed_);
    if (narrow) round(tokens, hidden, true);
    constexpr int kLaunchesOfOrder = 2;
    order("blocks of rows", passed_, kLaunchesOfOrder);
    product("grouped gemm, up", gates * inner, hidden, products);
    activate(storage(plain, passed_ * gates * inner), storage(plain, passed_ * inner));
    if (narrow) round(passed_, inner, false);
    if (s_.ep > 1) pass("clear", Bytes{}, storage(plain, passed_ * hidden), false);
    product("grouped gemm, down", hidden, inner, products);
    last_pass(storage(plain, passed_ * hidden), storage(plain, tokens * hidden));
  }

  void answer_as_trtllm_gen() {
    gen_ = true;
    const DType plain = s_.precision.output, in = s_.precision.input;
    const bool narrow = bits(in) <= 8, sums = narrow && s_.block > kMxBlock;
    const double hidden = d(s_.hidden), tokens = d(s_.tokens), inner = d(s_.own_width()), gates = d(s_.matrices - 1);
    const FamilyScalars& products = this->products();
    out_.sign(products, variant());
    if (sums) out_.unmeasured = true;  // what half of the lanes reach is the layout's word alone
    route(tokens);
    if (sums) round(tokens, hidden, true);
    else if (narrow) pass("quantize", storage(plain, tokens * hidden), with_scales(storage(in, tokens * hidden)), true);
    const Bytes left = storage(in, (sums ? gates : 1) * rows_ * inner);
    Demand& up = product("grouped gemm, up", gates * inner, hidden, products);
    up.dram_write = beyond_l2(with_scales(left));
    if (!narrow) gather(up);
    if (sums) activate(left, storage(in, rows_ * inner));
    product("grouped gemm, down", hidden, inner, products);
    last_pass(storage(plain, rows_ * hidden), storage(plain, tokens * hidden));
  }

  void answer() {
    const bool narrow = bits(s_.precision.input) <= 8, blocks = narrow && s_.block > 0;
    const DType plain = s_.precision.output, moved = narrow && !blocks ? s_.precision.input : plain;
    const double hidden = d(s_.hidden), tokens = d(s_.tokens), inner = d(s_.own_width());
    const double gates = d(s_.matrices - 1), seen = std::min(tokens, rows_);
    const Bytes x = storage(plain, seen * hidden), gathered = storage(moved, rows_ * hidden);
    const FamilyScalars& products = blocks && !scales_in_hardware() ? f_.block_products : this->products();
    out_.sign(products, variant());
    choose_experts(tokens * d(s_.topk));
    sort(tokens * d(s_.topk));
    if (narrow && !blocks) pass("quantize", x, storage(moved, seen * hidden), true);
    pass("expand rows", narrow && !blocks ? storage(moved, seen * hidden) : x, gathered, !narrow || blocks);
    if (blocks) round_rows(hidden);
    if (m_.path.multicast) pass("strides", Bytes{}, storage(DType::fp64, 8 * d(s_.experts / s_.ep)), false);
    Demand& up = product("grouped gemm, up", gates * inner, hidden, products);
    if (fuses_activation()) up.dram_write = up.dram_write / gates;
    else activate(storage(plain, rows_ * gates * inner), storage(blocks ? plain : s_.precision.input, rows_ * inner));
    if (blocks) round_rows(inner);
    product("grouped gemm, down", hidden, inner, products);
    last_pass(storage(plain, rows_ * hidden), storage(plain, tokens * hidden));
  }

 private:
  Variant variant() const {
    if (bits(s_.precision.input) > 8) return Variant::usual;
    return Variant::math_8bit;
  }

  /// Weights are unpacked in registers, by mma.sync (csrc/moe/marlin_moe_wna16). On tcgen05 vLLM has kernels that multiply
  /// mxfp4 itself.
  bool by_marlin() const {
    const bool narrow = bits(s_.precision.weight) < 6 && bits(s_.precision.input) > 8;
    return narrow && f_.narrow != nullptr && f_.narrow->on_file && m_.path.kind != TensorPath::Kind::tcgen05;
  }

  void choose_experts(double choices) {
    if (s_.routed != 0) return;
    pass("top-k of the logits", storage(s_.precision.output, d(s_.tokens) * d(s_.experts)),
         storage(DType::fp32, choices), true);
  }

  void activate(Bytes up, Bytes down) {
    const double inner = d(s_.own_width());
    Work activation;
    activation.fp32 = passed_ * inner * (s_.matrices == 3 ? 3 : 2) * units::FLOP;
    activation.sfu = s_.matrices == 3 ? 2 * passed_ * inner : 0;
    add_arithmetic(pass("activation", up, down, false), activation, m_.gpu.sm);
  }

  Bytes beyond_l2(Bytes bytes) const { return bytes > m_.l2_kept ? bytes : Bytes{}; }

  /// What it reads was written by the launch before, unless it is the call's own operand.
  Demand& pass(const char* name, Bytes read, Bytes write, bool operand) {
    const Bytes held = operand ? q_.resident.inputs * read : Bytes{};
    return move(name, read, write, operand ? read - held : beyond_l2(read), beyond_l2(write));
  }
  void last_pass(Bytes read, Bytes write) {
    Work sums;
    sums.fp32 = 2 * passed_ * d(s_.hidden) * units::FLOP;
    Demand& last = move("weighted sum", read, write, beyond_l2(read), (1 - q_.resident.output) * write);
    add_arithmetic(last, sums, m_.gpu.sm);
  }

  Demand& move(const char* name, Bytes read, Bytes write, Bytes from_dram, Bytes to_dram) {
    Work w;
    w.read = read;
    w.write = write;
    Demand d = stream_demand(w, m_, from_dram + to_dram <= Bytes{});
    d.dram_read = from_dram;
    d.dram_write = to_dram;
    return out_.launch(name, f_.rows) = d;
  }

  void round_rows(double cols) {
    Demand& d = out_.launch("quantize", f_.scales);
    d = round_blocks(rows_, cols, s_.precision.output, f_.scales, m_);
    d.dram_read = beyond_l2(storage(s_.precision.output, rows_ * cols));
    d.dram_write = beyond_l2(with_scales(storage(s_.precision.input, rows_ * cols)));
  }

  /// A byte for each 32 values of 8 bits; those of 4 bits have theirs in their type.
  Bytes with_scales(Bytes values) const { return s_.block == kMxBlock ? (1 + 1.0 / kMxBlock) * values : values; }

  /// vLLM's per_token_group_quant_8bit_kernel(): sixteen threads have a block of 128 values, which they keep in shared
  /// memory while they look for the largest, and divide each by its scale. `kBlockClk` of an SM's issue, by 1084 training
  /// rows of vLLM's on H200 and H100 (those of the H200 alone would have 90).
  void round(double rows, double cols, bool operand) {
    constexpr double kBlock = 128, kBlockClk = 80;
    const Bytes read = storage(s_.precision.output, rows * cols), write = storage(s_.precision.input, rows * cols);
    Demand& launched = pass("quantize", read, write, operand);
    if (s_.block == 0) return;
    const double blocks = rows * std::ceil(cols / kBlock);
    launched.issue_clk += kBlockClk * blocks / (static_cast<double>(launched.plan.ctas) * launched.plan.steps);
  }

  /// No launch before wrote the rows that the first product takes: it reads them from memory, once where L2 has room for all.
  void gather(Demand& up) const {
    const DType plain = s_.precision.output;
    if (beyond_l2(storage(plain, rows_ * d(s_.hidden))) > Bytes{}) return;
    const double seen = std::min(d(s_.tokens), rows_);
    up.dram_read += (1 - q_.resident.inputs) * storage(plain, seen * d(s_.hidden));
  }

  void route(double tokens) {
    constexpr int kBehindChoice = 2;
    choose_experts(tokens * d(s_.topk));
    if (tokens > kInOneLaunch) order("order of experts", tokens * d(s_.topk), kBehindChoice);
    else if (s_.routed != 0) order("order of experts", tokens * d(s_.topk), 1);
  }

  static constexpr double kInOneLaunch = 256;
  void sort(double choices) {
    constexpr int kSteps = 3;
    order("order of experts", choices, d(s_.tokens) <= kInOneLaunch ? 1 : kSteps);
  }

  /// The first launch reads the experts that are given.
  void order(const char* name, double choices, int launches) {
    const Bytes moved = choices * 4 * units::B;
    Bytes given = s_.routed != 0 ? 2 * storage(DType::fp32, d(s_.tokens) * d(s_.topk)) : Bytes{};
    for (int i = 0; i < launches; ++i, given = Bytes{})
      move(name, moved + given, moved, (1 - q_.resident.inputs) * given, Bytes{});
  }

  /// DeepGEMM's kernels for tcgen05 hand scales of blocks, as exponents, to the instruction (sm100_fp8_gemm_1d1d.cuh:
  /// kind::mxf8f6f4.block_scale); trtllm-gen's have them in fp32.
  bool scales_in_hardware() const {
    return s_.block == kMxBlock || (m_.path.kind == TensorPath::Kind::tcgen05 && !triton_ && !gen_);
  }

  bool by_mma() const { return m_.path.kind == TensorPath::Kind::mma_sync; }

  bool few_tokens() const { return s_.tokens <= s_.experts / s_.ep; }

  std::span<const GroupTile> first_tile() const {
    switch (m_.path.kind) {
      case TensorPath::Kind::mma_sync: return kFirstByCpAsync;
      case TensorPath::Kind::wgmma: return kFirst;
      case TensorPath::Kind::tcgen05: return kFirstInTensorMemory;
    }
    return kFirst;
  }

  const FamilyScalars& products() const {
    if (triton_ && by_marlin()) return *f_.narrow;
    const FamilyScalars* by_card = by_mma() ? (triton_ ? f_.triton_mma : f_.mma) : (triton_ ? f_.triton : nullptr);
    return by_card != nullptr && by_card->on_file ? *by_card : f_.products;
  }

  /// The first product's tiles leave silu(gate) x up (isFusedGatedActivation()).
  bool fuses_activation() const { return by_mma() && s_.matrices == 3 && bits(s_.precision.input) > 8; }

  std::span<const GroupTile> menu(bool sums, double rows) const {
    constexpr double kManyRows = 64;
    if (triton_ && sums) return kTritonBlocks;
    if (gen_ && sums) return kGenBlocks;
    if (triton_ && by_mma()) return few_tokens() ? std::span<const GroupTile>(kTritonFew) : kTritonMany;
    if (library_ == MoeLibrary::trtllm_first && !sums) return first_tile();
    if (by_mma()) return bits(s_.precision.input) <= 8 ? std::span<const GroupTile>(kByCpAsync8) : kByCpAsync;
    if (!sums) return kWeightsInRows;
    return rows < kManyRows ? std::span<const GroupTile>(kBlockWeights) : kDeepGemmTiles;
  }

  Demand& product(const char* name, double n, double k, const FamilyScalars& family) {
    GemmTask t = gemm_task(GroupedGemm{1, 1, 1, 1, 1, 0, s_.precision}, m_);
    const double touched = std::max(1.0, load_.touched());
    t.batch = touched;
    t.weights_read = 1;
    t.m = rows_ / touched;
    t.n = n;
    t.k = k;
    if (s_.block == kMxBlock) add_scales_of_32(t, s_.precision);
    const bool sums = bits(s_.precision.input) <= 8 && s_.block > 0 && !scales_in_hardware();
    const Bytes weights = t.batch * n * k * t.weight_bytes * units::B, rows = rows_ * k * t.input_bytes * units::B;
    const Bytes held = q_.resident.weights * weights + rows - beyond_l2(rows);
    const bool striped = triton_ && by_marlin();
    if (striped) run_by_mma_sync(t, m_);
    const std::array<GroupTile, 2> blocks = marlin_tiles();
    const auto tiles = striped ? std::span<const GroupTile>(blocks) : menu(sums, t.m);
    const GemmChoice choice =
        plan_groups({t, load_, sums, tiles, held, true, striped, triton_ && !striped}, m_, family, q_.cache);
    Demand& launched = out_.launch(name, family) = choice.main;
    if (!striped) pass_by_elsewhere(launched, n);  // Marlin's blocks of experts elsewhere are left out
    return launched;
  }

  /// Triton's blocks of rows whose experts are elsewhere write zeros (write_zeros_to_output()), a CTA for each 64 columns; an
  /// expert's block has 64 rows at most. `kPassedByClk` of an SM each, by training rows of 8 to 256 ranks on H100 and H200.
  void pass_by_elsewhere(Demand& launched, double n) const {
    constexpr double kRows = 64, kColumns = 64, kPassedByClk = 250;
    const double rows = passed_ - rows_;
    if (rows <= 0) return;
    const double blocks = std::min(rows, std::max(d(s_.experts - s_.experts / s_.ep), rows / kRows));
    launched.dram_write += beyond_l2(storage(s_.precision.output, rows * n));
    launched.serial_latency += blocks * std::ceil(n / kColumns) / m_.sm_count * kPassedByClk / m_.clock;
    launched.serial_latency_of = "to load code and maps, and of blocks of experts elsewhere";
  }

  /// As many rows as an expert of this rank would have of all tokens (fused_marlin_moe()), by 128 or 256 columns.
  std::array<GroupTile, 2> marlin_tiles() const {
    constexpr double kFilled = 0.9;
    const double rows = d(s_.tokens) * d(s_.topk) / d(s_.experts / s_.ep);
    std::int16_t block = 64;
    for (const std::int16_t each : {std::int16_t{48}, std::int16_t{32}, std::int16_t{16}, std::int16_t{8}}) {
      if (rows / static_cast<double>(each) < kFilled) block = each;
    }
    return {{{{block, 256}, false}, {{block, 128}, false}}};
  }

  const Moe& s_;
  const MoeFamilies& f_;
  const MoeLibrary library_;
  const Question& q_;
  Answer& out_;
  const Rates& m_;
  const ExpertRows load_;
  const double rows_;
  double passed_;  ///< rows that the activation and the sum go through
  bool triton_ = false, gen_ = false;
};

/// vLLM's choice (fused_moe/oracle: fp8.py, unquantized.py; flashinfer_cutlass_moe.py): FlashInfer's kernels, which are
/// TensorRT-LLM's, from 9.0 on, but of integers, and of scales of blocks and of narrower weights on mma.sync; on Hopper Triton's of
/// 16 bits, and of scales of blocks where experts are split by tensor ranks alone. `vllm_triton` takes Triton's wherever that
/// multiplies the operands: nothing narrower than 8 bits, no scales of 32 (SGLang, server_args.py: FlashInfer's are what it takes
/// then).
bool by_triton(const Moe& s, MoeLibrary library, const Rates& m) {
  const double width = bits(s.precision.input);
  const DType weight = s.precision.weight;
  if (width < 8 || s.block == kMxBlock) return false;
  if (library == MoeLibrary::vllm_triton || s.precision.input == DType::int8) return true;
  switch (m.path.kind) {
    case TensorPath::Kind::mma_sync:
      return m.gpu.sm.async_copy != AsyncCopy::tma || s.block > 0 || bits(weight) < width;
    case TensorPath::Kind::wgmma: return width > 8 || (s.block > 0 && s.ep == 1);
    case TensorPath::Kind::tcgen05: return width > 8 && (weight == DType::int4 || weight == DType::int8);
  }
  return true;
}

/// TensorRT-LLM has no others for weights of mxfp4 there. (aiconfigurator's collector/trtllm/collect_moe.py runs CUTLASS's for nvfp4
/// and DeepGEMM's for blocks, as are priced of it.)
bool by_trtllm_gen(const Moe& s, MoeLibrary library, const Rates& m) {
  if (m.path.kind != TensorPath::Kind::tcgen05) return false;
  return library == MoeLibrary::vllm || library == MoeLibrary::vllm_triton || s.precision.weight == DType::mxfp4;
}

}  // namespace

void answer_moe(const Moe& s, const MoeFamilies& families, MoeLibrary library, const Question& q, Answer& out) {
  require_matrix_path(s.precision, q);
  if (s.block == kMxBlock) require_scales_of_32(q, out);
  else if (takes_narrow_weights(s.precision, q.rates)) out.unmeasured = true;
  MoeCall call(s, families, library, q, out);
  const bool vllm = library == MoeLibrary::vllm || library == MoeLibrary::vllm_triton;
  if (vllm && by_triton(s, library, q.rates)) call.answer_as_vllm();
  else if (by_trtllm_gen(s, library, q.rates)) call.answer_as_trtllm_gen();
  else call.answer();
}

}  // namespace plumbline
