// Shapes of one rank and the collectives between ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>

#include "arch/error.hpp"
#include "ops/lower/parts.hpp"
#include "ops/memory/memory.hpp"
#include "ops/table/text.hpp"
#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_parallel_test {
namespace {

using ::testing::HasSubstr;

Graph on_ranks(const Llm& m, Workload w, std::int64_t tensor, std::int64_t expert = 1, std::int64_t data = 1) {
  w.parallel.tensor = tensor;
  w.parallel.expert = expert;
  w.parallel.data = data;
  Graph g;
  lowering::lower_any(m, w, g);
  return g;
}

TEST(LowerParallel, OneRankHasNoCollectives) {
  for (const Llm& m : all_models()) {
    for (const Node& n : lower(m, train(1, 64)).nodes) {
      EXPECT_FALSE(std::holds_alternative<Collective>(n.op)) << m.name << ' ' << n.name;
      EXPECT_EQ(n.stream, 0);
    }
  }
}

TEST(LowerParallel, TensorParallelLayerReducesTwice) {
  const Graph g = on_ranks(llama_70b(), decode(4, 1000), 8);
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").n, (8 + 2) * 128);
  EXPECT_EQ(shape_of<Gemm>(g, "down_proj").k, 28672 / 8);
  EXPECT_EQ(shape_of<AttentionDecode>(g, "attention").kv_heads, 1);
  EXPECT_EQ(shape_of<Gemm>(g, "lm_head").n, 128256 / 8);
  for (const char* name : {"attn_all_reduce", "ffn_all_reduce"}) {
    const auto& c = shape_of<Collective>(g, name);
    EXPECT_EQ(c.bytes, 4 * 8192 * 2);
    EXPECT_EQ(c.gpus, 8);
    EXPECT_EQ(find(g, name)->stream, 1);
    EXPECT_EQ(find(g, name)->count, 80);
  }
}

TEST(LowerParallel, KvHeadsAreReplicatedNotSplitBelowOne) {
  EXPECT_EQ(shape_of<AttentionDecode>(on_ranks(llama_70b(), decode(4, 1000), 16), "attention").kv_heads, 1);
}

TEST(LowerParallel, RanksTogetherDoAtLeastTheWork) {
  for (const Llm& m : all_models()) {
    for (const std::int64_t tensor : {2, 4, 8}) {
      const double one = tensor_flops(lower(m, prefill(2, 128)));
      const double rank = tensor_flops(on_ranks(m, prefill(2, 128), tensor));
      EXPECT_GE(rank * d(tensor), one * (1 - 1e-12)) << m.name << tensor;
      EXPECT_LT(rank, one) << m.name << tensor;
    }
  }
}

TEST(LowerParallel, ExpertParallelExchangesTokens) {
  const Graph g = on_ranks(deepseek_v3(), prefill(1, 4096), 1, 8);
  const auto& up = shape_of<GroupedGemm>(g, "experts_gate_up");
  EXPECT_EQ(up.experts, 32);
  EXPECT_EQ(up.tokens * up.topk, 4096 * 8);
  EXPECT_EQ(shape_of<Collective>(g, "moe_dispatch").bytes, 4096 * 8 * 7168);     // fp8
  EXPECT_EQ(shape_of<Collective>(g, "moe_collect").bytes, 4096 * 8 * 7168 * 2);  // bf16
}

/// 256 experts of which a token has eight, on eight ranks: it goes to 8 (1 - C(224, 8) / C(256, 8)) = 5.295 of them where
/// nothing limits it; within four groups of eight to 4 (1 - C(96, 8) / C(128, 8)) = 3.629.
TEST(LowerParallel, KernelsThatKnowATokensExpertsTakeTokensNotRows) {
  Workload w = prefill(1, 4096);
  w.exchange_sms = 20;
  Llm limited = deepseek_v3();
  for (LayerSpec& kind : limited.stacks.front().kinds) {
    if (!kind.ffn->is_moe()) continue;
    kind.ffn->groups = 8;
    kind.ffn->top_groups = 4;
  }
  const Graph g = on_ranks(limited, w, 1, 8);
  const auto& there = shape_of<ExpertExchange>(g, "moe_dispatch");
  const ExpertExchange by_hand{
      ExpertExchangeKind::dispatch, 4096, 7168, 8, 256, 8, 20, 0, 8, 4, there.skew, DType::fp8};
  EXPECT_EQ(there, by_hand);
  EXPECT_EQ(shape_of<ExpertExchange>(g, "moe_collect").dtype, DType::bf16);
  EXPECT_EQ(row_bytes(there), (7168.0 + 4 * 56) * units::B);
  double missed = 1;
  for (int i = 0; i < 8; ++i) missed *= (96.0 - i) / (128.0 - i);
  EXPECT_NEAR(ranks_reached(there, 8), 4 * (1 - missed), 1e-12);
  ExpertExchange anywhere = there;
  anywhere.groups = anywhere.top_groups = 0;
  EXPECT_NEAR(ranks_reached(anywhere, 8), 5.2947, 1e-4);
  Workload step = decode(64, 4096);
  step.exchange_sms = 20;
  const Graph low = on_ranks(deepseek_v3(), step, 1, 8, 8);
  EXPECT_EQ(shape_of<ExpertExchange>(low, "moe_dispatch").sms, 0);
  EXPECT_EQ(find(low, "moe_permute"), nullptr) << "its kernels put tokens in the order of experts";
  EXPECT_EQ(find(low, "moe_combine"), nullptr) << "and add up what comes back";
}

/// Two of four experts, dealt to two ranks: of six pairs one is the other rank's own. All of three experts: every rank.
TEST(LowerParallel, TokensReachAsManyRanksAsDrawingWithoutPuttingBackSays) {
  EXPECT_NEAR(groups_reached(4, 2, 2), 2 * (1 - 1.0 / 6), 1e-12);
  EXPECT_NEAR(groups_reached(6, 3, 3), 3 * (1 - 4.0 / 20), 1e-12);
  EXPECT_EQ(groups_reached(3, 3, 3), 3);
  EXPECT_NEAR(groups_reached(256, 1, 8), 1, 1e-12);
  ExpertExchange narrow{ExpertExchangeKind::dispatch, 1, 1, 8, 256, 64, 20, 1};
  EXPECT_EQ(ranks_reached(narrow, 8), groups_reached(32, 8, 8)) << "experts of one node alone";
}

/// Groups g of experts e, t of which a token's k experts are in, on p places: every choice counted out.
double counted_out(int e, int g, int t, int k, int p) {
  double tokens = 0, reached = 0;
  for (unsigned groups = 0; groups < 1U << g; ++groups) {
    if (std::popcount(groups) != t) continue;
    for (unsigned experts = 0; experts < 1U << e; ++experts) {
      if (std::popcount(experts) != k) continue;
      std::set<int> places;
      bool within = true;
      for (int i = 0; i < e; ++i) {
        if ((experts >> i & 1U) == 0) continue;
        within = within && (groups >> (i * g / e) & 1U) != 0;
        places.insert(i * p / e);
      }
      if (!within) continue;
      ++tokens;
      reached += static_cast<double>(places.size());
    }
  }
  return reached / tokens;
}

TEST(LowerParallel, TokensOfLimitedGroupsReachAsManyPlacesAsEveryChoiceCountedOut) {
  for (const int places : {1, 2, 3, 6, 12}) {
    for (const int chosen : {1, 2, 4, 6}) {
      for (const int topk : {1, 2}) {
        ExpertExchange s{ExpertExchangeKind::dispatch, 1, 1, topk, 12, 12};
        s.groups = 6;
        s.top_groups = chosen;
        EXPECT_NEAR(places_reached(s, places), counted_out(12, 6, chosen, topk, places), 1e-12)
            << places << " places, " << chosen << " groups, " << topk << " experts";
      }
    }
  }
  ExpertExchange between{ExpertExchangeKind::dispatch, 1, 1, 2, 12, 12};
  between.groups = 6;
  between.top_groups = 2;
  EXPECT_GT(places_reached(between, 4), places_reached(between, 3)) << "one group and a half each";
  EXPECT_LT(places_reached(between, 4), places_reached(between, 6));
}

// Found by fuzz/op_fuzz.cpp: the ways to choose half of many groups are more than a double holds.
TEST(LowerParallel, TokensOfManyGroupsReachAFiniteNumberOfPlaces) {
  ExpertExchange s{ExpertExchangeKind::dispatch, 1, 1, 1, 2048, 2};
  s.groups = 1024;
  s.top_groups = 512;
  EXPECT_NEAR(places_reached(s, 2), 1, 1e-9) << "one expert is in one place";
  EXPECT_THROW(
      (void)parse_op("moe_dispatch", "bf16", "tokens=1;cols=1;topk=1;experts=4096;gpus=2;groups=1025;top_groups=1"),
      BadInput);
}

TEST(LowerParallel, DataParallelTrainingReducesGradients) {
  const Graph g = on_ranks(llama_8b(), train(4, 64), 2, 1, 4);
  const auto& c = shape_of<Collective>(g, "grad_all_reduce", Pass::update);
  EXPECT_EQ(c.gpus, 4);
  EXPECT_NEAR(d(c.bytes), 2 * 8030261248.0, 4);  // half of the parameters, in fp32
  EXPECT_EQ(g.tokens, 4 * 64);
}

TEST(LowerParallel, WeightsAndCacheAreShared) {
  const MemoryNeed one = lower(llama_70b(), decode(4, 999)).memory;
  const MemoryNeed rank = on_ranks(llama_70b(), decode(4, 999), 4).memory;
  EXPECT_DOUBLE_EQ(rank.weights.in(units::B)*4, one.weights.in(units::B));
  EXPECT_DOUBLE_EQ(rank.kv_cache.in(units::B)*4, one.kv_cache.in(units::B));
  // The latent of MLA is in every rank.
  EXPECT_EQ(on_ranks(deepseek_v3(), decode(4, 999), 4).memory.kv_cache,
            lower(deepseek_v3(), decode(4, 999)).memory.kv_cache);
}

std::string refusal(const Llm& m, Workload w, const ParallelPlan& plan) {
  w.parallel = plan;
  try {
    lower(m, w);
  } catch (const Error& error) {
    return error.what();
  }
  return "(accepted)";
}

Graph planned(const Llm& m, Workload w, const ParallelPlan& plan) {
  w.parallel = plan;
  return lower(m, w);
}

TEST(LowerParallel, PlansThatTheModelForbidsNameTheRuleAndTheNearestDegree) {
  EXPECT_THAT(refusal(llama_8b(), decode(1, 9), {.tensor = 3}),
              HasSubstr("a divisor of the 32 heads; nearest: 2 or 4"));
  EXPECT_THAT(refusal(llama_8b(), decode(1, 9), {.tensor = 64}), HasSubstr("nearest: 32"));
  EXPECT_EQ(refusal(llama_8b(), decode(1, 9), {.tensor = 16}), "(accepted)") << "KV heads are replicated";
  EXPECT_THAT(refusal(llama_8b(), decode(1, 9), {.pipeline = 33}), HasSubstr("at most its 32 layers"));
  EXPECT_THAT(refusal(llama_8b(), decode(2, 9), {.data = 2, .expert = 2}), HasSubstr("the model has no experts"));
  EXPECT_THAT(refusal(mixtral(), decode(16, 9), {.data = 16, .expert = 16}), HasSubstr("at most its 8 experts"));
  EXPECT_THAT(refusal(llama_8b(), prefill(1, 7), {.context = 8}), HasSubstr("at most the 7 tokens"));
}

TEST(LowerParallel, ReplicasShareTheBatchAndTheFullestIsLowered) {
  const Graph g = planned(llama_8b(), decode(7, 99), {.data = 2});
  EXPECT_EQ(shape_of<AttentionDecode>(g, "attention").batch, 4);
  EXPECT_EQ(g.tokens, 7);
  EXPECT_EQ(g.ranks, 2);
}

TEST(LowerParallel, SequenceParallelRanksHoldAShareOfTheTokensBetweenMatrices) {
  const Graph plain = planned(llama_8b(), prefill(1, 1024), {.tensor = 4});
  const Graph split = planned(llama_8b(), prefill(1, 1024), {.tensor = 4, .sequence = true});
  EXPECT_EQ(shape_of<Rowwise>(split, "attn_norm").rows * 4, shape_of<Rowwise>(plain, "attn_norm").rows);
  EXPECT_EQ(shape_of<Gemm>(split, "qkv_proj"), shape_of<Gemm>(plain, "qkv_proj"));
  const std::int64_t whole = 1024 * 4096 * 2;
  for (const char* name : {"attn_all_gather", "attn_reduce_scatter", "ffn_all_gather", "ffn_reduce_scatter"}) {
    EXPECT_EQ(shape_of<Collective>(split, name).bytes, whole) << name;
  }
  EXPECT_EQ(find(split, "attn_all_reduce"), nullptr);
  EXPECT_EQ(shape_of<Collective>(split, "head_all_gather").bytes, 4096 * 2) << "the last token alone";
}

TEST(LowerParallel, DataParallelAttentionTakesItsSequencesAndTheFfnTakesAll) {
  const Graph g = planned(llama_8b(), decode(16, 99), {.tensor = 4, .attention_data = true});
  EXPECT_EQ(shape_of<AttentionDecode>(g, "attention").batch, 4);
  EXPECT_EQ(shape_of<AttentionDecode>(g, "attention").q_heads, 32);
  EXPECT_EQ(shape_of<Gemm>(g, "qkv_proj").m, 4);
  EXPECT_EQ(shape_of<Gemm>(g, "down_proj").m, 16);
  EXPECT_EQ(shape_of<Gemm>(g, "down_proj").k, 14336 / 4);
  EXPECT_EQ(find(g, "attn_all_gather"), nullptr);
}

TEST(LowerParallel, ExpertsWithinATensorGroupTakeTheirPartOfTheSameTokens) {
  const Graph g = planned(mixtral(), prefill(1, 4096), {.tensor = 8, .expert = 4});
  const auto& up = shape_of<GroupedGemm>(g, "experts_gate_up");
  EXPECT_EQ(up.experts, 2);
  EXPECT_EQ(up.tokens * up.topk, 4096 * 2 / 4);
  EXPECT_EQ(up.n, 2 * 14336 / 2) << "two ranks share an expert's width";
  EXPECT_EQ(find(g, "moe_dispatch"), nullptr);
  EXPECT_NE(find(g, "experts_all_reduce"), nullptr);
}

TEST(LowerParallel, TokensOfATensorGroupTravelOnceToExpertsBeyondIt) {
  const Graph g = planned(deepseek_v3(), decode(512, 4096), {.tensor = 8, .data = 8, .expert = 64});
  const std::int64_t own = 512 / 8 / 8;  // tokens of a rank
  const auto& up = shape_of<GroupedGemm>(g, "experts_gate_up");
  EXPECT_EQ(up.experts, 4);
  EXPECT_EQ(up.tokens * up.topk, own * 8);
  EXPECT_EQ(up.n, 2 * 2048);
  EXPECT_EQ(shape_of<Collective>(g, "moe_dispatch").gpus, 64);
  EXPECT_EQ(shape_of<Collective>(g, "attn_reduce_scatter").gpus, 8);
  EXPECT_EQ(shape_of<MlaDecode>(g, "attention").batch, 64);
  EXPECT_EQ(shape_of<MlaDecode>(g, "attention").heads, 16);
}

TEST(LowerParallel, TheFullestRanksExpertsGetMoreRows) {
  Workload w = decode(512, 99);
  w.parallel = {.data = 8, .expert = 8};
  const auto rows = [&](const ExpertLoad& load) {
    w.expert_load = load;
    return shape_of<GroupedGemm>(lower(mixtral(), w), "experts_gate_up").tokens;
  };
  EXPECT_EQ(rows({}), 512 / 8 * 2);
  EXPECT_EQ(rows({.counts = {3, 1, 1, 1, 1, 1, 0, 0}}), 3 * 512 / 8 * 2) << "3 of 8 tokens, one expert a rank";
  EXPECT_EQ(rows({.power = 10}), 512) << "every token at most once";
  EXPECT_GT(rows({.power = 1}), rows({.power = 0.5}));
}

TEST(LowerParallel, ContextRanksSeeAsManyKeysInTheMeanAsTheWholePrompt) {
  for (const std::int64_t ranks : {2, 4, 8}) {
    const Graph g = planned(llama_8b(), prefill(1, 8192), {.context = ranks});
    const auto& a = shape_of<AttentionPrefill>(g, "attention");
    EXPECT_EQ(a.q_len, 8192 / ranks);
    const double pairs = d(a.q_len) * (d(a.kv_len) - d(a.q_len) / 2);
    EXPECT_NEAR(pairs * d(ranks), 8192.0 * 4096, 8192.0);
    EXPECT_EQ(shape_of<Collective>(g, "kv_all_gather").bytes, 8192 * 8 * 256 * 2);
  }
  const Graph g = planned(llama_8b(), decode(1, 4095), {.tensor = 2, .context = 4});
  EXPECT_EQ(shape_of<AttentionDecode>(g, "attention").context, 1024);
  EXPECT_EQ(shape_of<Collective>(g, "context_all_reduce").stride, 2) << "tensor ranks lie between";
}

TEST(LowerParallel, StagesRunEveryLayerOnce) {
  for (const Llm& m : {llama_70b(), deepseek_v3(), mixtral()}) {
    for (const std::int64_t stages : {2, 3, 8}) {
      const Graph g = planned(m, decode(8, 99), {.pipeline = stages});
      const std::size_t segments = g.segments.size();
      ASSERT_EQ(g.pipeline.repeats.size(), static_cast<std::size_t>(stages) * segments);
      for (std::size_t i = 0; i < segments; ++i) {
        std::int64_t sum = 0;
        for (std::int64_t s = 0; s < stages; ++s) sum += g.pipeline.repeat(s, i, segments);
        const bool hand_over = i + 1 == segments;
        EXPECT_EQ(sum, hand_over ? stages - 1 : g.segments[i].repeat) << m.name << g.segments[i].name;
      }
    }
  }
}

TEST(LowerParallel, ChoicesAreMadeAmongAllOfTheVocabulary) {
  const Graph g = planned(llama_8b(), decode(4, 99), {.tensor = 8});
  EXPECT_EQ(shape_of<Gemm>(g, "lm_head").n, 128256 / 8);
  EXPECT_EQ(shape_of<Collective>(g, "logits_all_gather").bytes, 4 * 128256 * 2);
  EXPECT_EQ(shape_of<Rowwise>(g, "sample").cols, 128256);
}

}  // namespace
}  // namespace plumbline::testing_support::lower_parallel_test
