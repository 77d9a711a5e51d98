// Every published config under data/models through lowering, against the loader's own counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/ops/lower_checks.hpp"

namespace plumbline::testing {
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
  const bool unknown = any_layer([](const LayerSpec& l) { return l.attention && l.attention->shared_kv; });
  if (!is_decoder(llm) || llm.stacks.size() > 1 || unknown) GTEST_SKIP() << "parameters outside the decoder's GEMMs";
  const double tokens = 2 * 512, head = d(llm.vocab) * d(llm.hidden);
  const double layers = llm.active_params - llm.embedding_params - llm.head_params - llm.main().other_params;
  const double repeats = llm.main().shared_weights ? d(static_cast<std::int64_t>(llm.main().order.size())) : 1;
  const double expected = 2 * tokens * layers * repeats + 2 * 2 * head;
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

TEST_P(LowerEveryConfig, CacheATokenIsTheLoaders) {
  const bool capped = any_layer([](const LayerSpec& l) {
    return l.recurrent || l.cross || (l.attention && (l.attention->window > 0 || l.attention->shared_kv));
  });
  if (!is_decoder(llm) || capped) GTEST_SKIP() << "the cache does not grow by the same for every token";
  Workload w = decode(1, 999);
  w.kv_dtype_given = true;
  w.kv_dtype = DType::bf16;
  EXPECT_NEAR(lower(llm, w).memory.kv_cache.in(units::B),
              1000 * 2 * (llm.kv_elements_per_token + llm.index_elements_per_token), 1e-3);
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
}  // namespace plumbline::testing
