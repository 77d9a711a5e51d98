// Runners of matrix products and attention, ours and the library's.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "arch/error.hpp"
#include "kernels/attention/attention.hpp"
#include "kernels/gemm/gemm.hpp"
#include "kernels/gemm/library_gemm.hpp"
#include "kernels/run/runner_internal.hpp"
#include "ops/plan/kernel_menu.hpp"
#include "ops/plan/text.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kBf16 = 2, kIndex = 4;

/// Normal values of a type that operands of products have.
Region normal(DType type) {
  return type == DType::fp8 ? Region::normal_fp8 : type == DType::fp16 ? Region::normal_fp16 : Region::normal_bf16;
}

/// x, W and y of one slot, in the types of the product.
struct GemmOperands {
  RunnerLayout layout;
  std::size_t x = 0, w = 0, y = 0;

  explicit GemmOperands(const Gemm& s) {
    const bool fp8 = s.precision.math == DType::fp8;
    const Region in = normal(s.precision.math);
    const std::size_t each = fp8 ? 1 : kBf16;
    x = layout.add(in, bytes_of(each, s.batch, s.m, s.k));
    w = layout.add(in, bytes_of(each, s.batch, s.n, s.k));
    const std::size_t result = s.precision.output == DType::fp32 ? sizeof(float) : kBf16;
    y = layout.add(Region::output, bytes_of(result, s.batch, s.m, s.n));
  }
};

bool has_type(const Gemm& s) {
  return s.precision == *parse_precision("bf16") || s.precision == *parse_precision("fp8") ||
         s.precision == *parse_precision("fp16");
}

/// The product that makes a gradient of weights.
bool gradient_of_weights(const Gemm& s) {
  Precision p = s.precision;
  p.output = DType::bf16;
  return s.precision.output == DType::fp32 && p == *parse_precision("bf16");
}

}  // namespace

Runner make_gemm_runner(const Gemm& s, const GemmPlan& plan, Arena& arena, StreamHandle stream) {
  need((has_type(s) || gradient_of_weights(s)) && !s.bias, "gemm of this type");
  if (const char* refusal = gemm_refusal(s, plan); refusal != nullptr && *refusal != '\0') throw NotModelled(refusal);
  GemmOperands operands(s);
  const std::size_t scratch = operands.layout.add_shared(Region::scratch, gemm_workspace_bytes(s, plan));
  const RunnerLayout& layout = operands.layout;
  Runner r = start_runner(layout, arena, plan_text(plan));
  const Operand x = layout.operand(operands.x, arena, stream), w = layout.operand(operands.w, arena, stream),
                y = layout.operand(operands.y, arena, stream), workspace = layout.operand(scratch, arena, stream);
  // Some designs count arrivals in the workspace and leave it as they found it.
  r.prepare = [=, bytes = gemm_workspace_bytes(s, plan)](std::int64_t, StreamHandle to) {
    if (bytes > 0) clear(workspace.at(0), bytes, to);
  };
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    launch_gemm(s, plan, {x.at(slot), w.at(slot), y.at(slot), workspace.at(0)}, to);
  };
  return r;
}

Runner make_library_runner(const Op& op, Arena& arena, StreamHandle stream) {
  const auto* s = std::get_if<Gemm>(&op);
  if (s == nullptr) throw NotModelled("no library kernel for " + std::string(op_name(op)));
  if (!has_type(*s) || s->bias || s->precision.math == DType::fp16)
    throw NotModelled("no library kernel for gemm of this type");
  GemmOperands operands(*s);
  const std::size_t scratch = operands.layout.add_shared(Region::scratch, kLibraryWorkspace);
  const RunnerLayout& layout = operands.layout;
  const auto gemm = std::make_shared<const LibraryGemm>(*s);
  Runner r = start_runner(layout, arena, gemm->plan());
  const Operand x = layout.operand(operands.x, arena, stream), w = layout.operand(operands.w, arena, stream),
                y = layout.operand(operands.y, arena, stream), workspace = layout.operand(scratch, arena, stream);
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    gemm->launch({x.at(slot), w.at(slot), y.at(slot), workspace.at(0)}, to);
  };
  return r;
}

Runner make_prefill_runner(const AttentionPrefill& s, const AttentionPlan& plan, Arena& arena, StreamHandle stream) {
  need((s.dtype == DType::bf16 || s.dtype == DType::fp16) && s.kv_dtype == s.dtype, "attention_prefill of this type");
  const Region in = normal(s.dtype);
  const std::size_t keys = bytes_of(kBf16, s.batch, s.kv_len, s.kv_heads);
  const std::size_t queries = bytes_of(kBf16, s.batch, s.q_len, s.q_heads);
  const auto width = static_cast<std::size_t>(s.qk_dim), value_width = static_cast<std::size_t>(s.v_dim);
  RunnerLayout layout;
  const std::size_t pieces[4] = {layout.add(in, queries * width), layout.add(in, keys * width),
                                 layout.add(in, keys * value_width), layout.add(Region::output, queries * value_width)};
  Runner r = start_runner(layout, arena, plan_text(plan));
  const Operand q = layout.operand(pieces[0], arena, stream), k = layout.operand(pieces[1], arena, stream),
                v = layout.operand(pieces[2], arena, stream), o = layout.operand(pieces[3], arena, stream);
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    launch_attention_prefill(s, plan, {q.at(slot), k.at(slot), v.at(slot), o.at(slot)}, to);
  };
  return r;
}

/// O and the rows' log-sum-exp are the forward pass's, which runs once.
Runner make_backward_runner(const AttentionBackward& s, const AttentionPlan& plan, Arena& arena, StreamHandle stream) {
  const PrefillVariant* forward = own_prefill_variant(s.qk_dim, s.causal);
  need(s.dtype == DType::bf16 && s.qk_dim == s.v_dim && forward != nullptr, "attention_backward of this type");
  const std::size_t keys = bytes_of(kBf16, s.batch, s.kv_len, s.kv_heads, s.qk_dim);
  const std::size_t queries = bytes_of(kBf16, s.batch, s.q_len, s.q_heads, s.qk_dim);
  RunnerLayout layout;
  const std::size_t pieces[10] = {layout.add(Region::normal_bf16, queries),
                                  layout.add(Region::normal_bf16, keys),
                                  layout.add(Region::normal_bf16, keys),
                                  layout.add(Region::normal_bf16, queries),
                                  layout.add(Region::output, queries),
                                  layout.add(Region::output, bytes_of(sizeof(float), s.batch, s.q_heads, s.q_len)),
                                  layout.add(Region::output, queries),
                                  layout.add(Region::output, keys),
                                  layout.add(Region::output, keys),
                                  layout.add_shared(Region::scratch, backward_workspace_bytes(s))};
  Runner r = start_runner(layout, arena, plan_text(plan));
  std::array<Operand, 10> at;
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = layout.operand(pieces[i], arena, stream);
  const auto buffers = [at](std::int64_t slot) {
    BackwardBuffers b;
    b.q = at[0].at(slot);
    b.k = at[1].at(slot);
    b.v = at[2].at(slot);
    b.d_o = at[3].at(slot);
    b.o = at[4].at(slot);
    b.lse = at[5].as<float>(slot);
    b.dq = at[6].at(slot);
    b.dk = at[7].at(slot);
    b.dv = at[8].at(slot);
    b.workspace = at[9].at(0);
    return b;
  };
  r.prepare = [=](std::int64_t slots, StreamHandle to) {
    for (std::int64_t i = 0; i < slots; ++i) {
      launch_attention_prefill(forward_of(s), {forward->q_tile, forward->kv_tile, 1, 1},
                               {at[0].at(i), at[1].at(i), at[2].at(i), at[4].at(i), at[5].as<float>(i)}, to);
    }
  };
  r.enqueue = [=](std::int64_t slot, StreamHandle to) { launch_attention_backward(s, plan, buffers(slot), to); };
  return r;
}

namespace {

/// Pages in an order as random as a cache's after some hours of service.
std::vector<std::int32_t> shuffled_pages(std::int64_t pages) {
  std::vector<std::int32_t> table(static_cast<std::size_t>(pages));
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), std::minstd_rand(static_cast<unsigned>(pages)));
  return table;
}

}  // namespace

Runner make_decode_runner(const AttentionDecode& s, const AttentionPlan& plan, Arena& arena, StreamHandle stream) {
  need((s.dtype == DType::bf16 || s.dtype == DType::fp16) && s.kv_dtype == s.dtype, "attention_decode of this type");
  const Region in = normal(s.dtype);
  const std::int64_t pages = s.page > 0 ? s.batch * ((s.context + s.page - 1) / s.page) : 0;
  const std::int64_t tokens = s.page > 0 ? pages * s.page : s.batch * s.context;
  const std::size_t key = bytes_of(kBf16, s.kv_heads, s.qk_dim), value = bytes_of(kBf16, s.kv_heads, s.v_dim);
  RunnerLayout layout;
  const std::size_t pieces[6] = {layout.add(in, bytes_of(kBf16, s.batch, s.q_heads, s.qk_dim)),
                                 layout.add(in, bytes_of(key, tokens)),
                                 layout.add(in, bytes_of(value, tokens)),
                                 layout.add(Region::index, bytes_of(kIndex, pages)),
                                 layout.add(Region::output, bytes_of(kBf16, s.batch, s.q_heads, s.v_dim)),
                                 layout.add_shared(Region::scratch, decode_workspace_bytes(s, plan))};
  Runner r = start_runner(layout, arena, plan_text(plan));
  const Operand q = layout.operand(pieces[0], arena, stream), k = layout.operand(pieces[1], arena, stream),
                v = layout.operand(pieces[2], arena, stream), table = layout.operand(pieces[3], arena, stream),
                o = layout.operand(pieces[4], arena, stream), workspace = layout.operand(pieces[5], arena, stream);
  r.prepare = [=, bytes = decode_workspace_bytes(s, plan)](std::int64_t slots, StreamHandle to) {
    if (bytes > 0) clear(workspace.at(0), bytes, to);
    if (pages == 0) return;
    const std::vector<std::int32_t> order = shuffled_pages(pages);
    upload(table.at(0), order.data(), order.size() * kIndex, to);
    for (std::int64_t i = 1; i < slots; ++i) copy_on_device(table.at(i), table.at(0), order.size() * kIndex, to);
  };
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    launch_attention_decode(
        s, plan, {q.at(slot), k.at(slot), v.at(slot), table.as<std::int32_t>(slot), o.at(slot), workspace.at(0)}, to);
  };
  return r;
}

}  // namespace plumbline
