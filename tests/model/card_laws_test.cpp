// Cards that nobody measured: what their predictions must obey, whatever the numbers are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/shape/shapes.hpp"
#include "ops/table/text.hpp"

namespace plumbline::card_laws_test {
namespace {

OpPrediction on(const std::string& gpu, const Op& op, const std::string& stack = "trt-llm",
                ClockMode clock = ClockMode::burst) {
  MachineOptions machine{stack};
  machine.clock = clock;
  Predictor predictor;
  OpPrediction out;
  predictor.predict(op, machines().get({gpu, machine}), out, {});
  return out;
}

Gemm product(std::int64_t m, std::int64_t n, std::int64_t k, const char* precision = "bf16") {
  Gemm s;
  s.m = m;
  s.n = n;
  s.k = k;
  s.precision = *parse_precision(precision);
  return s;
}

const std::vector<std::string> kCards{"b200_sxm", "b300_sxm", "gb200",    "rtx_pro_6000_server",
                                      "rtx_5090", "l40s",     "l4",       "rtx_6000_ada",
                                      "l20",      "rtx_4090", "rtx_a6000"};
constexpr std::int64_t kTokens[] = {1, 8, 16, 64, 128, 192, 256, 512, 1024, 2048, 8192};

double flops(const Gemm& s) { return 2.0 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k); }

TEST(CardLaws, AProductIsNoFasterThanTensorUnitsAtTheClockThatIsPrinted) {
  for (const std::string& card : kCards) {
    const Gpu gpu = machines().gpu(card);
    for (const ClockMode clock : {ClockMode::burst, ClockMode::steady}) {
      const Gemm s = product(8192, 8192, 8192);
      const OpPrediction p = on(card, s, "trt-llm", clock);
      const double peak =
          static_cast<double>(gpu.sm_count) * gpu.sm.tensor_flop_per_clk[DType::bf16] * p.clock.in(units::Hz);
      EXPECT_LT(flops(s) / p.time.in(units::s), peak) << card;
      EXPECT_GT(flops(s) / p.time.in(units::s), 0.6 * peak) << card << ": a library's kernel comes nearer than that";
    }
  }
}

/// A wave that is hardly begun may cost what it costs, but more rows are never worth 3 % less time.
TEST(CardLaws, MoreTokensAreNoQuicker) {
  for (const std::string& card : kCards) {
    for (const auto& [n, k] : {std::pair{4096, 4096}, {14336, 4096}, {1280, 8192}}) {
      Seconds before;
      for (const std::int64_t m : kTokens) {
        const Seconds time = on(card, product(m, n, k)).time;
        EXPECT_GT(time, 0.97 * before) << card << " M=" << m << " N=" << n;
        before = time;
      }
    }
  }
}

/// Tiles whose sums lie twice in tensor memory are half as large, so that a turn more is a smaller part: rows that double a
/// product beyond one turn never cost much more than their share. (512 x 28672 took 43 % more than 384: its 448 tiles of
/// 128 x 256 filled three turns of 148 SMs and began a fourth; 128 x 200 fill four.)
TEST(CardLaws, MoreRowsCostLittleMoreThanTheirShareOnTensorMemory) {
  constexpr std::int64_t kRows[] = {384, 512, 768, 1024, 1536, 2048, 4096, 8192};
  for (const char* card : {"b200_sxm", "gb200", "b300_sxm"}) {
    for (const auto& [n, k] : {std::pair{28672, 4096}, {10240, 8192}, {7168, 16384}}) {
      for (std::size_t i = 1; i < std::size(kRows); ++i) {
        const double share = static_cast<double>(kRows[i]) / static_cast<double>(kRows[i - 1]);
        const double ratio = on(card, product(kRows[i], n, k)).time / on(card, product(kRows[i - 1], n, k)).time;
        EXPECT_LT(ratio, 1.1 * share) << card << " M=" << kRows[i] << " N=" << n;
      }
    }
  }
}

/// Tiles of cuBLAS are to measure where tensor maps feed the tensor units, and powers of two elsewhere: 128 x 96 fill 172 of 188 SMs
/// in one turn, as 128 x 128 would 128 of them. Tensor memory holds the sums of 256 x 256, but what it holds twice costs no epilogue.
TEST(CardLaws, TilesAreToMeasureWhereTensorMapsFeedTheTensorUnits) {
  const auto plan = [](const char* card, std::int64_t m, std::int64_t n) {
    return on(card, product(m, n, 4096)).gemm_plan;
  };
  for (const char* card : {"rtx_pro_6000", "rtx_pro_6000_server"}) {
    EXPECT_EQ(plan(card, 512, 4096).tile_m * plan(card, 512, 4096).tile_n, 128 * 96) << card;
    EXPECT_EQ(plan(card, 512, 4096).stages, 3) << card << ": 28 KiB each of 100";
  }
  for (const char* card : {"a100_sxm", "a100_pcie"}) {
    const GemmPlan p = plan(card, 512, 4096);
    EXPECT_EQ(p.tile_m & (p.tile_m - 1), 0) << card;
    EXPECT_EQ(p.tile_n & (p.tile_n - 1), 0) << card;
  }
  const GemmPlan p = plan("b200", 8192, 28672);
  EXPECT_EQ(p.tile_m * p.tile_n, 128 * 256);
  EXPECT_EQ(p.stages, 6) << "half of the columns' operand is the pair's other SM's";
}

AttentionPrefill long_prompt(std::int64_t width, bool causal) {
  AttentionPrefill s;
  s.batch = 1;
  s.q_heads = s.kv_heads = 16;
  s.qk_dim = s.v_dim = width;
  s.q_len = s.kv_len = 32768;
  s.causal = causal;
  return s;
}

double attention_rate(const char* card, std::int64_t width, const char* stack) {
  const OpPrediction p = on(card, long_prompt(width, false), stack);
  double seconds = 0;
  for (int i = 0; i < p.launch_count; ++i)
    seconds = std::max(seconds, p.launches[static_cast<std::size_t>(i)].time.total.in(units::s));
  return 4.0 * 16 * 32768.0 * 32768.0 * static_cast<double>(width) / seconds;
}

/// FlashAttention-4's authors reach up to 1613 TFLOP/s on a B200 (arXiv 2603.05451, abstract).
TEST(CardLaws, PromptsOnTensorMemoryReachWhatItsAuthorsPublished) {
  EXPECT_LT(attention_rate("b200_sxm", 128, "vllm"), 1613e12);
  EXPECT_GT(attention_rate("b200_sxm", 128, "vllm"), 0.9 * 1613e12);
}

/// Heads of 64 wait for exponentials, whose unit Blackwell Ultra has twice; heads of 256 for products.
TEST(CardLaws, ExponentialsBindNarrowHeadsAlone) {
  const auto gain = [](std::int64_t width) {
    return attention_rate("b300_sxm", width, "trt-llm") / attention_rate("b200_sxm", width, "trt-llm");
  };
  EXPECT_GT(gain(64), 1.3);
  EXPECT_LT(gain(256), 1.1);
  for (const char* stack : {"trt-llm", "vllm"}) {
    EXPECT_GT(attention_rate("b200_sxm", 256, stack), attention_rate("b200_sxm", 128, stack)) << stack;
    EXPECT_GT(attention_rate("b200_sxm", 128, stack), attention_rate("b200_sxm", 64, stack)) << stack;
  }
}

/// SGLang's default decode on B200-class cards is TensorRT-LLM's, as vLLM's is; elsewhere FlashInfer's.
TEST(CardLaws, ServersShareDecodeOnTensorMemory) {
  const AttentionDecode s{16, 32, 8, 128, 128, 8192};
  EXPECT_EQ(on("b200_sxm", s, "sglang").time, on("b200_sxm", s, "vllm").time);
  EXPECT_NE(on("rtx_pro_6000", s, "sglang").time, on("rtx_pro_6000", s, "vllm").time);
  EXPECT_EQ(on("rtx_pro_6000", s, "sglang").provider, "flashinfer");
}

/// The next generation has more of everything; what may be a tenth slower is a launch of ten microseconds.
void no_slower_on_b200(const Op& op, const char* stack) {
  const Seconds hopper = on("h200_sxm", op, stack).time, blackwell = on("b200_sxm", op, stack).time;
  EXPECT_LT(blackwell, (hopper < 12.0 * units::us ? 1.1 : 1.0) * hopper) << stack << " " << shape_text(op);
}

TEST(CardLaws, B200IsNoSlowerThanH200) {
  for (const char* stack : {"trt-llm", "vllm"}) {
    for (const std::int64_t m : kTokens) no_slower_on_b200(product(m, 8192, 4096), stack);
    AttentionDecode decode{1, 32, 8, 128, 128, 8192};
    for (const auto& [batch, heads, keys] : {std::tuple{1, 8, 8192}, {16, 8, 4096}, {1, 1, 65536}, {64, 1, 8192}}) {
      decode.batch = batch;
      decode.kv_heads = heads;
      decode.q_heads = 8 * heads;
      decode.context = keys;
      no_slower_on_b200(decode, stack);
    }
    AttentionPrefill prompt;
    prompt.batch = 1;
    prompt.q_heads = 32;
    prompt.kv_heads = 8;
    prompt.qk_dim = prompt.v_dim = 128;
    prompt.causal = true;
    for (const std::int64_t tokens : {2048, 8192}) {
      prompt.q_len = prompt.kv_len = tokens;
      no_slower_on_b200(prompt, stack);
    }
  }
}

/// Weights for one token come at what tiles reach of GDDR: 0.977 of the data sheet's for a stream (its kind of memory), 0.966
/// of that for tiles. (An RTX A6000 took 1406 us, a row of the training side.)
TEST(CardLaws, TilesReadGddrAlmostAsAStreamDoes) {
  const double bytes = 128256.0 * 4096 * 2;
  const double seconds = on("rtx_a6000", product(1, 128256, 4096)).time.in(units::s);
  EXPECT_NEAR(seconds, bytes / (768e9 * 0.977 * 0.966), 0.02 * seconds);
}

/// What the main loop loses are cycles: 128 x 256 tiles on half as fast tensor units lose half the share.
TEST(CardLaws, SlowerTensorUnitsLoseLess) {
  const auto reached = [](const char* card) {
    const Gpu gpu = machines().gpu(card);
    const Gemm s = product(16384, 16384, 8192);
    const OpPrediction p = on(card, s);
    return flops(s) / p.time.in(units::s) /
           (static_cast<double>(gpu.sm_count) * gpu.sm.tensor_flop_per_clk[DType::bf16] * p.clock.in(units::Hz));
  };
  EXPECT_GT(reached("rtx_4090"), reached("l40s") + 0.03);
  EXPECT_LT(reached("rtx_4090"), 1);
}

/// Logic of a better process takes less, and what a burst draws over the cap is as on Hopper.
TEST(CardLaws, ABurstDrawsNoLargerShareOfTheCapThanOnHopper) {
  const Gemm s = product(4096, 4096, 4096);
  const auto over = [&](const char* card) { return *on(card, s).power / machines().gpu(card).tdp; };
  EXPECT_LT(over("b200_sxm"), 1.15 * over("h200_sxm"));
  const auto per_flop = [&](const char* card) { return on(card, s).energy->in(units::J) / flops(s); };
  EXPECT_LT(per_flop("b200_sxm"), 0.85 * per_flop("h200_sxm"));
}

/// Weights that are unpacked in registers leave room for 128 x 128 sums, where plain products have 128 x 256.
TEST(CardLaws, KernelsThatUnpackWeightsHaveSmallerTiles) {
  for (const char* card : {"a100_sxm", "l40s", "rtx_4090", "rtx_pro_6000"}) {
    const auto sums = [&](const char* precision) {
      const GemmPlan plan = on(card, product(8192, 8192, 8192, precision)).gemm_plan;
      return plan.tile_m * plan.tile_n;
    };
    EXPECT_EQ(sums("bf16"), 128 * 256) << card;
    EXPECT_LE(sums("w4a16"), 128 * 128) << card;
  }
}

/// A slot gives 75 W: boards of less have no burst above their cap, nor has one that holds it within milliseconds; dense work there is at
/// the settled clock.
TEST(CardLaws, ABoardFedByItsSlotHasNoBurst) {
  const Gemm s = product(8192, 8192, 8192);
  for (const char* card : {"l4", "t4", "l40s"}) {
    Gemm half = s;
    half.precision = *parse_precision("fp16");
    const OpPrediction burst = on(card, half), steady = on(card, half, "trt-llm", ClockMode::steady);
    EXPECT_EQ(burst.time, steady.time) << card;
    EXPECT_LE(*burst.power, machines().gpu(card).tdp) << card;
    EXPECT_LT(burst.clock, machines().gpu(card).boost_clock) << card;
  }
  EXPECT_GT(*on("rtx_6000_ada", s).power, machines().gpu("rtx_6000_ada").tdp) << "it has a connector";
}

/// What warpgroup instructions leave of a Hopper's peak within a launch is no share of mma.sync's: such a card takes none over, as an
/// A100 has none, and units of half the rate are then busy through nearly all of FlashAttention-2's prompts.
TEST(CardLaws, MmaSyncTakesNoShareOfTheTensorRateOver) {
  for (const std::string& card : kCards) {
    const Machine& m = machines().get({card, MachineOptions{"hf-sdpa"}});
    const bool mma_sync = m.gpu().sm.matrix_unit == MatrixUnit::mma_sync;
    const double an_a100s = 0.93;  // in long launches; 0.99 in short ones
    EXPECT_EQ(m.rates().tensor_fraction >= an_a100s, mma_sync) << card;
    EXPECT_EQ(m.rates().tensor_steady_fraction >= an_a100s, mma_sync) << card;
  }
  for (const std::string card : {"rtx_4090", "rtx_5090", "l20"}) {
    AttentionPrefill s{4, 32, 32, 128, 128, 8192, 8192};
    s.causal = false;
    s.append = 0;
    const OpPrediction p = on(card, s, "hf-sdpa");
    const Gpu gpu = machines().gpu(card);
    const double done = 4.0 * 4 * 32 * 8192.0 * 8192 * 128 / p.time.in(units::s);
    const double peak =
        static_cast<double>(gpu.sm_count) * gpu.sm.tensor_flop_per_clk[DType::bf16] * gpu.boost_clock.in(units::Hz);
    EXPECT_GT(done, 0.8 * peak) << card;
    EXPECT_LT(done, peak) << card;
  }
}

/// Up to 16 parts meet in a cluster: a merge that takes no longer for more of them; beyond it goes by bytes.
TEST(CardLaws, PartsOfDecodeMeetInACluster) {
  AttentionDecode s{1, 8, 1, 128, 128, 4096};
  const auto chain = [&](std::int64_t keys) {
    s.context = keys;
    const OpPrediction p = on("b200_sxm", s);
    return p.launches[static_cast<std::size_t>(p.launch_count - 1)].demand.serial_latency;
  };
  EXPECT_EQ(chain(512), chain(4096)) << "2 and 16 parts";
  EXPECT_GT(chain(4608), chain(4096)) << "18 parts";
  EXPECT_LT(chain(65536) - chain(4096), 4.0 * units::us) << "148 parts of 8 x 128 halves";
}

/// Scales lie apart from the values: a row of 2880 values of 4 bits is 1440 bytes, whole units of 16 as tensor maps want them, which
/// 2880 times 4.5 bits are not. (2048 x 4096 took five times as long of K = 384 as of 512, and 2880 cubed eleven times as of 2816.)
TEST(CardLaws, ScalesOfNarrowOperandsAreNotInTheirRows) {
  for (const char* card : {"b200_sxm", "b300_sxm", "rtx_pro_6000"}) {
    for (const std::int64_t n : {2880, 4096}) {
      Seconds before;
      for (const std::int64_t k : {256, 384, 512, 640, 896, 1024, 1408, 1536, 2816, 2880}) {
        const Seconds time = on(card, product(1024, n, k, "nvfp4")).time;
        EXPECT_GT(time, 0.9 * before) << card << " N=" << n << " K=" << k
                                      << ": rows of 1408 end within a line of 128 bytes";
        before = time;
        Gemm scaled = product(1024, n, k, "fp8");
        const Seconds plain = on(card, scaled).time;
        scaled.block = 32;
        EXPECT_LT(on(card, scaled).time, 1.15 * plain) << card << " N=" << n << " K=" << k;
      }
    }
  }
}

MlaDecode latent(std::int64_t batch, std::int64_t heads, std::int64_t keys, DType kv = DType::bf16) {
  MlaDecode s;
  s.batch = batch;
  s.heads = heads;
  s.context = keys;
  s.latent = 512;
  s.rope = 64;
  s.kv_dtype = kv;
  return s;
}

/// TensorRT-LLM's kernels for tcgen05 cut keys until CTAs fill the card once and no more (fmhaKernels.h, computeNumCtas()). FlashMLA's
/// deal had stood there, with twice as many, so that 8 sequences began a second turn.
TEST(CardLaws, LatentDecodeFillsTensorMemoryOnce) {
  for (const char* card : {"b200_sxm", "gb300"}) {
    const Gpu gpu = machines().gpu(card);
    for (const char* stack : {"trt-llm", "vllm", "sglang"}) {
      for (const std::int64_t heads : {8, 16, 64, 128}) {
        for (const std::int64_t batch : {1, 3, 8, 32, 64}) {
          const OpPrediction p = on(card, latent(batch, heads, 4096, DType::fp8), stack);
          for (int i = 0; i < p.launch_count; ++i) {
            const KernelPlan& plan = p.launches[static_cast<std::size_t>(i)].demand.plan;
            if (plan.threads == 512 && plan.ctas_per_sm == 1) {
              EXPECT_LE(plan.ctas, gpu.sm_count) << card << " " << stack << " H=" << heads << " B=" << batch;
            }
          }
        }
      }
    }
  }
}

/// Queries take the type of the cache, as with other decode.
TEST(CardLaws, LatentDecodeOfNarrowKeysKeepsToItsRoofline) {
  for (const char* card : {"b200_sxm", "rtx_pro_6000", "h200_sxm", "l40s"}) {
    for (const std::int64_t batch : {1, 64, 1024}) {
      const Op op = latent(batch, 128, 4096, DType::fp8);
      const OpPrediction p = on(card, op);
      EXPECT_GE(p.time, p.roofline) << card << " B=" << batch;
    }
  }
}

TEST(CardLaws, LatentDecodeOnTensorMemoryIsNoSlowerThanOnHopper) {
  for (const std::int64_t heads : {8, 16, 32, 64, 128}) {
    for (const std::int64_t batch : {8, 32, 128, 1024}) {
      for (const DType kv : {DType::bf16, DType::fp8}) no_slower_on_b200(latent(batch, heads, 4096, kv), "trt-llm");
    }
  }
}

}  // namespace
}  // namespace plumbline::card_laws_test
