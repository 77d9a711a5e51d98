// Losses of a training iteration on this project's kernels, one graph's launches again and again on one batch, and what another
// program needs to begin at the same place: `tools/compare_losses.py` trains the same model by PyTorch from it.
//
// Llama-3.2-1B's shape (tied embeddings, rope without scaling): weights normal of 0.02, norms 1, random tokens.
// Writes OUT/weights.bf16 (kernels/run/iteration_places.hpp has the order), OUT/tokens.int32, and a line an iteration to stdout.
//
// build, behind `ninja -C build validate-cli`:
//   g++ -std=c++20 -O2 -I. -I/usr/local/cuda/include tools/own_losses.cpp -o own_losses build/libplumbline_kernels.a
//     build/libplumbline_model.a build/libplumbline_ops.a build/libplumbline_arch.a -L/usr/local/cuda/lib64 -lcudart_static
//     -lpthread -ldl -lrt
// usage: own_losses OUT [SEQUENCES LENGTH ITERATIONS RATE]
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "kernels/common/cuda_check.hpp"
#include "kernels/run/iteration.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"

using namespace plumbline;

namespace {

/// The plan of the node that has this operator.
template <class Shape>
const OpPrediction& priced(const StepPrediction& step, const Shape& shape) {
  for (const NodePrediction& node : step.nodes) {
    if (node.node->op == Op(shape)) return node.op;
  }
  throw BadInput("own_losses: the graph has no such product");
}

template <class T>
void write(const std::string& file, const std::vector<T>& values) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
  if (!out) throw BadInput("own_losses: cannot write " + file);
}

void run(const std::string& folder, const TrainingBatch& batch, int iterations, double rate) {
  const Llm llm = load_llm("llama-3.2-1b");
  Workload w;
  w.phase = Phase::train;
  w.batch = batch.sequences;
  w.prompt = batch.length;
  const StepPrediction step = predict(llm, w, machines().get({"h200_sxm", MachineOptions{"own"}}), RunOptions{});
  TrainingPlans plans;
  plans.gemm = [&](const Gemm& s) { return priced(step, s).gemm_plan; };
  plans.attention = [&](const AttentionPrefill& s) { return priced(step, s).attention_plan; };
  plans.backward = [&](const AttentionBackward& s) { return priced(step, s).attention_plan; };
  const TrainedModel model{16, 2048, 32, 8, 64, 8192, 128256, 500000};
  AdamwSettings settings;
  settings.rate = rate;
  TrainingIteration iteration(model, batch, settings, 1.0, plans);
  cudaStream_t stream = nullptr;
  PLUMBLINE_CUDA_CHECK(cudaStreamCreate(&stream));
  iteration.start(0.02F, 1, stream);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(batch.tokens()));
  std::minstd_rand random(1);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random() % static_cast<unsigned>(model.vocabulary));
  iteration.set_tokens(ids, stream);
  std::vector<std::uint16_t> weights(static_cast<std::size_t>(model.parameter_count()));
  PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream));
  PLUMBLINE_CUDA_CHECK(cudaMemcpy(weights.data(), iteration.weights(), weights.size() * 2, cudaMemcpyDeviceToHost));
  write(folder + "/weights.bf16", weights);
  write(folder + "/tokens.int32", ids);
  std::printf("iteration,loss,norm\n");
  for (int i = 0; i < iterations; ++i) {
    float loss = 0, norm = 0;
    iteration.enqueue(stream);
    PLUMBLINE_CUDA_CHECK(cudaStreamSynchronize(stream));
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(&loss, iteration.loss_sum(), sizeof loss, cudaMemcpyDeviceToHost));
    PLUMBLINE_CUDA_CHECK(cudaMemcpy(&norm, iteration.norm(), sizeof norm, cudaMemcpyDeviceToHost));
    std::printf("%d,%.6f,%.6f\n", i, static_cast<double>(loss) / static_cast<double>(iteration.targets()),
                static_cast<double>(norm));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 6) {
    std::fprintf(stderr, "usage: own_losses OUT [SEQUENCES LENGTH ITERATIONS RATE]\n");
    return 2;
  }
  try {
    const bool all = argc == 6;
    run(argv[1], {all ? std::atoll(argv[2]) : 4, all ? std::atoll(argv[3]) : 2048}, all ? std::atoi(argv[4]) : 20,
        all ? std::atof(argv[5]) : 2e-5);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 4;
  }
}
