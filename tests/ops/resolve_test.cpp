// Which stacks of a model run, and on how many tokens.
#include "ops/resolve/resolve.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::resolve_test {
namespace {

using lowering::lengths_of;
using lowering::runs;

/// Queries, keys, tokens of the encoder, tokens of the second stream.
std::vector<std::int64_t> lengths(const Llm& llm, const Workload& w, std::size_t stack = 0) {
  const lowering::Lengths n = lengths_of(llm, w, llm.stacks[stack]);
  return {n.q_len, n.kv_len, n.cross_len, n.text_tokens};
}
using Of = std::vector<std::int64_t>;

TEST(Lengths, ADecoderReadsThePromptOrOneTokenMoreThanTheContext) {
  EXPECT_EQ(lengths(llama_8b(), prefill(2, 100)), (Of{100, 100, 0, 0}));
  EXPECT_EQ(lengths(llama_8b(), train(2, 100)), (Of{100, 100, 0, 0}));
  EXPECT_EQ(lengths(llama_8b(), decode(2, 100)), (Of{1, 101, 0, 0}));
}

TEST(Lengths, AnEncoderWithoutALengthOfItsOwnReadsThePromptAndTheDecoderBeginsWithOneToken) {
  EXPECT_EQ(lengths(t5(), prefill(2, 100)), (Of{1, 1, 100, 0}));
  EXPECT_EQ(lengths(t5(), prefill(2, 100), 1), (Of{100, 100, 0, 0}));
  EXPECT_EQ(lengths(t5(), train(2, 100)), (Of{100, 100, 100, 0}));
  Workload w = decode(2, 30);
  w.prompt = 100;
  EXPECT_EQ(lengths(t5(), w), (Of{1, 31, 100, 0}));
}

TEST(Lengths, AnEncoderOfFixedLengthLeavesThePromptToTheDecoder) {
  EXPECT_EQ(lengths(t5(1500), prefill(2, 100)), (Of{100, 100, 1500, 0}));
  EXPECT_EQ(lengths(t5(1500), prefill(2, 100), 1), (Of{1500, 1500, 0, 0}));
  EXPECT_EQ(lengths(t5(1500), decode(2, 30)), (Of{1, 31, 1500, 0}));
}

TEST(Lengths, PicturesHaveTheirPatchesAndTextBesideThem) {
  EXPECT_EQ(lengths(vit(), prefill(2, 100)), (Of{197, 197, 0, 0}));
  EXPECT_EQ(lengths(flux(), prefill(2, 100)), (Of{100, 100, 0, 512}));
}

TEST(Runs, EncodersRunWithThePromptAndTowersNever) {
  const Llm seq2seq = t5();
  EXPECT_TRUE(runs(seq2seq, prefill(1, 9), seq2seq.stacks[0]));
  EXPECT_TRUE(runs(seq2seq, prefill(1, 9), seq2seq.stacks[1]));
  EXPECT_TRUE(runs(seq2seq, train(1, 9), seq2seq.stacks[1]));
  EXPECT_FALSE(runs(seq2seq, decode(1, 9), seq2seq.stacks[1]));
  Llm llava = llama_8b();
  llava.stacks.push_back(vit().stacks[0]);
  EXPECT_FALSE(runs(llava, prefill(1, 9), llava.stacks[1]));
}

TEST(Dropout, IsOfTheGenerationWithLayerNormAndNoGate) {
  using lowering::trains_with_dropout;
  using Role = StackSpec::Role;
  const LayerSpec old = classic(12, 64, true);
  EXPECT_TRUE(trains_with_dropout(old, Role::decoder));
  EXPECT_TRUE(trains_with_dropout(old, Role::encoder));
  EXPECT_FALSE(trains_with_dropout(old, Role::vision));
  EXPECT_FALSE(trains_with_dropout(old, Role::diffusion));
  LayerSpec changed = old;
  changed.norm = NormKind::rms;
  EXPECT_FALSE(trains_with_dropout(changed, Role::decoder));
  changed = old;
  changed.ffn->gated = true;
  EXPECT_FALSE(trains_with_dropout(changed, Role::decoder));
  changed = old;
  changed.ffn->experts = 8;
  EXPECT_FALSE(trains_with_dropout(changed, Role::decoder));
  changed = old;
  changed.ffn.reset();
  EXPECT_TRUE(trains_with_dropout(changed, Role::decoder)) << "an attention by itself";
  changed.mixer = {};
  EXPECT_FALSE(trains_with_dropout(changed, Role::decoder));
}

}  // namespace
}  // namespace plumbline::testing_support::resolve_test
