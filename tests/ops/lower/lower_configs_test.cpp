// Every published config under data/models through lowering, against the loader's own counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/ops/lower/lower_checks.hpp"

namespace plumbline::testing_support::lower_configs_test {
namespace {

class LowerEveryConfig : public ::testing::TestWithParam<std::string> {
 protected:
  const Llm llm = load_llm(GetParam());

  template <class Is>
  bool any_layer(Is is) const {
    for (const StackSpec& s : llm.stacks) {
      if (std::any_of(s.kinds.begin(), s.kinds.end(), is)) return true;
    }
    return false;
  }
};

TEST_P(LowerEveryConfig, GraphsHoldTogether) {
  for (const Workload& w : workloads(llm)) {
    const Graph g = lower(llm, w);
    check_graph(llm, g);
    EXPECT_GT(tensor_flops(g), 0);
    EXPECT_GT(g.tokens, 0);
  }
}

TEST_P(LowerEveryConfig, FusionOnlyRemoves) {
  const auto at = [&](Fusion f) { return lower(llm, prefill(2, 500, f)); };
  const Graph none = at(Fusion::none), typical = at(Fusion::typical), max = at(Fusion::max);
  EXPECT_GE(total_bytes(none), total_bytes(typical));
  EXPECT_GE(total_bytes(typical), total_bytes(max));
  EXPECT_GE(launches(none), launches(typical));
  EXPECT_GE(launches(typical), launches(max));
}

/// The loader counted parameters by formula; lowering laid out GEMMs. Norms, biases, convolutions and per-head vectors
/// are all that may stand between them. `max` multiplies nothing apart from weights, attention and indexer scores.
TEST_P(LowerEveryConfig, WeightGemmsAgreeWithTheActiveParameters) {
  const bool unknown = any_layer([](const LayerSpec& l) { return l.mixer.as<CompressedSpec>() != nullptr; });
  const StackSpec& main = llm.main();
  const bool diffusion = main.role == StackSpec::Role::diffusion;
  if (diffusion || llm.stacks.size() > 1 || unknown) GTEST_SKIP() << "not every weight sees every token";
  const double tokens = 2 * d(main.fixed_tokens > 0 ? main.fixed_tokens : 512);
  const double layers = llm.active_params - llm.embedding_params - llm.head_params - main.other_params;
  const double repeats = main.shared_weights ? d(static_cast<std::int64_t>(main.order.size())) : 1;
  // Decoders compute logits of the last token of each sequence, encoders with a head those of all tokens.
  const double rows = !llm.has_head ? 0 : is_decoder(llm) ? 2 : tokens;
  const double expected = 2 * tokens * layers * repeats + ends_flops(llm, tokens, rows);
  const Graph g = lower(llm, prefill(2, 512, Fusion::max));
  const double found = tensor_flops(g, [](const Node& n) { return is_weight_gemm(n); });
  EXPECT_LE(found, expected * (1 + 1e-12));
  EXPECT_GE(found, expected * 0.998);
}

TEST_P(LowerEveryConfig, WeightsAreTheParameters) {
  Workload w = prefill(1, 16);
  w.precision_given = true;
  w.precision = *parse_precision("bf16");
  EXPECT_NEAR(lower(llm, w).memory.weights.in(units::B) / (2 * llm.params), 1, 1e-12);
  w.precision = *parse_precision("fp8");
  const double fp8 = lower(llm, w).memory.weights.in(units::B);
  EXPECT_LT(fp8, 2 * llm.params);
  EXPECT_GT(fp8, llm.params);
}

/// Below every window the cache grows by the loader's count for each token, whatever else a model keeps: state of
/// recurrent layers and the encoder's keys stay as they are.
TEST_P(LowerEveryConfig, CacheATokenIsTheLoaders) {
  if (!is_decoder(llm)) {
    EXPECT_EQ(lower(llm, prefill(2, 500)).memory.kv_cache, Bytes());
    return;
  }
  std::int64_t window = 1000;
  bool pooled = false;
  for (const LayerSpec& l : llm.main().kinds) {
    if (const auto* a = l.mixer.as<AttentionSpec>(); a && a->window > 0) window = std::min(window, a->window);
    pooled = pooled || l.mixer.as<CompressedSpec>() != nullptr;
  }
  if (pooled) GTEST_SKIP() << "a window beside a pooled stream: memory_test.cpp has its count";
  const auto cache = [&](std::int64_t tokens) {
    Workload w = decode(1, tokens - 1);
    w.kv_dtype_given = true;
    w.kv_dtype = DType::bf16;
    return lower(llm, w).memory.kv_cache.in(units::B);
  };
  const double token = 2 * (llm.kv_elements_per_token + llm.index_elements_per_token);
  EXPECT_NEAR(cache(window) - cache(window / 2), d(window - window / 2) * token, 1e-3);
  const bool more = any_layer([](const LayerSpec& l) { return (l.mixer && l.mixer->kv_elements() == 0) || l.cross; });
  if (more) EXPECT_GT(cache(window), d(window) * token);
  else EXPECT_NEAR(cache(window), d(window) * token, 1e-3);
}

/// Beyond its window a layer keeps no more, and what a recurrent layer keeps never grows.
TEST_P(LowerEveryConfig, WindowsAndStatesCapTheCache) {
  if (!is_decoder(llm)) return;
  const auto cache = [&](std::int64_t tokens) {
    Workload w = decode(1, tokens - 1);
    w.kv_dtype_given = true;
    w.kv_dtype = DType::bf16;
    return lower(llm, w).memory.kv_cache.in(units::B);
  };
  constexpr std::int64_t kFar = 1 << 20;
  double growing = 0;
  for (const int kind : llm.main().order) {
    const LayerSpec& l = llm.main().kinds[static_cast<std::size_t>(kind)];
    const auto* a = l.mixer.as<AttentionSpec>();
    if (l.mixer && l.mixer->kv_elements() > 0 && (a == nullptr || a->window == 0)) ++growing;
  }
  const double grown = cache(2 * kFar) - cache(kFar);
  const double whole = d(kFar) * 2 * (llm.kv_elements_per_token + llm.index_elements_per_token);
  if (growing == 0) {
    EXPECT_EQ(grown, 0);
  } else {
    EXPECT_GT(grown, 0);
    EXPECT_LE(grown, whole * (1 + 1e-12));
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& config) {
  std::string name = config.param;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, LowerEveryConfig, ::testing::ValuesIn(llm_names()), test_name);

}  // namespace
}  // namespace plumbline::testing_support::lower_configs_test
