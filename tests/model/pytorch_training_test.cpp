// Iterations of training as PyTorch runs them eagerly (hf-sdpa): each operator's gradient as its launches, memory by what
// autograd keeps, and recorded iterations of an H200 replayed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/json_reader.hpp"
#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/csv.hpp"
#include "ops/memory/memory.hpp"
#include "ops/table/text.hpp"
#include "tests/support/eager_training.hpp"

namespace plumbline::pytorch_training_test {
namespace {

using testing_support::cut;
using testing_support::executions;
using testing_support::on_several;
using testing_support::on_two;
using testing_support::training;

Machine h200(const char* stack) { return machines().get({"h200_sxm", MachineOptions{stack}}); }

/// Counted in the trace of the iteration: an RMSNorm is 8 launches forward; backward 15 kernels and a copy.
TEST(PytorchTraining, AnOperatorsGradientIsItsLaunches) {
  const StepPrediction step =
      predict(load_llm("llama-3.2-1b"), training(1, 2048), h200("hf-sdpa"), RunOptions{Runtime::eager});
  double forward = 0, backward = 0, weights = 0;
  for (const NodePrediction& n : step.nodes) {
    const std::string_view name = n.node->name;
    const auto count = static_cast<double>(n.node->count);
    if (name.starts_with("attn_norm.")) (n.node->pass == Pass::forward ? forward : backward) += count;
    if (name.ends_with(".d_dw") && std::holds_alternative<Gemm>(n.node->op)) weights += count;
  }
  EXPECT_EQ(forward, 16 * 8);
  EXPECT_EQ(backward, 16 * (15 + 1 + 1)) << "and what clears the sum of the weight's gradient";
  EXPECT_EQ(weights, 16 * 7 + 1);
  const auto count = executions(step);
  EXPECT_EQ(count.at("embedding.d_add_to_head"), 1) << "a tied embedding has two gradients";
  // 1235.8 million parameters in lists of 320 parts of 65536, a launch each, for each step of AdamW
  EXPECT_EQ(count.at("adamw.step"), 58);
  EXPECT_EQ(count.at("adamw.step_rest"), 1);
  EXPECT_EQ(count.count("grad_norm"), 0U);
}

/// 525 million elements of an input embedding of its own, in lists of 21: rows that no token drew have no gradient, and fp32
/// division of zero takes longer. A tied embedding's rows all have the head's.
TEST(PytorchTraining, RowsThatNoTokenDrewTakeTheUpdateLonger) {
  const auto step_of = [](const char* model, Optimizer optimizer) {
    Workload w = training(1, 2048);
    w.training.optimizer = optimizer;
    return predict(load_llm(model), w, h200("hf-sdpa"), RunOptions{Runtime::eager});
  };
  const auto time = [](const StepPrediction& step, std::string_view name) {
    for (const NodePrediction& n : step.nodes) {
      if (n.node->name == name) return n.op.time;
    }
    return Seconds{};
  };
  const StepPrediction lists = step_of("llama-3.1-8b", Optimizer::adamw);
  EXPECT_EQ(executions(lists).at("adamw.step_undrawn"), 25);
  EXPECT_EQ(executions(lists).at("adamw.step_partly_undrawn"), 1);
  EXPECT_GT(time(lists, "adamw.scale_undrawn") / time(lists, "adamw.scale"), 1.6);
  const StepPrediction fused = step_of("llama-3.1-8b", Optimizer::adamw_fused);
  EXPECT_GT(time(fused, "adamw_fused.fused_undrawn") / time(fused, "adamw_fused.fused"), 1.5);
  EXPECT_EQ(executions(step_of("llama-3.2-1b", Optimizer::adamw)).count("adamw.step_undrawn"), 0U);
}

/// Hooks put away what autograd would keep, and the forward pass goes through Python a second time.
TEST(PytorchTraining, RecomputationTakesTheHostLonger) {
  Workload w = training(1, 64);
  const Llm llama = load_llm("llama-3.2-1b");
  const Seconds plain = predict(llama, w, h200("hf-sdpa"), RunOptions{Runtime::eager}).latency;
  w.training.recompute = Recompute::full;
  const StepPrediction again = predict(llama, w, h200("hf-sdpa"), RunOptions{Runtime::eager});
  EXPECT_TRUE(again.waits_for_host);
  EXPECT_GT(again.latency / plain, 1.5);
  EXPECT_LT(again.latency / plain, 2.2);
}

/// Counted in the traces: a norm of each tensor over lists of 320 parts, and all gradients times one number; under
/// autocast each of the 113 matrices is cast once and its gradient is cast back.
TEST(PytorchTraining, ClippingAndCastsAreLaunches) {
  const Llm llama = load_llm("llama-3.2-1b");
  const Machine machine = h200("hf-sdpa");
  Workload w = training(1, 2048);
  const StepPrediction plain = predict(llama, w, machine, RunOptions{Runtime::eager});
  w.training.clipping = Clipping::norm;
  const StepPrediction clipped = predict(llama, w, machine, RunOptions{Runtime::eager});
  const auto count = executions(clipped);
  EXPECT_EQ(count.at("grad_norm.norms"), 58);
  EXPECT_EQ(count.at("grad_norm.norms_rest"), 1);
  EXPECT_EQ(count.at("grad_norm.scale"), 58);
  double launches = 0;
  for (const auto& [name, times] : count) launches += name.starts_with("grad_norm.") ? times : 0;
  EXPECT_EQ(launches, 2 * 59 + 9) << "127 to 129 in the trace";
  EXPECT_EQ(clipped.graph.memory.total(), plain.graph.memory.total());

  w.training.clipping = Clipping::stack;
  w.training.gradient = DType::fp32;
  w.training.gradient_given = true;
  const StepPrediction cast = predict(llama, w, machine, RunOptions{Runtime::eager});
  double weights = 0, gradients = 0, inputs = 0;
  for (const NodePrediction& n : cast.nodes) {
    const std::string_view name = n.node->name;
    const auto times = static_cast<double>(n.node->count);
    weights += name.ends_with(".cast_weight") ? times : 0;
    inputs += name.ends_with(".cast_input") ? times : 0;
    gradients += name.ends_with(".d_cast_dw") ? times : 0;
  }
  EXPECT_EQ(weights, 16 * 7 + 1);
  EXPECT_EQ(gradients, 16 * 7 + 1);
  EXPECT_EQ(inputs, 16 * 5 + 1);
  EXPECT_GT(cast.latency, plain.latency);
}

/// A vocabulary of 50257: the gradient of the head's weights reads rows of logits that begin at no whole 16 bytes, as
/// cuBLAS's kernels for them do; without dropout neither masks nor random numbers.
TEST(PytorchTraining, OddVocabulariesAndDropoutAreTheModels) {
  const StepPrediction gpt2 = predict(load_llm("gpt2"), training(4, 1024), h200("hf-sdpa"), RunOptions{Runtime::eager});
  const auto time = [&](const char* name) {
    for (const NodePrediction& n : gpt2.nodes) {
      if (n.node->name == std::string_view(name)) return n.op.time;
    }
    return Seconds{};
  };
  EXPECT_GT(time("lm_head.d_dw_of_odd_rows"), 0.6 * time("lm_head.d_dx")) << "5 times as long as aligned ones";
  EXPECT_EQ(time("lm_head.d_dw"), Seconds{});
  const std::string path = data_folder() + "/models/gpt2.json";
  std::string config = read_text_file(path);
  for (std::size_t at = config.find("pdrop\": 0.1"); at != std::string::npos; at = config.find("pdrop\": 0.1")) {
    config.replace(at, 11, "pdrop\": 0.0");
  }
  const auto kept =
      executions(predict(parse_llm(config, "", path), training(4, 1024), h200("hf-sdpa"), RunOptions{Runtime::eager}));
  const auto dropped = executions(gpt2);
  EXPECT_EQ(dropped.count("attention.random_numbers"), 1U);
  EXPECT_EQ(dropped.count("ffn_dropout.drop"), 1U);
  for (const auto& [name, times] : kept) {
    EXPECT_EQ(name.find("dropout"), std::string::npos) << name;
    EXPECT_EQ(name.find("random"), std::string::npos) << name;
  }
}

struct Errors {
  std::vector<double> all;
  void add(double predicted, double measured) { all.push_back(100 * std::abs(std::log(predicted / measured))); }
  double median() {
    std::sort(all.begin(), all.end());
    return all.empty() ? 0 : all[all.size() / 2];
  }
  double worst() const { return *std::max_element(all.begin(), all.end()); }
};

/// transformers' sdpa_mask(): none below as many tokens as the window has; from there on each layer gets one, and keys
/// and values of each query head, which autograd keeps.
TEST(PytorchTraining, AWindowOfTheTokensIsAMask) {
  const Llm mistral = cut("mistral-7b-v0.1", 4);
  const Machine machine = h200("hf-sdpa");
  const auto at = [&](std::int64_t prompt) {
    return executions(predict(mistral, training(1, prompt), machine, RunOptions{Runtime::eager}));
  };
  const auto below = at(4095), from = at(4096);
  EXPECT_EQ(below.count("attention.attention_by_mask"), 0U);
  EXPECT_EQ(below.at("attention.attention"), 4);
  EXPECT_EQ(from.count("attention.attention"), 0U);
  for (const char* launch : {"attention_by_mask", "repeat_keys", "seen_not", "d_attention_by_mask", "d_sum_values"}) {
    EXPECT_EQ(from.at("attention." + std::string(launch)), 4) << launch;
  }
  const auto kept = [&](std::int64_t prompt) {
    Workload w = training(1, prompt);
    train_eagerly(w);
    return memory_need(mistral, w).activations.in(units::B) / static_cast<double>(prompt);
  };
  EXPECT_NEAR(kept(4096) - kept(4095), 4 * 2 * (4096 + 24 * 256), 1e-6 * kept(4096)) << "bytes a token";
}

/// StarCoder2's layers have both: a mask from its window on, and shares to drop, of scores one of their own.
TEST(PytorchTraining, AMaskAndDroppedScoresGoTogether) {
  const std::string path = data_folder() + "/models/starcoder2-7b.json";
  std::string config = read_text_file(path);
  const auto at = [&](std::int64_t prompt) {
    return executions(
        predict(parse_llm(config, "", path), training(1, prompt), h200("hf-sdpa"), RunOptions{Runtime::eager}));
  };
  const auto dropped = at(4096);
  EXPECT_EQ(dropped.count("attention.attention"), 0U);
  for (const char* launch :
       {"attention_by_mask", "random_numbers", "seed", "repeat_keys", "d_attention_by_mask", "d_mask"}) {
    EXPECT_EQ(dropped.at("attention." + std::string(launch)), 32) << launch;
  }
  EXPECT_EQ(at(4095).at("attention.attention"), 32);
  const std::string share = "\"attention_dropout\": 0.1";
  config.replace(config.find(share), share.size(), "\"attention_dropout\": 0.0");
  const auto kept = at(4096);
  EXPECT_EQ(kept.count("attention.random_numbers"), 0U);
  EXPECT_EQ(kept.at("attention.attention_by_mask"), 32);
  EXPECT_EQ(kept.count("ffn_dropout.drop"), 1U) << "what layers add is dropped all the same";
}

/// Open-LLaMA-3B's heads of 100 columns as an iteration of two.eighteenth ran them, for each of two layers; a token of a layer
/// keeps four columns more a head of queries, keys, values and result, and the result once more without them.
TEST(PytorchTraining, HeadsOfOddWidthAreFilledUp) {
  const auto of_width = [](std::int64_t width) {
    return parse_llm(R"({"model_type": "llama", "hidden_size": 3200, "intermediate_size": 8640, "num_hidden_layers": 2,
                         "num_attention_heads": 32, "vocab_size": 32000, "head_dim": )" +
                         std::to_string(width) + "}",
                     "", "toy");
  };
  const auto runs = [&](std::int64_t width) {
    return executions(predict(of_width(width), training(6, 1024), h200("hf-sdpa"), RunOptions{Runtime::eager}));
  };
  const auto filled = runs(100), as_is = runs(104);
  for (const char* launch :
       {"clear_padded_queries", "pad_queries", "cut_pad", "d_clear_padded_gradient", "d_pad_gradient",
        "d_gradient_behind", "d_result_behind", "d_cut_query_pad", "d_values_behind"}) {
    EXPECT_EQ(filled.at("attention." + std::string(launch)), 2) << launch;
    EXPECT_EQ(as_is.count("attention." + std::string(launch)), 0U) << launch;
  }
  EXPECT_EQ(filled.at("attention.pad_keys"), 4) << "and values";
  EXPECT_EQ(filled.at("attention.d_cut_key_pad"), 4);
  const auto kept = [&](std::int64_t width) {
    Workload w = training(6, 1024);
    train_eagerly(w);
    return memory_need(of_width(width), w).activations.in(units::B) / (6 * 1024);
  };
  EXPECT_NEAR(kept(104) - kept(100), -2 * 2 * 32 * 100, 1) << "as wide, but the result without what filled it up";
}

/// modeling_gemma2.py, modeling_olmo2.py: weights multiply in fp32, so that the normalized rows are kept in fp32.
TEST(PytorchTraining, NormsInFp32KeepFp32) {
  const auto kept = [](std::size_t layers) {
    Workload w = training(16, 4096);
    train_eagerly(w);
    return memory_need(cut("olmo-2-13b", layers), w).activations.in(units::B) / (16 * 4096);
  };
  const double norms = 2 * (8 * 5120 + 4), of_heads = 80 * (8 * 128 + 4);
  const double attention = 2 * 5 * 5120 + 4 * 40, ffn = 2 * (5120 + 4 * 13824);
  EXPECT_NEAR(kept(2) - kept(1), norms + of_heads + attention + ffn, 1) << "bytes a token";
}

/// torch/optim/sgd.py: a pass for the momentum, one for the gradient, one for the parameters; without momentum the last
/// alone.
TEST(PytorchTraining, SgdIsItsPasses) {
  const Llm llama = load_llm("llama-3.2-1b");
  Workload w = training(1, 2048);
  const auto passes = [&](Optimizer optimizer, const std::string& node) {
    w.training.optimizer = optimizer;
    double found = 0;
    for (const auto& [name, times] : executions(predict(llama, w, h200("hf-sdpa"), RunOptions{Runtime::eager}))) {
      if (name.starts_with(node + ".")) found += times;
    }
    train_eagerly(w);
    return std::pair{found, memory_need(llama, w).optimizer.in(units::B)};
  };
  const double params = 1235814400;
  EXPECT_EQ(passes(Optimizer::sgd, "sgd"), (std::pair{3 * 59.0, 2 * params}));
  EXPECT_EQ(passes(Optimizer::sgd_plain, "sgd_plain"), (std::pair{59.0, 0.0}));
}

/// cuDNN's kernels of 128 columns run heads of 80 and 96 (data/measurements/h200/pytorch_training/attention.jsonl);
/// nothing is fitted to these rows.
TEST(PytorchTraining, AttentionOfOtherWidthsIsMet) {
  Errors errors;
  const Machine machine = h200("hf-sdpa");
  for (const char* side : {"train", "heldout"}) {
    const std::string path = data_folder() + "/measurements/h200_pytorch/h200_sxm/attention_widths." + side + ".csv";
    const std::string text = read_text_file(path);
    CsvReader reader(text, path);
    reader.next();
    while (reader.next()) {
      const auto& f = reader.fields();
      errors.add(predict(parse_op(f[0], f[1], f[2]), machine).time.in(units::us), std::stod(std::string(f[3])));
    }
  }
  ASSERT_EQ(errors.all.size(), 28U);
  EXPECT_LE(errors.median(), 6);
  EXPECT_LE(errors.worst(), 30) << "heads of 64 below 100 us";
}

TEST(PytorchTraining, WhatIsRecomputedRunsAsForward) {
  Workload w = training(1, 2048);
  const Machine machine = h200("hf-sdpa");
  const auto once = executions(predict(load_llm("llama-3.2-1b"), w, machine, RunOptions{Runtime::eager}));
  w.training.recompute = Recompute::full;
  const auto twice = executions(predict(load_llm("llama-3.2-1b"), w, machine, RunOptions{Runtime::eager}));
  EXPECT_EQ(twice.at("attn_norm.recompute.square"), once.at("attn_norm.square"));
  EXPECT_EQ(twice.at("attention.recompute.attention"), once.at("attention.attention"));
  EXPECT_EQ(twice.at("attn_norm.d_power"), once.at("attn_norm.d_power"));
  EXPECT_EQ(twice.at("final_norm.square"), 1);
}

/// As traced: torch.utils.checkpoint stops where the backward pass has all that it reads, so that a layer's last product and
/// additions are not run again, but for a mask of dropout (GPT-2) or a norm (Gemma) behind them.
TEST(PytorchTraining, ARecomputedLayerEndsWithWhatIsRead) {
  Workload w = training(1, 2048);
  w.training.recompute = Recompute::full;
  const auto ran = [&w](const char* model) {
    return executions(predict(load_llm(model), w, h200("hf-sdpa"), RunOptions{Runtime::eager}));
  };
  const auto llama = ran("llama-3.2-1b"), gpt2 = ran("gpt2"), gemma = ran("gemma-3-1b");
  EXPECT_EQ(llama.count("down_proj.recompute.product"), 0U);
  EXPECT_EQ(llama.count("ffn_residual_add.recompute"), 0U);
  EXPECT_EQ(llama.at("attn_residual_add.recompute"), 16);
  EXPECT_EQ(llama.at("ffn_mul.recompute"), 16);
  EXPECT_EQ(gpt2.at("down_proj.recompute.product"), 12);
  EXPECT_EQ(gpt2.count("ffn_residual_add.recompute"), 0U);
  EXPECT_EQ(gemma.at("down_proj.recompute.product"), 26);
  w.training.gradient_given = true;
  w.training.gradient = DType::fp32;
  const auto cast = ran("llama-3.2-1b");
  EXPECT_EQ(cast.at("down_proj.recompute.cast_weight"), 16) << "what the product reads is made again";
  EXPECT_EQ(cast.count("down_proj.recompute.product"), 0U);
}

/// A layer of Llama keeps 16 H + 4 q + 4 kv + 8 I bytes a token, 4 a query head and 4 a norm; the head 12 a logit.
TEST(PytorchTraining, MemoryIsWhatAutogradKeeps) {
  Workload w = training(4, 1024);
  train_eagerly(w);
  const MemoryNeed need = memory_need(load_llm("llama-3.2-1b"), w);
  const double params = 1235814400, tokens = 4096;
  EXPECT_EQ(need.weights.in(units::B), 2 * params);
  EXPECT_EQ(need.optimizer.in(units::B), 4 * params);
  EXPECT_EQ(need.gradients.in(units::B), 0) << "none are there yet when the loss is differentiated";
  const double layer = 16 * 2048 + 4 * 2048 + 4 * 512 + 8 * 8192 + 4 * 32 + 2 * 4;
  EXPECT_EQ(need.activations.in(units::B), tokens * (16 * layer + 8 * 2048 + 4 + 12 * 128256.0));
  w.training.optimizer = Optimizer::adamw_fused;
  w.batch = 1;
  w.prompt = 64;
  const MemoryNeed few = memory_need(load_llm("llama-3.2-1b"), w);
  EXPECT_EQ(few.gradients.in(units::B), 2 * params + 2 * 2 * 128256.0 * 2048) << "the tied embedding's, and their sum";
  w.training.optimizer = Optimizer::adamw;
  EXPECT_EQ(memory_need(load_llm("llama-3.2-1b"), w).optimizer.in(units::B), 6 * params) << "square roots of a list";
}

TEST(PytorchTraining, ParametersInFp32TakeTwiceTheirBytes) {
  Workload w = training(4, 1024);
  w.training.gradient_given = true;
  w.training.gradient = DType::fp32;
  train_eagerly(w);
  EXPECT_EQ(memory_need(load_llm("llama-3.2-1b"), w).weights.in(units::B), 4 * 1235814400.0);
}

std::vector<std::map<std::string, std::string>> rows_of(const std::string& file) {
  const std::string path = data_folder() + "/measurements/h200/pytorch_training/" + file;
  const std::string text = read_text_file(path);
  CsvReader reader(text, path);
  reader.next();
  const std::vector<std::string> columns(reader.fields().begin(), reader.fields().end());
  std::vector<std::map<std::string, std::string>> rows;
  while (reader.next()) {
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < columns.size(); ++i) row[columns[i]] = std::string(reader.fields()[i]);
    rows.push_back(row);
  }
  return rows;
}

/// The table of docs/accuracy.md holds the figures; what is asked here is a bound above them.
TEST(PytorchTraining, RecordedIterationsAreMet) {
  Errors time, memory;
  for (const auto& row : rows_of("steps.csv")) {
    if (row.at("gpus") != "1") continue;
    Workload w = training(std::stoll(row.at("batch")), std::stoll(row.at("tokens")));
    w.fused_attention = row.at("attention") == "sdpa";
    if (row.at("recompute") == "True") w.training.recompute = Recompute::full;
    if (row.at("optimizer") == "fused") w.training.optimizer = Optimizer::adamw_fused;
    if (row.at("autocast") == "True") {
      w.training.gradient_given = true;
      w.training.gradient = DType::fp32;
    }
    train_eagerly(w);
    const Llm llm = cut(row.at("model"), std::stoul(row.at("layers")));
    memory.add(memory_need(llm, w).total().in(units::B), std::stod(row.at("peak_bytes")));
    if (row.at("clip") == "True") w.training.clipping = Clipping::norm;
    const StepPrediction step =
        predict(llm, w, h200(w.fused_attention ? "hf-sdpa" : "hf-eager"), RunOptions{Runtime::eager});
    time.add(step.latency.in(units::us), std::stod(row.at("wall_us")));
  }
  ASSERT_GE(time.all.size(), 20U);
  EXPECT_LE(time.median(), 6);
  EXPECT_LE(time.worst(), 35) << "steps that wait for the host";
  EXPECT_LE(memory.median(), 0.1);
  EXPECT_LE(memory.worst(), 0.7);
}

/// Their machine is the one that times of training were found on, by 30 us a call, whose host is quicker than most.
TEST(PytorchTraining, RecordedIterationsOfTwoCardsAreMet) {
  Errors time, memory;
  MachineOptions options{"hf-sdpa"};
  options.cluster = "dgx_h200";
  options.stack.host = "25.4us";
  const Machine machine = machines().get({"h200_sxm", options});
  for (const auto& row : rows_of("steps.csv")) {
    if (row.at("gpus") != "2" || row.at("spread") == "none") continue;
    const int zero = row.at("spread") == "ddp" ? 0 : row.at("keep") == "True" ? 2 : 3;
    const Workload w = on_two(std::stoll(row.at("batch")), std::stoll(row.at("tokens")), zero);
    const Llm llm = cut(row.at("model"), std::stoul(row.at("layers")));
    memory.add(memory_need(llm, w).total().in(units::B), std::stod(row.at("peak_bytes")));
    const Seconds latency = predict(llm, w, machine, RunOptions{Runtime::eager}).latency;
    time.add(latency.in(units::us), std::stod(row.at("wall_us")));
  }
  ASSERT_EQ(time.all.size(), 12U);
  EXPECT_LE(time.median(), 3);
  EXPECT_LE(time.worst(), 16.5) << "steps that wait for the host";
  EXPECT_LE(memory.median(), 1);
  EXPECT_LE(memory.worst(), 7) << "the recording tool kept the head of untied models, whole";
}

/// Four cards of a node: predicted before they were run (2.5 % in the median, 18.9 at worst), and nothing was fitted to them.
/// Those furthest off wait for hosts slower than the median one, by which they are priced phase by phase since. What a recomputed
/// layer does not run again had made up for some of that: the median was 4.6 with it.
TEST(PytorchTraining, RecordedIterationsOfFourCardsAreMet) {
  Errors time, memory;
  MachineOptions options{"hf-sdpa"};
  options.cluster = "dgx_h200";
  const Machine machine = machines().get({"h200_sxm", options});
  const std::string path = data_folder() + "/measurements/h200/pytorch_training/four.steps.jsonl";
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    const JsonDocument document = JsonDocument::parse(line, path);
    const JsonValue row = document.root();
    const auto said = [&](const char* key) { return row.find_bool(key).value_or(false); };
    const int zero = row.at("spread").as_string() == "ddp" ? 0 : said("keep") ? 2 : 3;
    Workload w = on_several(4, row.at("batch").as_integer(), row.at("tokens").as_integer(), zero);
    if (said("recompute")) w.training.recompute = Recompute::full;
    if (row.at("optimizer").as_string() == "fused") w.training.optimizer = Optimizer::adamw_fused;
    const Llm llm = cut(row.at("model").as_string(), static_cast<std::size_t>(row.at("layers").as_integer()));
    memory.add(memory_need(llm, w).total().in(units::B), row.at("memory").at("max_allocated").as_number());
    const Seconds latency = predict(llm, w, machine, RunOptions{Runtime::eager}).latency;
    time.add(latency.in(units::us), row.at("wall_us").elements().front().as_number());
  }
  ASSERT_EQ(time.all.size(), 20U);
  EXPECT_LE(time.median(), 5.0);
  EXPECT_LE(time.worst(), 28.7) << "steps that wait for the host";
  EXPECT_LE(memory.median(), 0.3);
  EXPECT_LE(memory.worst(), 4.5);
}

}  // namespace
}  // namespace plumbline::pytorch_training_test
