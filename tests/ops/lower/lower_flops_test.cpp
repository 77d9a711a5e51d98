// FLOPs of a lowered step against relations derived by hand.
#include <gtest/gtest.h>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_flops_test {
namespace {

double causal_pairs(double s) { return s * (s + 1) / 2; }

TEST(LowerFlops, Llama8bPrefillIsTwiceTheMatrixParametersATokenAndAttention) {
  const double batch = 3, s = 1000, tokens = batch * s, h = 4096, layers = 32, vocab = 128256;
  const Graph g = lower(llama_8b(), prefill(3, 1000));
  // 8,030,261,248 parameters, of which two tables, two norms a layer and the last norm multiply nothing.
  const double matrices = 8030261248.0 - 2 * vocab * h - (2 * layers + 1) * h;
  EXPECT_DOUBLE_EQ(tensor_flops(g, is_gemm), 2 * tokens * matrices + 2 * batch * vocab * h);
  EXPECT_DOUBLE_EQ(tensor_flops(g), tensor_flops(g, is_gemm) + layers * batch * 32 * causal_pairs(s) * 4 * 128);
}

TEST(LowerFlops, Llama8bDecodeAttendsToTheContextAndItself) {
  const double batch = 16, context = 2047, h = 4096, layers = 32, vocab = 128256;
  const Graph g = lower(llama_8b(), decode(16, 2047));
  const double matrices = 8030261248.0 - vocab * h - (2 * layers + 1) * h;
  EXPECT_DOUBLE_EQ(tensor_flops(g, is_gemm), 2 * batch * matrices);
  EXPECT_DOUBLE_EQ(tensor_flops(g) - tensor_flops(g, is_gemm), layers * batch * 32 * (context + 1) * 4 * 128);
}

TEST(LowerFlops, MixtralCountsActiveExpertsOnly) {
  const double tokens = 512, h = 4096, layers = 32, vocab = 32000;
  const Graph g = lower(mixtral(), prefill(1, 512));
  // 12,879,925,248 active parameters with both embeddings (published).
  const double matrices = 12879925248.0 - 2 * vocab * h - (2 * layers + 1) * h;
  EXPECT_DOUBLE_EQ(tensor_flops(g, is_gemm), 2 * tokens * matrices + 2 * vocab * h);
}

TEST(LowerFlops, DeepSeekV3PrefillExpanded) {
  const double s = 300, tokens = 2 * s, h = 7168, layers = 61, vocab = 129280;
  const Graph g = lower(deepseek_v3(), prefill(2, 300));
  // 37,552,297,472 active, less tables, norms (two of h, one of each latent, the last) and 58 router bias vectors.
  const double vectors = layers * (2 * h + 1536 + 512) + h + 58 * 256;
  const double matrices = 37552297472.0 - 2 * vocab * h - vectors;
  EXPECT_DOUBLE_EQ(tensor_flops(g, is_gemm), 2 * tokens * matrices + 2 * 2 * vocab * h);
  EXPECT_DOUBLE_EQ(tensor_flops(g) - tensor_flops(g, is_gemm), layers * 2 * 128 * causal_pairs(s) * 2 * (192 + 128));
}

TEST(LowerFlops, DeepSeekV3DecodeAbsorbsTheSameProjections) {
  const double batch = 8, context = 4095, h = 7168, layers = 61, vocab = 129280;
  const Graph g = lower(deepseek_v3(), decode(8, 4095));
  const double vectors = layers * (2 * h + 1536 + 512) + h + 58 * 256;
  const double matrices = 37552297472.0 - vocab * h - vectors;
  // q_absorb and v_up multiply by the two halves of kv_b: the same FLOPs a token as expanding one latent.
  EXPECT_DOUBLE_EQ(tensor_flops(g, is_gemm), 2 * batch * matrices);
  EXPECT_DOUBLE_EQ(tensor_flops(g) - tensor_flops(g, is_gemm), layers * batch * 128 * (context + 1) * 2 * (576 + 512));
}

TEST(LowerFlops, OneTokenOfPrefillMultipliesWhatADecodeStepDoes) {
  for (const Llm& m : all_models()) {
    if (!is_decoder(m) || m.stacks.size() > 1) continue;
    for (const Fusion fusion : {Fusion::none, Fusion::typical, Fusion::max}) {
      const Graph a = lower(m, prefill(4, 1, fusion)), b = lower(m, decode(4, 0, fusion));
      const auto dense = [](const Node& n) {
        return is_gemm(n) && std::string_view(n.name).substr(0, 5) != "attn_" &&
               std::string_view(n.name) != "index_scores";
      };
      EXPECT_DOUBLE_EQ(tensor_flops(a, dense), tensor_flops(b, dense)) << m.name;
    }
  }
}

TEST(LowerFlops, SlidingWindowCapsAttention) {
  const Graph g = lower(gpt_oss(), decode(2, 9999));
  EXPECT_DOUBLE_EQ(tensor_flops(g) - tensor_flops(g, is_gemm), 2.0 * 64 * 4 * 64 * (18 * 128 + 18 * 10000));
}

TEST(LowerFlops, ChunksAreSequencesOfTheirOwn) {
  const Graph g = lower(llama4(), prefill(2, 20000));
  const double full = causal_pairs(8192), rest = causal_pairs(20000 - 2 * 8192);
  const double chunked = 36 * 2 * 40 * (2 * full + rest), all = 12 * 2 * 40 * causal_pairs(20000);
  EXPECT_DOUBLE_EQ(tensor_flops(g) - tensor_flops(g, is_gemm), 4 * 128 * (chunked + all));
  // A decode step sees what is filled of its chunk.
  EXPECT_EQ(shape_of<AttentionDecode>(lower(llama4(), decode(1, 8192)), "attention").context, 1);
  EXPECT_EQ(shape_of<AttentionDecode>(lower(llama4(), decode(1, 8191)), "attention").context, 8192);
}

TEST(LowerFlops, DsaAttendsToAtMostItsTopK) {
  const Graph g = lower(deepseek_v32(), decode(4, 99999));
  EXPECT_EQ(shape_of<MlaDecode>(g, "attention").context, 2048);
  EXPECT_EQ(shape_of<TopK>(g, "index_topk").cols, 100000);
  EXPECT_DOUBLE_EQ(tensor_flops(g, [](const Node& n) { return std::string_view(n.name) == "index_scores"; }),
                   61.0 * 4 * 2 * 64 * 128 * 100000);
  EXPECT_EQ(shape_of<MlaDecode>(lower(deepseek_v32(), decode(4, 99)), "attention").context, 100);
}

TEST(LowerFlops, CompressedStreamSeesItsWindowAndThePooledTokens) {
  const Graph g = lower(compressed(), decode(1, 65535));
  std::vector<std::int64_t> contexts;
  for (const Node& n : g.nodes) {
    if (const auto* a = std::get_if<MlaDecode>(&n.op)) contexts.push_back(a->context);
  }
  ASSERT_EQ(contexts.size(), 2u);
  EXPECT_EQ(contexts[0], 128 + 65536 / 128);
  EXPECT_EQ(contexts[1], 128 + 512);  // 65536 / 4 pooled, of which the indexer takes 512
}

TEST(LowerFlops, EncoderDecoder) {
  // T5: the encoder reads the prompt, the decoder its start token.
  const Graph t = lower(t5(), prefill(2, 100));
  EXPECT_EQ(shape_of<AttentionPrefill>(t, "cross_attention").kv_len, 100);
  EXPECT_EQ(shape_of<AttentionPrefill>(t, "cross_attention").q_len, 1);
  // Whisper: fixed frames; the decoder reads the prompt.
  const Graph w = lower(t5(1500), prefill(2, 7));
  EXPECT_EQ(shape_of<AttentionPrefill>(w, "cross_attention").kv_len, 1500);
  EXPECT_EQ(shape_of<AttentionPrefill>(w, "cross_attention").q_len, 7);
  // Decode: no encoder, no projection of its tokens.
  const Graph step = lower(t5(1500), decode(2, 7));
  EXPECT_EQ(shape_of<AttentionDecode>(step, "cross_attention").context, 1500);
  EXPECT_EQ(find(step, "cross_kv_proj"), nullptr);
  for (const Segment& s : step.segments) EXPECT_STRNE(s.name, "encoder_layer");
}

TEST(LowerFlops, FluxJoinsLatentsAndText) {
  const Graph g = lower(flux(), prefill(1, 4096));
  const double both = 4096 + 512, h = 3072, matrices = 4 * h * h + 2 * h * 12288;
  const double gemms = 2 * both * matrices * (19 + 38) + 2 * h * (19 * 12 * h + 38 * 3 * h);
  EXPECT_DOUBLE_EQ(tensor_flops(g, is_gemm), gemms);
  EXPECT_DOUBLE_EQ(tensor_flops(g) - gemms, 57 * 24 * both * both * 4 * 128);
}

}  // namespace
}  // namespace plumbline::testing_support::lower_flops_test
