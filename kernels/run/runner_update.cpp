// Runners of the optimizer's update and of the norms' gradients.
#include "kernels/rows/adamw.hpp"
#include "kernels/run/runner_internal.hpp"
#include "kernels/training/training.hpp"

namespace plumbline {

/// Moments and weights begin at 0, as a first step finds the moments; each launch is one more step over the same slot.
Runner make_adamw_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  const bool wide = s.input == DType::fp32;
  need((wide || s.input == DType::bf16) && s.output == DType::bf16, "adamw of this type");
  const std::size_t values = bytes_of(2, s.rows, s.cols), floats = bytes_of(sizeof(float), s.rows, s.cols);
  RunnerLayout layout;
  const std::size_t pieces[5] = {layout.add(wide ? Region::normal_fp32 : Region::normal_bf16, wide ? floats : values),
                                 layout.add(Region::output, floats), layout.add(Region::output, floats),
                                 layout.add(Region::output, floats), layout.add(Region::output, values)};
  Runner r = start_runner(layout, arena, plan_text(adamw_plan(s)));
  const Operand gradient = layout.operand(pieces[0], arena, stream), first = layout.operand(pieces[1], arena, stream),
                second = layout.operand(pieces[2], arena, stream), master = layout.operand(pieces[3], arena, stream),
                weights = layout.operand(pieces[4], arena, stream);
  r.prepare = [=](std::int64_t slots, StreamHandle to) {
    for (std::int64_t i = 0; i < slots; ++i) {
      for (const Operand& state : {first, second, master}) clear(state.at(i), floats, to);
    }
  };
  r.enqueue = [=](std::int64_t slot, StreamHandle to) {
    if (wide) {
      return launch_adamw_floats(s.rows * s.cols, {},
                                 {gradient.as<float>(slot), first.as<float>(slot), second.as<float>(slot),
                                  master.as<float>(slot), weights.at(slot), nullptr, nullptr},
                                 to);
    }
    launch_adamw(
        s, {},
        {gradient.at(slot), first.as<float>(slot), second.as<float>(slot), master.as<float>(slot), weights.at(slot)},
        to);
  };
  return r;
}

/// Gradients of the norm's weights included, which add up from launch to launch.
Runner make_norm_backward_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  need(s.input == DType::bf16 && s.output == DType::bf16, std::string(name(s.kind)) + " of this type");
  const NormKind kind = s.kind == RowwiseKind::layernorm_backward ? NormKind::layer : NormKind::rms;
  const std::size_t values = bytes_of(2, s.rows, s.cols);
  RunnerLayout layout;
  const std::size_t dy_at = layout.add(Region::normal_bf16, values), x_at = layout.add(Region::normal_bf16, values),
                    passed_at = layout.add(Region::normal_bf16, s.residual ? values : 0),
                    gamma_at = layout.add(Region::normal_bf16, bytes_of(2, s.cols)),
                    dx_at = layout.add(Region::output, values),
                    sums_at = layout.add(Region::scratch, bytes_of(sizeof(float), 2 * s.cols));
  const Rows rows{s.rows, s.cols};
  Runner r = start_runner(layout, arena, plan_text(norm_backward_plan(kind, rows)));
  const auto at = [&](std::size_t which) { return layout.operand(which, arena, stream); };
  r.enqueue = [kind, rows, dy = at(dy_at), x = at(x_at), passed = at(passed_at), gamma = at(gamma_at), dx = at(dx_at),
               sums = at(sums_at)](std::int64_t slot, StreamHandle to) {
    launch_norm_backward(kind, rows,
                         {dy.at(slot), x.at(slot), gamma.at(slot), passed.at(slot), dx.at(slot), sums.as<float>(slot),
                          sums.as<float>(slot) + rows.cols},
                         to);
  };
  return r;
}

}  // namespace plumbline
