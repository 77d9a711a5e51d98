#include "validate/measure/cuda_launch_once.hpp"

#include <cuda_runtime_api.h>

#include "arch/error.hpp"
#include "kernels/common/cuda_check.hpp"
#include "kernels/run/arena.hpp"
#include "kernels/run/case_marker.hpp"
#include "kernels/run/runner.hpp"
#include "model/predict.hpp"
#include "validate/measure/cuda_card.hpp"
#include "validate/measure/cuda_session.hpp"
#include "validate/record/study.hpp"

namespace plumbline {
namespace {

void launch(const StudyCase& what, int number, const Machine& machine, Arena& arena, StreamHandle stream) {
  const OpPrediction priced = predict(what.op, machine);
  arena.hold(what.data, stream);
  const Runner runner = make_own_runner(what.op, {priced.gemm_plan, priced.attention_plan}, arena, stream);
  if (runner.prepare) runner.prepare(1, stream);
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
  mark_case(number, stream);
  runner.enqueue(0, stream);
  end_case(stream);
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

}  // namespace

std::vector<LaunchedOnce> launch_once(const std::vector<StudyCase>& cases) {
  const Board board(select_card());
  const MeasuringSession session = describe_session(board, "");
  const auto machine = make_machine(load_gpu(session.gpu), MachineOptions{"own"});
  cudaStream_t stream = nullptr;
  PLUMBLINE_CUDA_CHECK(cudaStreamCreate(&stream));
  Arena arena;
  std::vector<LaunchedOnce> out;
  for (const StudyCase& what : cases) {
    LaunchedOnce& one = out.emplace_back();
    one.text = case_text(what);
    try {
      launch(what, static_cast<int>(out.size()) - 1, machine, arena, stream);
    } catch (const NotModelled& refusal) {
      one.fault = refusal.what();
    }
  }
  PLUMBLINE_CUDA_CHECK(cudaStreamDestroy(stream));
  return out;
}

}  // namespace plumbline
