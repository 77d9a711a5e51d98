// Families whose lists of launches had been read off sources, as an H200 then ran them (data/measurements/h200/pytorch_training,
// families.ninth and two.sixteenth): what their classes do otherwise than the families they are like.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <variant>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/memory/memory.hpp"
#include "tests/support/eager_training.hpp"

namespace plumbline::traced_families_test {
namespace {

using testing_support::executions;
using testing_support::training;

const Machine& h200() {
  static const Machine machine = machines().get({"h200_sxm", MachineOptions{"hf-sdpa"}});
  return machine;
}

Llm distilbert() {
  return parse_llm(R"({"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"], "activation": "gelu",
    "attention_dropout": 0.1, "dropout": 0.1, "dim": 768, "hidden_dim": 3072, "n_heads": 12, "n_layers": 6,
    "vocab_size": 30522, "max_position_embeddings": 512, "sinusoidal_pos_embds": false})",
                   "", "distilbert-base");
}

StepPrediction iteration(const Llm& llm, const Workload& w) {
  return predict(llm, w, h200(), RunOptions{Runtime::eager});
}

/// Seven native_dropout were traced: one behind the embedding and one a layer; two tables were looked up.
TEST(TracedFamilies, DistilBertHasNoTypesAndKeepsWhatAttentionMakes) {
  Workload w = training(64, 512);
  w.training.optimizer = Optimizer::adamw_fused;
  const StepPrediction step = iteration(distilbert(), w);
  const auto count = executions(step);
  EXPECT_EQ(count.count("attn_out_dropout.drop"), 0U);
  EXPECT_EQ(count.count("attn_out_dropout.d_mask"), 0U);
  EXPECT_EQ(count.at("ffn_dropout.drop"), 6);
  EXPECT_EQ(count.at("embedding.drop"), 1);
  EXPECT_EQ(count.count("embedding.types"), 0U);
  EXPECT_EQ(count.count("embedding.d_types_scatter"), 0U);
  EXPECT_EQ(count.at("embedding.d_words_sort_pass"), 8);
  const double peak = 11753608704;
  EXPECT_NEAR(step.graph.memory.total().in(units::B) / peak, 1, 0.002);
}

/// 32768 keys are dealt to eight CTAs: 5.4 us a pass, as 4608 keys take 3.5 to 5.7; 9.2 are priced, of one CTA 31.5.
TEST(TracedFamilies, ASortOfManyRowsIsDealtToSeveralCtas) {
  const StepPrediction step = iteration(distilbert(), training(64, 512));
  int found = 0;
  for (const NodePrediction& n : step.nodes) {
    if (std::string_view(n.node->name) != "embedding.d_words_sort_pass") continue;
    ++found;
    EXPECT_NEAR(n.op.time.in(units::us), 5.4, 5);
  }
  EXPECT_EQ(found, 1);
}

/// transformers 5.17 ties the head of T5's kin whatever the config says; the model as published has one of its own.
TEST(TracedFamilies, TheHeadOfT5sKinIsTied) {
  const Llm mt5 = parse_llm(R"({"model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"], "d_ff": 2048,
    "d_kv": 64, "d_model": 768, "dropout_rate": 0.1, "feed_forward_proj": "gated-gelu", "is_encoder_decoder": true,
    "num_layers": 12, "num_decoder_layers": 12, "num_heads": 12, "relative_attention_num_buckets": 32,
    "tie_word_embeddings": false, "vocab_size": 250112})",
                            "", "mt5-base");
  EXPECT_EQ(mt5.params, 582401280);
  const StepPrediction step = iteration(mt5, training(16, 512));
  EXPECT_EQ(step.graph.memory.weights.in(units::B), 2 * (582401280 - 250112.0 * 768));
  EXPECT_EQ(executions(step).at("embedding.d_add_to_head"), 2) << "what both stacks look up";
  EXPECT_NEAR(step.graph.memory.total().in(units::B) / 38685712896, 1, 0.002);
}

/// Beside weights, their gradients of the micro-batch before, moments, buckets and workspaces an iteration of three layers held
/// 10.43 GB at its peak: the norms of heads keep two numbers a head, and their rows are views of the joined product's.
TEST(TracedFamilies, PersimmonsNormsOfHeadsKeepNumbersAlone) {
  Llm llm = parse_llm(R"({"model_type": "persimmon", "architectures": ["PersimmonForCausalLM"], "hidden_size": 4096,
    "intermediate_size": 16384, "num_hidden_layers": 3, "num_attention_heads": 64, "vocab_size": 65536,
    "hidden_act": "relu2", "qk_layernorm": true, "partial_rotary_factor": 0.5, "attention_dropout": 0.0,
    "hidden_dropout": 0.0, "max_position_embeddings": 8192, "tie_word_embeddings": false})",
                      "", "persimmon-8b");
  Workload w = training(8, 1024);
  train_eagerly(w);
  EXPECT_NEAR(memory_need(llm, w).activations.in(units::B) / 10433924608, 1, 0.001);
}

/// What FSDP gathers of fp32 shares is bf16, and so are an encoder's logits, which its loss reads as they are: the log-softmax of
/// 12288 x 105879 was traced at 2.5 ms both ways, 5.0 in fp32.
TEST(TracedFamilies, AnEncodersLossOfWiderSharesIsAsNarrowAsItsLogits) {
  Workload w = testing_support::on_two(8, 512, 3);
  const auto read = [](const Workload& asked, std::string_view name) {
    for (const Node& n : iteration(distilbert(), asked).graph.nodes) {
      if (n.name == name) return std::get<CustomOp>(n.op).read.in(units::B);
    }
    return 0.0;
  };
  const double narrow = 3 * 2 * 8 * 512 * 30522.0;
  EXPECT_EQ(read(w, "loss_softmax.log_softmax"), narrow);
  w.training.gradient_given = true;
  w.training.gradient = DType::fp32;
  EXPECT_EQ(read(w, "loss_softmax.log_softmax"), narrow);
  EXPECT_EQ(read(w, "loss_softmax.d_log_softmax"), narrow);
}

Llm bart_large() {
  return parse_llm(R"({"model_type": "bart", "architectures": ["BartForConditionalGeneration"],
    "activation_function": "gelu", "activation_dropout": 0.1, "attention_dropout": 0.1, "dropout": 0.1, "d_model": 1024,
    "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
    "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "max_position_embeddings": 1024, "vocab_size": 50265,
    "scale_embedding": false, "tie_word_embeddings": true})",
                   "", "bart-large");
}

/// Of families.tenth: norms stand behind the parts and the embedding, none behind the last layer; logits get a bias and stay
/// in their type; what the second product reads is dropped from by a share of its own.
TEST(TracedFamilies, BartHasNormsOfWhatItLooksUpAndABiasOfLogits) {
  const StepPrediction step = iteration(bart_large(), training(16, 512));
  const auto count = executions(step);
  EXPECT_EQ(count.at("encoder_norm.row") + count.at("final_norm.row"), 2);
  EXPECT_EQ(count.at("ffn_act.drop"), 24);
  EXPECT_EQ(count.at("lm_head.bias"), 1);
  EXPECT_EQ(count.at("embedding.scale"), 2) << "by one, where the config asks for no scale";
  EXPECT_EQ(count.count("loss_cast.to_fp32"), 0U);
  EXPECT_NEAR(step.graph.memory.total().in(units::B) / 14045134848, 1, 0.001);
}

/// A share of zero drops nothing inside; attention's scores have one as well.
TEST(TracedFamilies, BartsSharesOfDropoutAreApart) {
  Llm llm = bart_large();
  for (StackSpec& stack : llm.stacks) stack.kinds.front().drops_inner = false;
  const auto count = executions(iteration(llm, training(16, 512)));
  EXPECT_EQ(count.count("ffn_act.drop"), 0U);
  EXPECT_EQ(count.at("ffn_dropout.drop"), 24);
}

/// Both kinds of scores by distance: products with a table of 512 rows that are gathered from, and gradients that are
/// scattered, one of them turned.
TEST(TracedFamilies, DebertaGathersScoresByDistance) {
  const Llm llm = parse_llm(R"({"model_type": "deberta-v2", "architectures": ["DebertaV2ForMaskedLM"],
    "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
    "intermediate_size": 3072, "max_position_embeddings": 512, "relative_attention": true, "position_buckets": 256,
    "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p", "layer_norm_eps": 1e-07,
    "max_relative_positions": -1, "position_biased_input": false, "num_attention_heads": 12, "num_hidden_layers": 12,
    "type_vocab_size": 0, "vocab_size": 128100})",
                            "", "deberta-v3-base");
  const StepPrediction step = iteration(llm, training(32, 512));
  const auto count = executions(step);
  EXPECT_EQ(count.at("attn_scores.gather"), 24);
  EXPECT_EQ(count.at("attn_scores.d_scatter"), 12);
  EXPECT_EQ(count.at("attn_scores.d_scatter_turned"), 12);
  EXPECT_EQ(count.count("attention.attention"), 0U) << "no fused attention adds them";
  EXPECT_NEAR(step.graph.memory.total().in(units::B) / 30997588480, 1, 0.001);
}

}  // namespace
}  // namespace plumbline::traced_families_test
