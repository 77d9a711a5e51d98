// What must hold of any operator's work, whatever its formula.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

#include "arch/error.hpp"
#include "ops/facts/work.hpp"
#include "ops/table/text.hpp"
#include "tests/support/random_op.hpp"

namespace plumbline::work_laws_test {
namespace {

using testing_support::random_dim;
using testing_support::random_op;
using testing_support::random_shape;

bool close(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(std::abs(a), std::abs(b)); }

/// `times` of one equals the other in every figure.
bool equals(const Work& a, const Work& b, double times = 1) {
  return close(times * a.tensor.in(units::FLOP), b.tensor.in(units::FLOP)) &&
         close(times * a.fp32.in(units::FLOP), b.fp32.in(units::FLOP)) && close(times * a.sfu, b.sfu) &&
         close(times * a.read.in(units::B), b.read.in(units::B)) &&
         close(times * a.write.in(units::B), b.write.in(units::B)) &&
         close(times * a.link.in(units::B), b.link.in(units::B));
}

RC_GTEST_PROP(WorkLaws, EveryOperatorMovesSomethingAndNothingNegative, ()) {
  const Op op = random_op();
  const Work w = work(op);
  RC_LOG() << op_name(op) << " " << shape_text(op);
  for (double figure : {w.tensor.in(units::FLOP), w.fp32.in(units::FLOP), w.sfu, w.read.in(units::B),
                        w.write.in(units::B), w.link.in(units::B)}) {
    RC_ASSERT(std::isfinite(figure) && figure >= 0);
  }
  // an operator of one's own may compute and move nothing
  RC_ASSERT(w.bytes().in(units::B) > 0 || std::holds_alternative<CustomOp>(op));
}

/// Keys that do not make an operator larger: rules of the mask, and how the work is spread. (Two of two experts lie on two
/// ranks, two of four on 1.67; groups confine which experts a token chooses.)
bool is_a_rule(std::string_view key) {
  return key == "window" || key == "page" || key == "gpus" || key == "causal" || key == "experts" || key == "groups";
}

/// Which experts a rank of a mixture has, and who likes which, decides how many rows it has.
bool is_a_rule_of_experts(std::string_view pair) {
  const std::string_view key = pair.substr(0, pair.find('='));
  return key != "T" && key != "H" && key != "I";
}

/// The shape's text with one size doubled; "" when the key holds no size.
std::string doubled(const std::string& shape, std::size_t from, std::size_t to) {
  const std::string pair = shape.substr(from, to - from);
  const std::size_t equals_sign = pair.find('=');
  const std::string key = pair.substr(0, equals_sign), value = pair.substr(equals_sign + 1);
  if (is_a_rule(key) || value.find_first_not_of("0123456789") != std::string::npos) return "";
  const std::string larger = std::to_string(2 * std::stoll(value));
  return shape.substr(0, from) + key + "=" + larger + shape.substr(to);
}

RC_GTEST_PROP(WorkLaws, ALargerShapeIsNeverLessWork, ()) {
  const Op op = random_op();
  // An appended token is read in its own type rather than in the cache's, which may be narrower.
  if (const auto* prefill = std::get_if<AttentionPrefill>(&op)) RC_PRE(prefill->append != 1);
  // A window over a longer context may begin and end on page boundaries and touch a page less.
  if (const auto* decode = std::get_if<AttentionDecode>(&op)) RC_PRE(decode->page == 0 || decode->window == 0);
  // More tokens of a power law may be few enough an expert at last that fewer experts have all of them.
  if (const auto* experts = std::get_if<Moe>(&op)) RC_PRE(experts->alpha_percent == 0);
  const std::string shape = shape_text(op);
  const Work before = work(op);
  for (std::size_t from = 0; from < shape.size();) {
    const std::size_t to = std::min(shape.find(';', from), shape.size());
    const std::string larger = doubled(shape, from, to);
    const bool rule =
        std::holds_alternative<Moe>(op) && is_a_rule_of_experts(std::string_view(shape).substr(from, to - from));
    from = to + 1;
    if (larger.empty() || rule) continue;
    Op grown;
    try {
      grown = parse_op(op_name(op), dtype_text(op), larger);
    } catch (const BadInput&) {
      continue;  // k > cols, Hkv > Hq, a flag above 1 ...
    }
    RC_LOG() << op_name(op) << " " << shape << " -> " << larger;
    const Work after = work(grown);
    const double slack = 1 + 1e-12;
    RC_ASSERT(after.flops() * slack >= before.flops());
    RC_ASSERT(after.sfu * slack >= before.sfu);
    RC_ASSERT(after.read * slack >= before.read);
    RC_ASSERT(after.write * slack >= before.write);
    RC_ASSERT(after.link * slack >= before.link);
  }
}

RC_GTEST_PROP(WorkLaws, IndependentCopiesAdd, (int which)) {
  const std::int64_t copies = random_dim(6);
  Op one = random_shape<Gemm>();
  if (which % 3 == 1) one = random_shape<AttentionDecode>();
  if (which % 3 == 2) one = random_shape<MlaDecode>();
  Op many = one;
  if (auto* gemm = std::get_if<Gemm>(&many)) gemm->batch *= copies;
  if (auto* decode = std::get_if<AttentionDecode>(&many)) decode->batch *= copies;
  if (auto* mla = std::get_if<MlaDecode>(&many)) mla->batch *= copies;
  RC_ASSERT(equals(work(one), work(many), static_cast<double>(copies)));
}

RC_GTEST_PROP(WorkLaws, OneQueryOfPrefillIsDecode, ()) {
  const AttentionDecode decode = random_shape<AttentionDecode>();
  AttentionDecode unpaged = decode;
  unpaged.page = 0;
  const AttentionPrefill prefill{decode.batch,    decode.q_heads,
                                 decode.kv_heads, decode.qk_dim,
                                 decode.v_dim,    1,
                                 decode.context,  true,
                                 decode.window,   0,
                                 decode.dtype,    decode.kv_dtype};
  RC_ASSERT(equals(work(unpaged), work(prefill)));
}

RC_GTEST_PROP(WorkLaws, OneExpertIsAGemm, ()) {
  const Gemm gemm = random_shape<Gemm>();
  const Gemm plain{gemm.m, gemm.n, gemm.k, 1, gemm.precision, false};
  RC_ASSERT(equals(work(plain), work(GroupedGemm{1, 1, gemm.m, gemm.n, gemm.k, 0, gemm.precision})));
}

/// Prefill by pieces (chunks, or token by token) looks at the same pairs as prefill at once.
RC_GTEST_PROP(WorkLaws, ChunksSeeThePairsOfTheWhole, ()) {
  AttentionPrefill whole = random_shape<AttentionPrefill>();
  whole.causal = true;
  whole.q_len += 1;
  whole.kv_len += 1;
  const std::int64_t first = *rc::gen::inRange<std::int64_t>(1, whole.q_len);
  AttentionPrefill head = whole, tail = whole;
  head.q_len = first;
  head.kv_len = whole.kv_len - whole.q_len + first;
  tail.q_len = whole.q_len - first;
  RC_ASSERT(visible_pairs(head) + visible_pairs(tail) == visible_pairs(whole));
}

TEST(WorkLaws, CausalHalvesTheSquare) {
  AttentionPrefill s{1, 1, 1, 128, 128, 4096, 4096};
  EXPECT_EQ(visible_pairs(s), 4096.0 * 4097 / 2);
  s.causal = false;
  EXPECT_EQ(visible_pairs(s), 4096.0 * 4096);
  s.window = 100;
  EXPECT_EQ(visible_pairs(s), 4096.0 * 100);
}

/// Figures that the reference notes state.
TEST(WorkLaws, KnownFigures) {
  EXPECT_EQ(work(parse_op("gemm", "bf16", "M=8192;N=8192;K=8192")).tensor.in(units::FLOP), 1099511627776.0);
  // RMSNorm + residual 4096 x 8192 bf16: 268 MB (gamma beside it).
  const Work norm = work(parse_op("rmsnorm", "bf16", "rows=4096;cols=8192;residual=1"));
  EXPECT_NEAR(norm.bytes().in(units::MB), 268.45, 0.05);
  // W4A16 GEMV 8192 x 28672: 121 MB with a scale for each 128 weights.
  EXPECT_NEAR(work(parse_op("gemm", "w4a16", "M=1;N=8192;K=28672")).read.in(units::MB), 121.2, 0.1);
  // Two-shot all-reduce of 64 MB over 8 ranks sends 117 MB.
  EXPECT_NEAR(work(parse_op("all_reduce", "bf16", "bytes=67108864;gpus=8")).link.in(units::MB), 117.4, 0.05);
}

}  // namespace
}  // namespace plumbline::work_laws_test
