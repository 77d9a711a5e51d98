// Runners of the training attention chain: fused forward and backward, and the separate kernels that they replace.
#include "kernels/chain/attention_chain.hpp"
#include "kernels/run/runner_internal.hpp"

namespace plumbline {
namespace {

using K = RowwiseKind;

constexpr std::size_t kBf16 = 2, kFp32 = 4;
/// What BERT trains with: scores over sqrt(64), a tenth dropped.
constexpr float kScale = 0.125F;
constexpr double kDrop = 0.1;

/// What a backward kernel reads that only its forward can write (which elements stayed, the log-sum-exp).
struct ChainOperands {
  Operand x, dy, mask, y, keep_mask, log_sum, residual;

  ChainBuffers of(std::int64_t slot) const {
    return {x.at(slot),         dy.at(slot),      mask.at(slot),    y.at(slot),
            keep_mask.at(slot), log_sum.at(slot), residual.at(slot)};
  }
};

}  // namespace

bool is_chain(RowwiseKind kind) { return is_attention_chain(kind); }

Runner make_chain_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  need(s.input == DType::bf16 && s.output == DType::bf16, std::string(name(s.kind)) + " of this type");
  const bool fused_forward = s.kind == K::scale_mask_softmax_dropout;
  const bool fused_backward = s.kind == K::scale_mask_softmax_dropout_backward;
  const bool fused = fused_forward || fused_backward;
  const bool backward =
      fused_backward || s.kind == K::dropout_backward || s.kind == K::softmax_backward || s.kind == K::rmsnorm_backward;
  const bool choice = s.kind == K::dropout || s.kind == K::dropout_backward;
  const std::size_t n = bytes_of(kBf16, s.rows, s.cols);
  RunnerLayout layout;
  const std::size_t x = layout.add(Region::normal_bf16, s.kind == K::dropout_backward ? 0 : n);
  const std::size_t dy = layout.add(Region::normal_bf16, backward ? n : 0);
  const std::size_t mask = layout.add(
      Region::normal_bf16, fused || s.kind == K::mask || s.kind == K::rmsnorm_backward ? bytes_of(kBf16, s.cols) : 0);
  const std::size_t y = layout.add(Region::output, n);
  const std::size_t keep_mask = layout.add(Region::output, choice ? n / kBf16 : 0);
  const std::size_t log_sum = layout.add(Region::output, fused ? bytes_of(kFp32, s.rows) : 0);
  const std::size_t residual = layout.add(Region::normal_bf16, s.residual ? n : 0);
  Runner r = start_runner(layout, arena, plan_text(attention_chain_plan(s)));
  const auto at = [&](std::size_t which) { return layout.operand(which, arena, stream); };
  const ChainOperands operands{at(x), at(dy), at(mask), at(y), at(keep_mask), at(log_sum), at(residual)};
  const ChainSettings settings{kScale, kDrop, 1, 0};
  if (fused_backward || s.kind == K::dropout_backward) {
    r.prepare = [=](std::int64_t slots, StreamHandle to) {
      Rowwise forward = s;
      forward.kind = fused_backward ? K::scale_mask_softmax_dropout : K::dropout;
      for (std::int64_t i = 0; i < slots; ++i) {
        ChainBuffers buffers = operands.of(i);
        if (buffers.x == nullptr) buffers.x = buffers.dy;  // which elements stay does not depend on their values
        launch_attention_chain(forward, settings, buffers, to);
      }
    };
  }
  r.enqueue = [=](std::int64_t slot, StreamHandle to) { launch_attention_chain(s, settings, operands.of(slot), to); };
  return r;
}

}  // namespace plumbline
