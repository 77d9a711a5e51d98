#include "kernels/run/runner.hpp"

#include <array>
#include <utility>

#include "arch/error.hpp"
#include "kernels/run/runner_internal.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kFp8 = 1, kBf16 = 2, kFp32 = 4, kIndex = 4;
constexpr float kRopeBase = 10000;
constexpr std::int64_t kPositions = 8192;  // tokens of a sequence before positions start again

std::string word(const char* key, std::int64_t value) { return std::string(key) + std::to_string(value); }

Runner make_rowwise_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  using K = RowwiseKind;
  const bool quantize = s.kind == K::quantize;
  const bool narrow = s.input == DType::bf16 || s.input == DType::fp16;
  need(narrow && s.output == (quantize ? DType::fp8 : s.input), std::string(name(s.kind)) + " of this type");
  const Region normal = s.input == DType::fp16 ? Region::normal_fp16 : Region::normal_bf16;
  const bool norm = s.kind == K::layernorm || s.kind == K::rmsnorm;
  const std::size_t n = bytes_of(kBf16, s.rows, s.cols), row = bytes_of(kBf16, s.cols);
  std::size_t result = n;
  if (s.kind == K::sum_rows) result = bytes_of(kBf16, s.rows);
  if (s.kind == K::argmax) result = bytes_of(kIndex, s.rows);
  if (quantize) result = bytes_of(kFp8, s.rows, s.cols);
  RunnerLayout layout;
  const std::size_t x = layout.add(normal, s.kind == K::swiglu ? 2 * n : n);
  const std::size_t second = layout.add(normal, s.residual || s.kind == K::add ? n : 0);
  const std::size_t weight = layout.add(normal, norm ? row : 0);
  const std::size_t bias = layout.add(normal, s.kind == K::layernorm ? row : 0);
  const std::size_t y = layout.add(Region::output, result);
  const std::size_t sum = layout.add(Region::output, s.residual ? n : 0);
  const std::size_t scale = layout.add(Region::output, quantize ? bytes_of(kFp32, s.rows) : 0);
  Runner r = start_runner(layout, arena, plan_text(rowwise_plan(s)));
  const auto at = [&](std::size_t which) { return layout.operand(which, arena, stream); };
  r.enqueue = [s, x = at(x), second = at(second), weight = at(weight), bias = at(bias), y = at(y), sum = at(sum),
               scale = at(scale)](std::int64_t slot, StreamHandle to) {
    RowwiseBuffers b;
    b.x = x.at(slot);
    b.second = second.at(slot);
    b.weight = weight.at(slot);
    b.bias = bias.at(slot);
    b.y = y.at(slot);
    b.sum = sum.at(slot);
    b.scale = scale.as<float>(slot);
    launch_rowwise(s, b, to);
  };
  return r;
}

/// In place: a rotation leaves standard normal pairs standard normal.
Runner make_rope_runner(const Rope& s, Arena& arena, StreamHandle stream) {
  need(s.dtype == DType::bf16 || s.dtype == DType::fp16, "rope of this type");
  RunnerLayout layout;
  const std::size_t x = layout.add(s.dtype == DType::fp16 ? Region::normal_fp16 : Region::normal_bf16,
                                   bytes_of(kBf16, s.tokens, s.heads, s.head_dim));
  const std::size_t positions = layout.add(Region::index, bytes_of(kIndex, s.tokens));
  const std::size_t frequency = layout.add(Region::index, bytes_of(kFp32, s.head_dim / 2));
  Runner r = start_runner(layout, arena, "");
  const Operand data = layout.operand(x, arena, stream), where = layout.operand(positions, arena, stream),
                turn = layout.operand(frequency, arena, stream);
  r.prepare = [=](std::int64_t slots, StreamHandle to) {
    for (std::int64_t i = 0; i < slots; ++i) {
      fill_counting(where.as<std::int32_t>(i), s.tokens, kPositions, to);
      fill_inverse_frequency(turn.as<float>(i), s.head_dim, kRopeBase, to);
    }
  };
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    launch_rope(s, data.at(slot), where.as<std::int32_t>(slot), turn.as<float>(slot), to);
  };
  return r;
}

/// Ids are uniform over a table of about 2 GB: of a vocabulary's size, and far above the L2.
Runner make_embedding_runner(const Embedding& s, Arena& arena, StreamHandle stream) {
  need(s.dtype == DType::bf16 || s.dtype == DType::fp16, "embedding of this type");
  const std::size_t row = bytes_of(kBf16, s.cols), table_bytes = std::size_t{2} << 30;
  RunnerLayout layout;
  const std::size_t table = layout.add_shared(Region::normal_bf16, table_bytes / row * row);
  const std::size_t ids = layout.add(Region::index, bytes_of(kIndex, s.rows));
  const std::size_t y = layout.add(Region::output, bytes_of(kBf16, s.rows, s.cols));
  Runner r = start_runner(layout, arena, "");
  const Operand from = layout.operand(table, arena, stream), which = layout.operand(ids, arena, stream),
                to_rows = layout.operand(y, arena, stream);
  const auto vocabulary = static_cast<std::int64_t>(table_bytes / row);
  need(vocabulary > 0, "embedding rows of this width");
  r.prepare = [=](std::int64_t slots, StreamHandle to) {
    for (std::int64_t i = 0; i < slots; ++i) {
      fill_random_ids(which.as<std::int32_t>(i), s.rows, vocabulary, static_cast<std::uint64_t>(i) + 1, to);
    }
  };
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    launch_embedding(s, from.at(slot), which.as<std::int32_t>(slot), to_rows.at(slot), to);
  };
  return r;
}

std::size_t scan_workspace_bytes(const Scan& s) {
  return s.kind == ScanKind::cumsum ? cumsum_workspace_bytes(s) : sum_all_scratch_bytes();
}

void launch_scan(const Scan& s, const void* x, void* y, void* workspace, StreamHandle stream) {
  if (s.kind == ScanKind::sum_all) {
    launch_sum_all(s, x, static_cast<float*>(y), workspace, stream);
  } else {
    launch_cumsum(s, x, y, workspace, stream);
  }
}

Runner make_scan_runner(const Scan& s, Arena& arena, StreamHandle stream) {
  need(s.dtype == DType::bf16 || s.dtype == DType::fp32,
       std::string(name(s.kind)) + " of " + std::string(name(s.dtype)));
  const bool wide = s.dtype == DType::fp32;
  const std::size_t n = bytes_of(wide ? kFp32 : kBf16, s.n), bytes = scan_workspace_bytes(s);
  RunnerLayout layout;
  const std::size_t x = layout.add(wide ? Region::normal_fp32 : Region::normal_bf16, n);
  const std::size_t y = layout.add(Region::output, s.kind == ScanKind::sum_all ? kFp32 : n);
  const std::size_t scratch = layout.add_shared(Region::scratch, bytes);
  Runner r = start_runner(layout, arena, plan_text(scan_plan(s)));
  const Operand in = layout.operand(x, arena, stream), out = layout.operand(y, arena, stream),
                workspace = layout.operand(scratch, arena, stream);
  r.prepare = [=](std::int64_t, StreamHandle to) { clear(workspace.at(0), bytes, to); };
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    launch_scan(s, in.at(slot), out.at(slot), workspace.at(0), to);
  };
  return r;
}

/// Values and indices of the k largest, of the rows or of their softmax.
template <class Shape, class Launch>
Runner make_topk_runner(const Shape& s, const KernelPlan& plan, Launch launch, Arena& arena, StreamHandle stream) {
  RunnerLayout layout;
  const std::size_t x = layout.add(Region::normal_bf16, bytes_of(kBf16, s.rows, s.cols));
  const std::size_t values = layout.add(Region::output, bytes_of(kBf16, s.rows, s.k));
  const std::size_t indices = layout.add(Region::output, bytes_of(kIndex, s.rows, s.k));
  Runner r = start_runner(layout, arena, plan_text(plan));
  r.enqueue = [=, from = layout.operand(x, arena, stream), largest = layout.operand(values, arena, stream),
               where = layout.operand(indices, arena, stream)](std::int64_t slot, StreamHandle to) {
    launch(s, from.at(slot), largest.at(slot), where.template as<std::int32_t>(slot), to);
  };
  return r;
}

/// One overload an operator that has a kernel.
struct Maker {
  const RunnerPlans& plans;
  Arena& arena;
  StreamHandle stream;

  Runner operator()(const Gemm& s) const { return make_gemm_runner(s, plans.gemm, arena, stream); }
  Runner operator()(const AttentionPrefill& s) const { return make_prefill_runner(s, plans.attention, arena, stream); }
  Runner operator()(const AttentionDecode& s) const { return make_decode_runner(s, plans.attention, arena, stream); }
  Runner operator()(const AttentionBackward& s) const {
    return make_backward_runner(s, plans.attention, arena, stream);
  }
  Runner operator()(const Rowwise& s) const {
    if (s.kind == RowwiseKind::adamw) return make_adamw_runner(s, arena, stream);
    if (is_norm_backward(s.kind)) return make_norm_backward_runner(s, arena, stream);
    if (is_training(s.kind)) return make_training_runner(s, arena, stream);
    return is_chain(s.kind) ? make_chain_runner(s, arena, stream) : make_rowwise_runner(s, arena, stream);
  }
  Runner operator()(const Rope& s) const { return make_rope_runner(s, arena, stream); }
  Runner operator()(const Embedding& s) const { return make_embedding_runner(s, arena, stream); }
  Runner operator()(const EmbeddingBackward& s) const { return make_scatter_runner(s, arena, stream); }
  Runner operator()(const Scan& s) const {
    return s.kind == ScanKind::norm_all ? make_norm_all_runner(s, arena, stream) : make_scan_runner(s, arena, stream);
  }
  Runner operator()(const TopK& s) const {
    need(s.dtype == DType::bf16, "topk of this type");
    return make_topk_runner(s, topk_plan(s), launch_topk, arena, stream);
  }
  Runner operator()(const SoftmaxTopK& s) const {
    need(s.dtype == DType::bf16, "softmax_topk of this type");
    return make_topk_runner(s, softmax_topk_plan(s), launch_softmax_topk, arena, stream);
  }
  template <class Other>
  Runner operator()(const Other& s) const {
    throw NotModelled("no kernel of ours for " + std::string(op_name(s)));
  }
};

}  // namespace

Runner make_own_runner(const Op& op, const RunnerPlans& plans, Arena& arena, StreamHandle stream) {
  return std::visit(Maker{plans, arena, stream}, op);
}

void need(bool good, const std::string& what) {
  if (!good) throw NotModelled("no kernel of ours for " + what);
}

Runner start_runner(const RunnerLayout& layout, const Arena& arena, std::string plan) {
  Runner r;
  r.plan = std::move(plan);
  r.slot_bytes = layout.slot_bytes();
  std::array<std::size_t, kRegions> room{};
  for (std::size_t i = 0; i < kRegions; ++i) room[i] = arena.bytes(static_cast<Region>(i));
  r.max_slots = layout.max_slots(room);
  r.prepare = [](std::int64_t, StreamHandle) {};
  return r;
}

std::string plan_text(const KernelPlan& plan) {
  std::string text = word("ctas=", plan.ctas) + word(" threads=", plan.threads);
  if (plan.cluster > 1) text += word(" cluster=", plan.cluster);
  return text;
}

// Here and not beside the rest of the layout, which is tested where there is no device memory.
Operand RunnerLayout::operand(std::size_t which, Arena& arena, StreamHandle stream) const {
  const Place at = place(which);
  if (at.bytes == 0) return {};
  return {arena.data(at.region, stream) + at.offset, at.stride};
}

}  // namespace plumbline
