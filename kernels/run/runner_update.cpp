// Runner of the optimizer's update.
#include "kernels/rows/adamw.hpp"
#include "kernels/run/runner_internal.hpp"

namespace plumbline {

/// Moments and weights begin at 0, as a first step finds the moments; each launch is one more step over the same slot.
Runner make_adamw_runner(const Rowwise& s, Arena& arena, StreamHandle stream) {
  need(s.input == DType::bf16 && s.output == DType::bf16, "adamw of this type");
  const std::size_t values = bytes_of(2, s.rows, s.cols), floats = bytes_of(sizeof(float), s.rows, s.cols);
  RunnerLayout layout;
  const std::size_t pieces[5] = {layout.add(Region::normal_bf16, values), layout.add(Region::output, floats),
                                 layout.add(Region::output, floats), layout.add(Region::output, floats),
                                 layout.add(Region::output, values)};
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
    launch_adamw(
        s, {},
        {gradient.at(slot), first.as<float>(slot), second.as<float>(slot), master.as<float>(slot), weights.at(slot)},
        to);
  };
  return r;
}

}  // namespace plumbline
