// FLOPs and caches against values from outside: what PyTorch counts and transformers keeps while small models read 48
// tokens (tests/ops/hf_work.json). And kinds of models that data/families/graphs.json describes, against their modules'
// parameters (tests/ops/hf_tables.json).
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <variant>

#include "arch/error.hpp"
#include "arch/json_reader.hpp"
#include "ops/graph/workload.hpp"
#include "ops/llm/llm.hpp"
#include "ops/lower/lower.hpp"
#include "tests/ops/lower/lower_models.hpp"
#include "tests/support/places.hpp"

namespace plumbline::llm_work_test {
namespace {

JsonDocument file(const char* name) {
  return JsonDocument::read_file(testing_support::tests_folder() + "/ops/" + name);
}

bool is_product(const Node& node) {
  return std::holds_alternative<Gemm>(node.op) || std::holds_alternative<GroupedGemm>(node.op);
}

TEST(OutsideWork, ProductsHaveTheFlopsThatPyTorchCounts) {
  int held = 0;
  const JsonDocument models = file("hf_work.json");
  for (const JsonValue& one : models.root().at("models").elements()) {
    const double counted = one.at("flops").as_number();
    if (counted == 0) continue;
    const std::string type = one.at("type").as_string();
    const Llm llm = parse_llm(one.at("config").dump(), "", type);
    Workload workload;
    workload.phase = Phase::prefill;
    workload.batch = 1;
    workload.prompt = one.at("tokens").as_integer();
    workload.fusion = Fusion::none;
    const double own = testing_support::tensor_flops(lower(llm, workload), is_product);
    // Biases are in ours, the rotation's table in theirs. AltUp mixes its streams by a product and asks its router twice:
    // 2 * 48 * 128 * (2 * 2 + 2) FLOPs in each of 10 layers.
    const double altup = type == "gemma3n_text" ? 2.0 * 48 * 128 * (2 * 2 + 2) * 10 : 0;
    EXPECT_NEAR((own + altup) / counted, 1, altup > 0 ? 1e-4 : 0.005) << type;
    ++held;
  }
  EXPECT_GE(held, 30);
}

/// Keys and values in 16 bits, states in 32. The library keeps one token less of a window than decode kernels read, and
/// one tap more of a convolution than is left to read.
TEST(OutsideWork, CachesHoldWhatTransformersKeeps) {
  int held = 0;
  const JsonDocument models = file("hf_work.json");
  for (const JsonValue& one : models.root().at("models").elements()) {
    const std::string type = one.at("type").as_string();
    const Llm llm = parse_llm(one.at("config").dump(), "", type);
    Workload workload;
    workload.phase = Phase::decode;
    workload.batch = 1;
    workload.context = one.at("tokens").as_integer() - 1;
    const auto number = [&](const char* key) { return one.at(key).as_number(); };
    const double bytes =
        2 * (number("kv") + number("window_token")) + 2 * (number("conv") - number("conv_tap")) + 4 * number("state");
    EXPECT_DOUBLE_EQ(lower(llm, workload).memory.kv_cache.in(units::B), bytes) << type;
    ++held;
  }
  EXPECT_GE(held, 40);
}

TEST(HfTables, HaveTheParametersOfTheRealModules) {
  std::set<std::string> types;
  const JsonDocument models = file("hf_tables.json");
  for (const JsonValue& one : models.root().at("models").elements()) {
    const std::string type = one.at("type").as_string();
    Llm llm;
    EXPECT_NO_THROW(llm = parse_llm(one.at("config").dump(), "", type)) << type;
    const double params = one.at("params").as_number();
    EXPECT_NEAR((llm.params + llm.tower_params + llm.unfilled_params) / params, 1, 1e-3)
        << type << ": " << one.at("config").dump();
    types.insert(type);
  }
  EXPECT_GE(types.size(), 180U);
}

TEST(HfTables, EveryStepThatTheyTakeCanBeLowered) {
  std::set<std::string> seen;
  const JsonDocument models = file("hf_tables.json");
  for (const JsonValue& one : models.root().at("models").elements()) {
    const std::string type = one.at("type").as_string();
    if (!seen.insert(type).second) continue;
    const Llm llm = parse_llm(one.at("config").dump(), "", type);
    for (const Phase phase : {Phase::prefill, Phase::decode}) {
      if (phase == Phase::decode && llm.main().role != StackSpec::Role::decoder) continue;
      for (const Fusion fusion : {Fusion::none, Fusion::typical, Fusion::max}) {
        Workload workload;
        workload.phase = phase;
        workload.batch = 2;
        workload.prompt = workload.context = 128;
        workload.fusion = fusion;
        EXPECT_FALSE(lower(llm, workload).nodes.empty()) << type;
      }
    }
  }
}

/// SambaY (arXiv 2507.06607): the widths of Phi-4-mini-flash, of which its card says 3.8 B; its cache is that of eight
/// windows and one layer, and the Mamba layers' states.
constexpr const char* kPhi4Flash =
    R"({"model_type":"phi4flash","architectures":["Phi4FlashForCausalLM"],"hidden_size":2560,"intermediate_size":10240,
        "num_hidden_layers":32,"num_attention_heads":40,"num_key_value_heads":20,"vocab_size":200064,"mb_per_layer":2,
        "sliding_window":512,"mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,"mamba_dt_rank":160,"mlp_bias":false,
        "mamba_conv_bias":true,"mamba_proj_bias":false,"lm_head_bias":false,"tie_word_embeddings":true,
        "max_position_embeddings":262144,"torch_dtype":"bfloat16"})";

TEST(Hybrids, Phi4MiniFlashHasItsSizes) {
  const Llm llm = parse_llm(kPhi4Flash, "", "test");
  EXPECT_NEAR(llm.params, 3.85e9, 0.01e9);
  EXPECT_EQ(llm.kv_elements_per_token, 9 * 20 * 2 * 64);
  EXPECT_EQ(llm.main().order.size(), 32U);
  Workload workload;
  workload.phase = Phase::decode;
  workload.batch = 1;
  workload.context = 4095;
  const double kv = 20.0 * 2 * 64, inner = 5120;
  EXPECT_DOUBLE_EQ(lower(llm, workload).memory.kv_cache.in(units::B),
                   2 * kv * (8 * 512 + 4096) + 9 * inner * (16 * 4 + 3 * 2));
  EXPECT_TRUE(llm.warnings.empty());
}

/// Hymba-1.5B: 1.52 B published; of 32 layers three see everything, 15 read the keys and values of the one before.
TEST(Hybrids, HymbaHasItsSizes) {
  const Llm llm = parse_llm(
      R"({"model_type":"hymba","hidden_size":1600,"intermediate_size":5504,"num_hidden_layers":32,"num_attention_heads":25,
          "num_key_value_heads":5,"vocab_size":32001,"tie_word_embeddings":true,"sliding_window":1024,"v_head_dim":128,
          "mamba_d_state":16,"mamba_d_conv":4,"mamba_expand":2,"mamba_dt_rank":100,"mamba_conv_bias":true,
          "mamba_inner_layernorms":true,"num_memory_tokens":128,"global_attn_idx":[0,15,31],"max_position_embeddings":8192,
          "kv_reuse_group":[[1,2],[3,4],[5,6],[7,8],[9,10],[11,12],[13,14],[16,17,18],[19,20],[21,22],[23,24],[25,26],
          [27,28],[29,30]],"torch_dtype":"bfloat16"})",
      "", "test");
  EXPECT_NEAR(llm.params, 1.52e9, 0.01e9);
  Workload workload;
  workload.phase = Phase::decode;
  workload.batch = 1;
  workload.context = 4095;
  const double kv = 5 * (64 + 128), inner = 3200;
  EXPECT_DOUBLE_EQ(lower(llm, workload).memory.kv_cache.in(units::B),
                   2 * kv * (3 * 4096 + 14 * 1024) + 32 * inner * (16 * 4 + 3 * 2));
}

std::string refusal(const std::string& config) {
  try {
    (void)parse_llm(config, "", "test");
  } catch (const BadInput& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(HfTables, WhatTheyDoNotUnderstandIsRefusedByName) {
  EXPECT_EQ(refusal(R"({"_class_name":"WanTransformer3DModel","num_layers":2,"qk_norm":"layer_norm"})"),
            "test: /qk_norm: expected \"rms_norm_across_heads\", which are understood, found \"layer_norm\"");
  EXPECT_EQ(refusal(R"({"_class_name":"AuraFlowTransformer2DModel","caption_projection_dim":64})"),
            "test: /caption_projection_dim: expected 3072, which the other sizes make, found 64");
  EXPECT_EQ(refusal(R"({"model_type":"strange_vlm","text_config":{"model_type":"llama","hidden_size":64,
                        "num_hidden_layers":1,"num_attention_heads":1,"vocab_size":10,"intermediate_size":8},
                        "vision_config":{"hidden_size":32}})"),
            "test: /model_type: models of type 'strange_vlm' are not understood: their 'vision_config' is in no table; "
            "give their text model as a file of its own to read it alone");
}

/// Phi-4-multimodal's class makes its towers of usual sizes where the file has none.
TEST(HfTables, TowersOfTheClassAreCountedWhereTheFileHasNone) {
  const std::string head =
      R"({"model_type":"phi4_multimodal","hidden_size":512,"num_hidden_layers":2,"num_attention_heads":4,
          "num_key_value_heads":2,"intermediate_size":64,"vocab_size":1000)";
  const std::string audio = R"("audio_config":{"model_type":"phi4_multimodal_audio","hidden_size":1024,
      "intermediate_size":1536,"num_blocks":24,"num_attention_heads":16})";
  const std::string vision = R"("vision_config":{"model_type":"phi4_multimodal_vision","hidden_size":1152,
      "intermediate_size":4304,"num_hidden_layers":27,"num_attention_heads":16,"image_size":448,"patch_size":14})";
  const double both = parse_llm(head + "," + audio + "," + vision + "}", "", "test").tower_params;
  EXPECT_GT(both, 8e8);
  EXPECT_EQ(parse_llm(head + "," + audio + "}", "", "test").tower_params, both);
  EXPECT_EQ(parse_llm(head + "," + vision + "}", "", "test").tower_params, both);
}

}  // namespace
}  // namespace plumbline::llm_work_test
