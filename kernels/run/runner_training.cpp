// Runners of what training needs beside norms and the optimizer: gradients of activations and of the embedding, sums of
// columns, losses, the gradients' norm. Sums that are added to go on from launch to launch.
#include "kernels/run/runner_internal.hpp"
#include "kernels/training/training.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kValue = 2, kFloat = sizeof(float), kId = sizeof(std::int32_t);

/// dy f'(x), or of swiglu both gradients.
Runner make_activation_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  const bool gated = s.kind == RowwiseKind::swiglu_backward;
  const std::size_t values = bytes_of(kValue, s.rows, s.cols), wide = gated ? 2 * values : values;
  RunnerLayout layout;
  const std::size_t dy_at = layout.add(Region::normal_bf16, values), x_at = layout.add(Region::normal_bf16, wide),
                    dx_at = layout.add(Region::output, wide);
  Runner r = start_runner(layout, arena, "");
  const Operand dy = layout.operand(dy_at, arena, stream), x = layout.operand(x_at, arena, stream),
                dx = layout.operand(dx_at, arena, stream);
  const RowwiseKind of = s.kind == RowwiseKind::gelu_backward   ? RowwiseKind::gelu
                         : s.kind == RowwiseKind::relu_backward ? RowwiseKind::relu
                                                                : RowwiseKind::silu;
  r.enqueue = [gated, of, rows = Rows{s.rows, s.cols}, dy, x, dx](std::int64_t slot, StreamHandle to) {
    if (gated) return launch_swiglu_backward(rows, dy.at(slot), x.at(slot), dx.at(slot), to);
    launch_activation_backward(of, rows, dy.at(slot), x.at(slot), dx.at(slot), to);
  };
  return r;
}

Runner make_columns_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  RunnerLayout layout;
  const std::size_t dy_at = layout.add(Region::normal_bf16, bytes_of(kValue, s.rows, s.cols)),
                    sums_at = layout.add(Region::scratch, bytes_of(kFloat, s.cols));
  Runner r = start_runner(layout, arena, "");
  r.enqueue = [rows = Rows{s.rows, s.cols}, dy = layout.operand(dy_at, arena, stream),
               sums = layout.operand(sums_at, arena, stream)](std::int64_t slot, StreamHandle to) {
    launch_column_sums(rows, dy.at(slot), sums.as<float>(slot), to);
  };
  return r;
}

/// Forward, backward in a place of its own, or one after the other over the logits. Targets are drawn from all columns;
/// the log-sum-exp that the gradient alone reads is 0. Repeated in one place, it is the gradient's gradient: as many bytes.
Runner make_loss_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  const bool forward = s.kind != RowwiseKind::cross_entropy_backward, backward = s.kind != RowwiseKind::cross_entropy,
             apart = !forward;
  const std::size_t values = bytes_of(kValue, s.rows, s.cols), words = bytes_of(kFloat, s.rows);
  RunnerLayout layout;
  const std::size_t x_at = layout.add(Region::normal_bf16, values),
                    targets_at = layout.add(Region::index, bytes_of(kId, s.rows)),
                    words_at = layout.add(Region::scratch, 2 * words),
                    dx_at = layout.add(Region::output, apart ? values : 0);
  Runner r = start_runner(layout, arena, "");
  const Operand x = layout.operand(x_at, arena, stream), targets = layout.operand(targets_at, arena, stream),
                loss = layout.operand(words_at, arena, stream), dx = layout.operand(dx_at, arena, stream);
  r.prepare = [=](std::int64_t slots, StreamHandle to) {
    for (std::int64_t i = 0; i < slots; ++i) {
      fill_random_ids(targets.as<std::int32_t>(i), s.rows, s.cols, static_cast<std::uint64_t>(i) + 1, to);
      clear(loss.at(i), 2 * words, to);
    }
  };
  r.enqueue = [=, rows = Rows{s.rows, s.cols}](std::int64_t slot, StreamHandle to) {
    const auto* of = targets.as<std::int32_t>(slot);
    float *losses = loss.as<float>(slot), *lse = losses + s.rows;
    if (forward) launch_cross_entropy(rows, x.at(slot), of, losses, lse, to);
    if (backward) launch_cross_entropy_backward(rows, x.at(slot), of, lse, 1.0F, apart ? dx.at(slot) : x.at(slot), to);
  };
  return r;
}

}  // namespace

bool is_training(RowwiseKind kind) {
  switch (kind) {
    case RowwiseKind::silu_backward:
    case RowwiseKind::gelu_backward:
    case RowwiseKind::relu_backward:
    case RowwiseKind::swiglu_backward:
    case RowwiseKind::sum_columns:
    case RowwiseKind::cross_entropy:
    case RowwiseKind::cross_entropy_backward:
    case RowwiseKind::cross_entropy_fused: return true;
    default: return false;
  }
}

Runner make_training_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  need(s.input == DType::bf16 && s.output == DType::bf16, std::string(name(s.kind)) + " of this type");
  switch (s.kind) {
    case RowwiseKind::sum_columns: return make_columns_runner(s, arena, stream);
    case RowwiseKind::cross_entropy:
    case RowwiseKind::cross_entropy_backward:
    case RowwiseKind::cross_entropy_fused: return make_loss_runner(s, arena, stream);
    default: return make_activation_runner(s, arena, stream);
  }
}

/// Ids are uniform over `table` rows; where none are given, over a table of about 2 GB.
Runner make_scatter_runner(const EmbeddingBackward& s, Arena& arena, StreamHandle stream) {
  need(s.dtype == DType::bf16, "embedding_backward of this type");
  const std::size_t row = bytes_of(kFloat, s.cols);
  const std::int64_t rows = s.table > 0 ? s.table : static_cast<std::int64_t>((std::size_t{2} << 30) / row);
  need(rows > 0, "embedding rows of this width");
  RunnerLayout layout;
  const std::size_t table_at = layout.add_shared(Region::scratch, bytes_of(row, rows)),
                    ids_at = layout.add(Region::index, bytes_of(kId, s.rows)),
                    dy_at = layout.add(Region::normal_bf16, bytes_of(kValue, s.rows, s.cols));
  Runner r = start_runner(layout, arena, "");
  const Operand table = layout.operand(table_at, arena, stream), ids = layout.operand(ids_at, arena, stream),
                dy = layout.operand(dy_at, arena, stream);
  r.prepare = [=](std::int64_t slots, StreamHandle to) {
    clear(table.at(0), bytes_of(row, rows), to);
    for (std::int64_t i = 0; i < slots; ++i) {
      fill_random_ids(ids.as<std::int32_t>(i), s.rows, rows, static_cast<std::uint64_t>(i) + 1, to);
    }
  };
  r.enqueue = [=, shape = Rows{s.rows, s.cols}](std::int64_t slot, StreamHandle to) {
    launch_embedding_backward(shape, dy.at(slot), ids.as<std::int32_t>(slot), table.as<float>(0), to);
  };
  return r;
}

Runner make_norm_all_runner(const Scan& s, Arena& arena, StreamHandle stream) {
  need(s.dtype == DType::fp32, "norm_all of " + std::string(name(s.dtype)));
  RunnerLayout layout;
  const std::size_t x_at = layout.add(Region::normal_fp32, bytes_of(kFloat, s.n)),
                    out_at = layout.add(Region::output, 2 * kFloat),
                    scratch_at = layout.add_shared(Region::scratch, gradient_norm_scratch_bytes());
  Runner r = start_runner(layout, arena, "");
  const Operand x = layout.operand(x_at, arena, stream), out = layout.operand(out_at, arena, stream),
                scratch = layout.operand(scratch_at, arena, stream);
  r.prepare = [=](std::int64_t, StreamHandle to) { clear(scratch.at(0), gradient_norm_scratch_bytes(), to); };
  r.enqueue = [=, n = s.n](std::int64_t slot, StreamHandle to) {
    launch_gradient_norm(x.as<float>(slot), n, 1.0, out.as<float>(slot), scratch.at(0), to);
  };
  return r;
}

}  // namespace plumbline
