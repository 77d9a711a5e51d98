// What must hold between the keys of each operator: the complaint, and the near shape that fuzzers take in its place.
#include <gtest/gtest.h>

#include <string>

#include "ops/shape/attention_decode.hpp"
#include "ops/shape/attention_prefill.hpp"
#include "ops/shape/gemm_sparse24.hpp"
#include "ops/shape/grouped_gemm.hpp"
#include "ops/shape/moe.hpp"
#include "ops/shape/recurrence.hpp"
#include "ops/shape/rope.hpp"
#include "ops/shape/rowwise.hpp"
#include "ops/shape/softmax_topk.hpp"
#include "ops/shape/sparsify24.hpp"
#include "ops/shape/spmv.hpp"
#include "ops/shape/topk.hpp"
#include "ops/table/table.hpp"

namespace plumbline::op_relations_test {
namespace {

/// `broken` is refused with that complaint and mended to `whole`, which holds.
void expect_mended(Op broken, const std::string& complaint, const Op& whole) {
  const char* found = broken_relation(broken);
  ASSERT_NE(found, nullptr) << complaint;
  EXPECT_EQ(found, complaint);
  EXPECT_EQ(broken_relation(whole), nullptr) << complaint;
  mend(broken);
  EXPECT_TRUE(broken == whole) << complaint;
}

TEST(Relations, QueryHeadsAreAMultipleOfTheKvHeads) {
  const char* complaint = "key 'Hq': expected a multiple of Hkv";
  expect_mended(AttentionDecode{1, 7, 4, 64, 64, 9}, complaint, AttentionDecode{1, 8, 4, 64, 64, 9});
  expect_mended(AttentionPrefill{1, 3, 4, 64, 64, 9, 9}, complaint, AttentionPrefill{1, 4, 4, 64, 64, 9, 9});
}

TEST(Relations, OnlyGradientsOfExpertsAreAddedUp) {
  expect_mended(GroupedGemm{8, 2, 9, 3, 4, 0, {}, false, true}, "key 'accumulate': expected with wgrad alone",
                GroupedGemm{8, 2, 9, 3, 4, 0, {}});
}

TEST(Relations, PrefillCountsItsNewTokensAmongTheKeysAndRotatesPairs) {
  expect_mended(AttentionPrefill{1, 4, 4, 64, 64, 9, 8},
                "key 'Skv': expected at least S (it counts the new tokens too)",
                AttentionPrefill{1, 4, 4, 64, 64, 9, 9});
  const AttentionPrefill across{1, 4, 4, 64, 64, 9, 8, false, 0, 0};
  EXPECT_EQ(broken_relation(across), nullptr) << "cross attention reads a sequence of its own";
  AttentionPrefill odd{1, 4, 4, 63, 64, 9, 9, true, 0, 1}, even = odd;
  even.qk_dim = 64;
  expect_mended(odd, "key 'D': expected an even number (it is rotated)", even);
  odd.append = 0;
  EXPECT_EQ(broken_relation(odd), nullptr) << "nothing is rotated";
  expect_mended(Rope{9, 4, 63}, "key 'D': expected an even number", Rope{9, 4, 64});
}

TEST(Relations, ChoicesAreNoMoreThanThereIs) {
  expect_mended(TopK{2, 8, 9}, "key 'k': expected at most cols", TopK{2, 8, 8});
  expect_mended(SoftmaxTopK{2, 8, 9}, "key 'k': expected at most cols", SoftmaxTopK{2, 8, 8});
  expect_mended(GroupedGemm{4, 5, 9, 8, 8, 0, {}}, "key 'topk': expected at most E", GroupedGemm{4, 4, 9, 8, 8, 0, {}});
  expect_mended(Spmv{3, 4, 13}, "key 'nnz': expected at most rows x cols", Spmv{3, 4, 12});
  EXPECT_EQ(broken_relation(TopK{2, 8, 8}), nullptr);
  EXPECT_EQ(broken_relation(Spmv{3, 4, 12}), nullptr);
}

TEST(Relations, GroupsAndFoursDivide) {
  expect_mended(Recurrence{RecurrentKind::mamba2, 1, 1, 6, 8, 8, 4}, "key 'H': expected a multiple of groups",
                Recurrence{RecurrentKind::mamba2, 1, 1, 8, 8, 8, 4});
  expect_mended(Sparsify24{6, 8}, "key 'rows': expected a multiple of 4 (two of each four weights are kept)",
                Sparsify24{8, 8});
  expect_mended(GemmSparse24{8, 8, 6, {}}, "key 'K': expected a multiple of 4 (two of each four weights are kept)",
                GemmSparse24{8, 8, 8, {}});
}

TEST(Relations, RowsAreLeftOverOfAPowerLawAlone) {
  Moe even;
  even.tokens = even.hidden = even.width = even.experts = even.topk = 8;
  Moe left = even;
  left.leftover = 1;
  expect_mended(left, "key 'leftover': expected 'alpha_pct' above 0 beside it", even);
  left.alpha_percent = 120;
  EXPECT_EQ(broken_relation(left), nullptr);
  Moe more = left;
  more.leftover = 3;
  left.leftover = 2;
  expect_mended(more, "key 'leftover': expected 0, 1 or 2", left);
}

TEST(Relations, OnlyNormsAddAResidual) {
  for (const RowwiseKind kind : {RowwiseKind::rmsnorm, RowwiseKind::layernorm}) {
    EXPECT_EQ(broken_relation(Rowwise{kind, 2, 3, true}), nullptr);
  }
  for (const RowwiseKind kind : {RowwiseKind::softmax, RowwiseKind::add, RowwiseKind::quantize}) {
    expect_mended(Rowwise{kind, 2, 3, true}, "key 'residual': only norms take it", Rowwise{kind, 2, 3, false});
  }
}

}  // namespace
}  // namespace plumbline::op_relations_test
