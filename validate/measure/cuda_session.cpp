#include "validate/measure/cuda_session.hpp"

#include "arch/units.hpp"
#include "validate/record/known_gpu.hpp"

namespace plumbline {

MeasuringSession describe_session(const Board& board, const std::string& profiler) {
  const Session card = card_session(board);
  MeasuringSession s;
  s.card = card.gpu;
  s.sms = card.sms;
  s.l2_B = card.l2_bytes;
  s.memory_B = card.memory_bytes;
  s.gpu = descriptor_of({card.gpu, card.compute_capability, card.sms, card.memory_bytes * units::B});
  s.driver = card.driver;
  s.toolkit = card.runtime;
  s.profiler = profiler;
  s.date = card.date;
  s.power_limit_W = card.power_limit_W;
  return s;
}

}  // namespace plumbline
