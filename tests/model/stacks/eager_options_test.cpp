// What options of eager training make of the launches of hf-sdpa: autocast of encoders, fp32 with shared key heads, the type of
// experts' weights, the host; counts and bytes as traced (data/measurements/h200/pytorch_training).
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <string_view>

#include "arch/dtype.hpp"
#include "arch/error.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "model/stacks/stack.hpp"
#include "ops/memory/memory.hpp"
#include "ops/table/text.hpp"
#include "tests/support/eager_training.hpp"
#include "tests/support/places.hpp"

namespace plumbline::eager_options_test {
namespace {

Machine h200(const char* host = "") {
  MachineOptions options{"hf-sdpa"};
  options.stack.host = host;
  return machines().get({"h200_sxm", options});
}

Workload training(std::int64_t batch, std::int64_t prompt, const char* type = "") {
  Workload w = testing_support::training(batch, prompt);
  if (*type != 0) {
    w.precision_given = true;
    w.precision = *parse_precision(type);
  }
  return w;
}

std::map<std::string, double> executions(const std::string& model, const Workload& w) {
  return testing_support::executions(predict(load_llm(model), w, h200(), RunOptions{Runtime::eager}));
}

double ending(const std::map<std::string, double>& found, std::string_view end) {
  double sum = 0;
  for (const auto& [name, times] : found) sum += name.ends_with(end) ? times : 0;
  return sum;
}

/// Launches of torch.optim's loops as the dispatcher and traces of an H200 have them (data/measurements/h200/pytorch_training,
/// optimizers.traces): of llama-3.2-1b 113 matrices with the embedding, 112 without, of which 32 have more rows than columns,
/// and 33 norms.
TEST(EagerOptions, AdafactorAndMuonGoThroughTensors) {
  Workload w = training(2, 1024);
  w.training.optimizer = Optimizer::adafactor;
  const auto factors = executions("llama-3.2-1b", w);
  EXPECT_EQ(factors.at("adafactor_matrix.estimate"), 113);
  EXPECT_EQ(factors.at("adafactor_matrix.over_mean"), 113);
  EXPECT_EQ(factors.at("adafactor_vector.lerp"), 33);
  EXPECT_EQ(ending(factors, ".read_weights") + ending(factors, ".read_update"), 292);
  w.training.optimizer = Optimizer::muon;
  const auto turned = executions("llama-3.2-1b", w);
  EXPECT_EQ(turned.at("muon_matrix.gram"), 5 * 112);
  EXPECT_EQ(turned.at("muon_matrix.square") + turned.at("muon_matrix.product"), 10 * 112);
  EXPECT_EQ(turned.at("muon_matrix.copy") + turned.at("muon_matrix.copy_gram"), 1088);
  EXPECT_EQ(turned.at("muon_matrix.copy_turned"), 32);
  EXPECT_EQ(turned.at("muon_matrix.step") + turned.at("muon_matrix.step_turned"), 112);
  EXPECT_EQ(turned.at("adamw.step_table"), 12) << "of the embedding; norms and its rest have a launch";
  EXPECT_EQ(turned.at("adamw.step_first_of_few"), 1);
}

/// Once an iteration, however many micro-batches it has.
TEST(EagerOptions, LoopsRunOnceForAllMicroBatches) {
  Workload w = training(4, 512);
  w.training.micro_batch = 2;
  w.training.optimizer = Optimizer::muon;
  const auto found = executions("llama-3.2-1b", w);
  EXPECT_EQ(found.at("muon_matrix.gram"), 5 * 112);
  EXPECT_EQ(found.at("muon_matrix.accumulate"), 112);
}

/// On a host that takes a millisecond for the narrow launch each call of a loop takes what a call of inference does there;
/// that a reduction clears its counters first is a launch more in the same call.
TEST(EagerOptions, HostsIssueEachLaunchOfALoop) {
  Workload w = training(1, 64);
  const auto step = [&](Optimizer optimizer) {
    w.training.optimizer = optimizer;
    return predict(load_llm("llama-3.2-1b"), w, h200("1 ms"), RunOptions{Runtime::eager});
  };
  const StepPrediction loop = step(Optimizer::adafactor);
  const HostTime host = h200().stack().host;
  double launches = 0;  // of the narrow model
  for (const auto& [name, times] : testing_support::executions(loop)) {
    const bool further = name.find(".clear_") != std::string::npos;
    const Seconds each = further ? host.each_further_launch : host.each_launch;
    if (name.starts_with("adafactor_")) launches += times * (each / host.narrow_launch);
  }
  const Seconds lists = step(Optimizer::sgd_plain).latency;
  EXPECT_NEAR((loop.latency - lists).in(units::ms) / launches, 1, 0.01);
}

/// GPT-2's queries, keys and values are one matrix.
TEST(EagerOptions, TensorsAreThoseOfTheSource) {
  Workload w = training(2, 1024);
  w.training.optimizer = Optimizer::muon;
  EXPECT_EQ(executions("gpt2-medium", w).at("muon_matrix.gram"), 5 * 4 * 24);
}

/// torch.optim.AdamW with foreach=False: eight passes over each tensor.
TEST(EagerOptions, AdamWATensorAtATimeHasEightLaunchesEach) {
  Workload w = training(2, 1024);
  w.training.optimizer = Optimizer::adamw_loop;
  const auto found = executions("llama-3.2-1b", w);
  for (const char* step :
       {"decay", "mean", "variance_decay", "variance", "root", "over_correction", "root_add", "step"}) {
    EXPECT_EQ(found.at("adamw_tensor." + std::string(step)), 113 + 33) << step;
  }
  EXPECT_EQ(ending(found, "adamw.decay"), 0);
  w.parallel.data = 2;
  w.parallel.zero = 1;
  EXPECT_THROW(executions("llama-3.2-1b", w), NotModelled);
}

/// Of narrow models a launch is full of tensors before it is of elements: as many as traced of google/electra-small-generator's
/// size (families.ninth of data/measurements/h200/pytorch_training).
TEST(EagerOptions, ListsOfFewElementsHaveLaunchesByTheirTensors) {
  const Llm electra =
      parse_llm(R"({"model_type": "electra", "architectures": ["ElectraForMaskedLM"], "vocab_size": 30522,
      "embedding_size": 128, "hidden_size": 256, "intermediate_size": 1024, "num_attention_heads": 4, "num_hidden_layers": 12,
      "hidden_act": "gelu", "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
      "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1})",
                "", "electra-small");
  const auto found =
      testing_support::executions(predict(electra, training(4, 128), h200(), RunOptions{Runtime::eager}));
  const std::map<std::string, double> traced{{"decay", 2}, {"mean", 4},  {"variance_decay", 2}, {"variance", 5},
                                             {"root", 4},  {"scale", 3}, {"add_eps", 2},        {"step", 5}};
  for (const auto& [step, launches] : traced) {
    double sum = 0;
    for (const auto& [name, times] : found) {
      if (name == "adamw." + step || name.starts_with("adamw." + step + "_")) sum += times;
    }
    if (step == "variance") sum -= traced.at("variance_decay");
    EXPECT_EQ(sum, launches) << step;
  }
}

/// bitsandbytes' AdamW8bit: a launch a tensor, of 8 bits from 4096 elements on; its states are 2 bytes an element and
/// two scales for 256 of them.
TEST(EagerOptions, AdamOf8BitsHasALaunchATensor) {
  Workload w = training(2, 1024);
  w.training.optimizer = Optimizer::adam8bit;
  const auto found = executions("llama-3.2-1b", w);
  EXPECT_EQ(found.at("adam8bit_tensor.blockwise"), 113);
  EXPECT_EQ(found.at("adam8bit_tensor.in_32_bits"), 33) << "norms of 2048";
  EXPECT_EQ(executions("llama-3.1-8b", w).at("adam8bit_tensor.blockwise"), 226 + 65) << "norms of 4096 too";
  train_eagerly(w);
  const double bytes = memory_need(load_llm("llama-3.2-1b"), w).optimizer.in(units::B);
  EXPECT_NEAR(bytes / (1235814400 * (2 + 8 / 256.0)), 1, 1e-6);
  w.parallel.data = 2;
  EXPECT_EQ(executions("llama-3.2-1b", w).at("adam8bit_tensor.blockwise"), 113) << "each replica updates all";
  w.parallel.zero = 3;
  EXPECT_THROW(executions("llama-3.2-1b", w), NotModelled);
}

/// Of experts, which lie in one tensor of three dimensions, Adafactor factors the last two; Muon takes matrices alone,
/// the router's among them.
TEST(EagerOptions, ExpertsAreTensorsOfThreeDimensions) {
  Workload w = training(1, 1024);
  w.training.optimizer = Optimizer::adafactor;
  const auto factors = executions("mixtral-8x7b", w);
  EXPECT_EQ(factors.at("adafactor_experts.estimate"), 2 * 32);
  EXPECT_EQ(factors.at("adafactor_matrix.estimate"), 5 * 32 + 2) << "router, embedding and head too";
  w.training.optimizer = Optimizer::muon;
  const auto turned = executions("mixtral-8x7b", w);
  EXPECT_EQ(turned.at("muon_matrix.gram"), 5 * 5 * 32);
  EXPECT_GT(turned.at("adamw.step"), 45e9 / 20971520) << "experts";
}

/// What autograd saves of these (its hooks, on the device `meta`: storages that are not parameters', without logarithms
/// of the loss), a number a row of attention, masks of 14 layers with a window, and 12 or 6 bytes a logit.
TEST(EagerOptions, KeptOfModernBertAndAlbert) {
  const auto kept = [](const std::string& model, std::int64_t batch) {
    Workload w = training(batch, 512, "bf16");
    train_eagerly(w);
    const std::string folder = testing_support::tests_folder() + "/model/eager_models/";
    return memory_need(load_llm(folder + model + ".json"), w).activations.in(units::B);
  };
  const double modern = 4495441924 + 22.0 * 12 * 8192 * 4 + 14.0 * 16 * 512 * 512 * 2 + 12.0 * 8192 * 50368;
  EXPECT_NEAR(kept("modernbert-base", 16) / modern, 1, 0.002);
  const double albert = 8517984258 + 12.0 * 12 * 16384 * 4 + 6.0 * 16384 * 30000;
  EXPECT_NEAR(kept("albert-base-v2", 32) / albert, 1, 0.005) << "its embedding is narrower than what is counted";
}

/// Peaks of whole models as tools/count_kept.py counts them, with cuBLAS's two workspaces: T5's self-attention writes its scores out
/// in fp32 under scaled_dot_product_attention, since no fused kernel takes a bias that has a gradient and lies head behind head.
TEST(EagerOptions, KeptOfT5) {
  const auto peak = [](const std::string& model, std::int64_t batch, std::int64_t prompt, bool fused) {
    Workload w = training(batch, prompt, "bf16");
    w.fused_attention = fused;
    train_eagerly(w);
    const std::string folder = testing_support::tests_folder() + "/model/eager_models/";
    return memory_need(load_llm(folder + model + ".json"), w).total().in(units::B)-2.0 * (32 << 20);
  };
  EXPECT_NEAR(peak("t5-base", 8, 512, true) / 12600485888.0, 1, 1e-4);
  EXPECT_NEAR(peak("t5-v1.1-base", 4, 1024, true) / 19587147776.0, 1, 1e-4);
  EXPECT_NEAR(peak("t5-base", 8, 512, false) / 11229722624.0, 1, 1e-4);
}

/// Of fp16 under autocast the loss is scaled; the host reads whether a gradient is infinite.
TEST(EagerOptions, Fp16UnderAutocastIsScaled) {
  Workload w = training(4, 1024, "fp16");
  EXPECT_EQ(executions("llama-3.2-1b", w).count("unscale.list"), 0U);
  w.training.gradient_given = true;
  w.training.gradient = DType::fp32;
  const auto found = executions("llama-3.2-1b", w);
  EXPECT_EQ(found.at("unscale.list"), 58);
  EXPECT_EQ(found.at("unscale.list_rest"), 1);
  EXPECT_EQ(found.at("unscale.read_found"), 1);
}

/// No kernel of scaled_dot_product_attention is of fp32 and shares key heads. Peaks as recorded (43,853,359,616 and
/// 33,672,413,696 bytes).
TEST(EagerOptions, SharedKeyHeadsInFp32WriteScores) {
  const auto narrow = executions("llama-3.2-1b", training(1, 2048));
  const auto wide = executions("llama-3.2-1b", training(1, 2048, "tf32"));
  EXPECT_EQ(narrow.count("attn_softmax.softmax"), 0U);
  EXPECT_EQ(wide.at("attn_softmax.softmax"), 16);
  EXPECT_EQ(wide.count("attention.attention"), 0U);
  EXPECT_EQ(ending(wide, ".to_fp32"), 0) << "they are fp32";
  EXPECT_EQ(executions("gpt2", training(1, 1024, "tf32")).count("attn_softmax.softmax"), 0U) << "no shared heads";
  const auto peak = [](std::int64_t batch, std::int64_t prompt, const char* type) {
    Workload w = training(batch, prompt, type);
    train_eagerly(w);
    return memory_need(load_llm("llama-3.2-1b"), w).total().in(units::B);
  };
  EXPECT_NEAR(peak(4, 1024, "tf32") / 43853359616.0, 1, 0.003);
  EXPECT_NEAR(peak(1, 2048, "fp32") / 33672413696.0, 1, 0.003);
}

/// Queries that are joined of a rotated part and the rest lie head by head; in fp32 attention's result lies by tokens all the same,
/// so that the output's product keeps no copy of it. The peak is recorded (sixteenth).
TEST(EagerOptions, ResultsOfAttentionInFp32LieByTokens) {
  Workload w = training(8, 512, "fp32");
  train_eagerly(w);
  const std::string phi = testing_support::tests_folder() + "/model/eager_models/phi-1.5.json";
  const Bytes peak = memory_need(testing_support::cut(phi, 12), w).total();
  EXPECT_NEAR(peak.in(units::B) / 22896452096.0, 1, 5e-4);
}

/// Counted in the trace of bert-large-uncased under autocast: each of 24 x 6 matrices, the head's dense layer and its product.
TEST(EagerOptions, AutocastCastsEachMatrixOfAnEncoderOnce) {
  Workload w = training(32, 128);
  w.training.gradient_given = true;
  w.training.gradient = DType::fp32;
  const auto cast = executions("bert-large-uncased", w);
  EXPECT_EQ(ending(cast, ".cast_weight"), 24 * 6 + 1);
  EXPECT_EQ(ending(cast, ".cast_dense"), 1);
  EXPECT_EQ(ending(cast, ".cast_input"), 24 * 4 + 1);
  EXPECT_EQ(ending(cast, ".d_cast_dw"), 24 * 6 + 1);
  EXPECT_EQ(ending(cast, ".d_cast_gradient"), 24 * 2);
  EXPECT_EQ(ending(executions("bert-large-uncased", training(32, 128)), ".cast_weight"), 0);
  train_eagerly(w);
  const Bytes peak = memory_need(load_llm("bert-large-uncased"), w).total();
  EXPECT_NEAR(peak.in(units::B) / 10312199680.0, 1, 0.01) << "recorded";
}

/// Whole models, 8 x 1024 tokens, as tools/count_kept.py counts them with cuBLAS's two workspaces: autocast takes the powers of
/// GPT-2's tangent form in fp32, and casts its joined projections' input once.
TEST(EagerOptions, AutocastKeepsWhatItsOperatorsReadInFp32) {
  Workload w = training(8, 1024);
  w.training.gradient_given = true;
  w.training.gradient = DType::fp32;
  train_eagerly(w);
  const double workspaces = 2.0 * (32 << 20);
  EXPECT_NEAR(memory_need(load_llm("gpt2"), w).total().in(units::B) / (13224072704 + workspaces), 1, 2e-3);
}

/// Peaks of the first layers of models that are recomputed, as tools/count_kept.py counts them, with cuBLAS's two workspaces: inside
/// the first layer, when the others have gradients (llama-2-7b, phi-3.5-mini); where scores are written out, at their gradients
/// (falcon-7b, of which a card held 14,082,252,288 bytes); under autocast at the end of the forward pass, which keeps all casts.
TEST(EagerOptions, PeaksOfWhatIsRecomputed) {
  const auto peak = [](const std::string& model, std::size_t layers, std::int64_t batch, std::int64_t prompt,
                       bool autocast, Optimizer optimizer) {
    Workload w = training(batch, prompt, "bf16");
    w.training.recompute = Recompute::full;
    w.training.optimizer = optimizer;
    w.training.gradient_given = autocast;
    if (autocast) w.training.gradient = DType::fp32;
    train_eagerly(w);
    return memory_need(testing_support::cut(model, layers), w).total().in(units::B)-2.0 * (32 << 20);
  };
  EXPECT_NEAR(peak("llama-2-7b", 4, 2, 2048, false, Optimizer::adamw_fused) / 9009224192.0, 1, 5e-4);
  EXPECT_NEAR(peak("phi-3.5-mini", 6, 4, 1024, true, Optimizer::adamw_fused) / 14336317952.0, 1, 5e-4);
  EXPECT_NEAR(peak("qwen3-1.7b", 14, 4, 1024, true, Optimizer::adamw_fused) / 21033822720.0, 1, 5e-4);
  const std::string falcon = testing_support::tests_folder() + "/model/eager_models/falcon-7b.json";
  EXPECT_NEAR(peak(falcon, 4, 4, 1024, false, Optimizer::adamw) / 14012555776.0, 1, 0.006);
}

/// Peaks inside experts that are computed again, as tools/count_kept.py counts them, with cuBLAS's two workspaces: where wide experts'
/// activation has its gradients (mixtral-8x7b), and at their first matrices (mixtral-8x22b, one layer of it).
TEST(EagerOptions, PeaksOfExpertsThatAreComputedAgain) {
  const auto peak = [](const std::string& model, std::size_t layers, std::int64_t batch, std::int64_t prompt) {
    Workload w = training(batch, prompt, "bf16");
    w.training.recompute = Recompute::full;
    w.training.optimizer = Optimizer::adamw_fused;
    train_eagerly(w);
    return memory_need(testing_support::cut(model, layers), w).total().in(units::B)-2.0 * (32 << 20);
  };
  EXPECT_NEAR(peak("mixtral-8x7b", 2, 24, 512) / 28783126528.0, 1, 5e-4);
  EXPECT_NEAR(peak("mixtral-8x22b", 1, 8, 1024) / 25329755648.0, 1, 5e-4);
}

/// Latent attention (three layers of moonlight-16b, a model of DeepSeek-V3's class), as a card held it (families.ninth): latents'
/// norms, values that are a view of what both were expanded to, attention's result by heads and by tokens.
TEST(EagerOptions, LatentAttentionKeepsWhatItsValuesAreAViewOf) {
  Workload w = training(6, 2048, "bf16");
  train_eagerly(w);
  const std::string model = testing_support::tests_folder() + "/model/eager_models/moonlight-16b.json";
  const Bytes peak = memory_need(testing_support::cut(model, 3), w).total();
  EXPECT_NEAR(peak.in(units::B) / 43138402816.0, 1, 1e-3);
}

/// gpt-oss's experts clamp gate and up, whose product with a sigmoid and one more than up are written out, and its norms multiply by
/// their weights in fp32. Recorded (families.seventh).
TEST(EagerOptions, ExpertsThatAreWrittenOutKeepTheirParts) {
  Workload w = training(4, 1024, "bf16");
  w.training.written_out = true;
  train_eagerly(w);
  const Bytes peak = memory_need(testing_support::cut("gpt-oss-20b", 2), w).total();
  EXPECT_NEAR(peak.in(units::B) / 30422976000.0, 1, 1e-3);
}

/// As two H200 held them under fully_shard: in a layer's backward pass what the head and its norm read is gone (0.5 GB of
/// llama-2-70b's), and where a window makes a mask, values are copied for each query head, so that nothing keeps the joined result
/// of queries, keys and values (0.47 GB of phi-3-medium's).
TEST(EagerOptions, PeaksOfShardsAreRecorded) {
  const auto peak = [](const std::string& model, std::size_t layers, std::int64_t batch, std::int64_t prompt,
                       int zero) {
    Workload w = training(2 * batch, prompt, "bf16");
    w.parallel.data = 2;
    w.parallel.zero = zero;
    w.training.recompute = zero == 3 ? Recompute::full : Recompute::none;
    train_eagerly(w);
    return memory_need(testing_support::cut(model, layers), w).total().in(units::B);
  };
  EXPECT_NEAR(peak("llama-2-70b", 2, 5, 1536, 3) / 17283200512.0, 1, 5e-4);
  EXPECT_NEAR(peak("phi-3.5-mini", 6, 8, 512, 3) / 5334140928.0, 1, 2e-3);
  const std::string phi = testing_support::tests_folder() + "/model/eager_models/phi-3-medium.json";
  EXPECT_NEAR(peak(phi, 3, 6, 2048, 2) / 22408530432.0, 1, 5e-4);
}

/// As PyTorch's dispatcher runs them on fake CUDA tensors: a cast of each matrix, and of ALBERT's shared ones a single one; of what a
/// product reads one of each matrix, but for what stands in the narrow type. Peaks as tools/count_kept.py counts them.
TEST(EagerOptions, AutocastOfEncodersWithListsOfTheirOwn) {
  struct Counted {
    const char* model;
    std::int64_t batch;
    double weights, inputs, gradients, peak, within;
  };
  for (const Counted& c :
       {Counted{"albert-base-v2", 16, 3, 12 * 5 + 3, 12 * 2, 9279527424, 5e-3},
        Counted{"modernbert-base", 8, 22 * 4 + 1, 22 * 2 + 1, 22 * 2, 7171315712, 1e-3},
        Counted{"t5-base", 8, 12 * 6 + 12 * 10 + 1, 12 * 5 + 12 * 8 + 1, 12 * 2 + 12 * 3, 15356695040, 6e-3}}) {
    Workload w = training(c.batch, 512, "bf16");
    w.training.gradient_given = true;
    w.training.gradient = DType::fp32;
    const std::string path = testing_support::tests_folder() + "/model/eager_models/" + c.model + ".json";
    const auto cast = executions(path, w);
    EXPECT_EQ(ending(cast, ".cast_weight"), c.weights) << c.model;
    EXPECT_EQ(ending(cast, ".cast_input"), c.inputs) << c.model;
    EXPECT_EQ(ending(cast, ".d_cast_gradient"), c.gradients) << c.model;
    train_eagerly(w);
    const double workspaces = 2.0 * (32 << 20);
    EXPECT_NEAR(memory_need(load_llm(path), w).total().in(units::B) / (c.peak + workspaces), 1, c.within) << c.model;
  }
}

/// modeling_mixtral.py leaves the weights of experts in fp32, modeling_qwen3_moe.py casts them.
TEST(EagerOptions, RowsOfExpertsAreOfTheTypeOfTheirWeights) {
  EXPECT_EQ(executions("mixtral-8x7b", training(1, 1024)).count("moe_combine.d_from_fp32"), 1U);
  EXPECT_EQ(executions("qwen3-30b-a3b", training(1, 1024)).count("moe_combine.d_from_fp32"), 0U);
}

/// A host that takes twice as long for the narrow launch takes twice as long for an iteration that waits for it alone.
TEST(EagerOptions, AMeasuredHostIsATrainingsHost) {
  const auto time = [](const char* host) {
    return predict(load_llm("gpt2"), training(1, 64), h200(host), RunOptions{Runtime::eager}).latency;
  };
  EXPECT_NEAR(time("80us") / time("40us"), 2, 1e-6);
}

/// Heads whose vocabulary makes no rows of whole 16 bytes, by single elements and by pairs: watts as recorded
/// (eager_power.jsonl), where 260 to 420 would be predicted of tensor work and bytes alone.
TEST(EagerOptions, ProductsOfSingleElementsTakeTheirRequestsEnergy) {
  struct Recorded {
    const char* shape;
    double watts, us;
  };
  for (const auto& [shape, watts, us] : std::array<Recorded, 4>{{{"M=4096;N=50257;K=1600", 448.3, 6832},
                                                                 {"M=4096;N=1600;K=50257;layout=kn", 518.9, 4915},
                                                                 {"M=1600;N=50257;K=4096;layout=kn", 518.2, 4825},
                                                                 {"M=8192;N=30522;K=1024", 689.3, 1985}}}) {
    const OpPrediction p = predict(parse_op("gemm", "bf16", shape), h200());
    EXPECT_NEAR(p.energy.value().in(units::J) / (watts * us * 1e-6), 1, 0.12) << shape;
  }
}

}  // namespace
}  // namespace plumbline::eager_options_test
