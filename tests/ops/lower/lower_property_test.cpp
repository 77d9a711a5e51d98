// Laws over random dense models and workloads.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support::lower_property_test {
namespace {

Llm random_dense() {
  const auto group = *rc::gen::element<std::int64_t>(1, 2, 4, 8);
  const auto kv = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto dim = *rc::gen::element<std::int64_t>(64, 96, 128, 256);
  AttentionSpec a = gqa(group * kv, kv, dim);
  a.rope = *rc::gen::arbitrary<bool>();
  a.qk_norm = *rc::gen::inRange(0, 3);
  a.window = *rc::gen::element<std::int64_t>(0, 0, 16, 128);
  FfnSpec f = gated(*rc::gen::inRange<std::int64_t>(1, 200) * 64);
  f.gated = *rc::gen::arbitrary<bool>();
  LayerSpec l = layer(a, f);
  l.norm = *rc::gen::element(NormKind::rms, NormKind::layer);
  l.norm_vectors = l.norm == NormKind::layer ? 2 : 1;
  l.parallel_block = *rc::gen::arbitrary<bool>();
  l.norms = l.parallel_block ? 1 : *rc::gen::element(2, 4);
  const auto hidden = *rc::gen::inRange<std::int64_t>(1, 100) * 64;
  return model("random", hidden, *rc::gen::inRange<std::int64_t>(2, 200000), {{l, *rc::gen::inRange(1, 100)}});
}

Fusion random_fusion() { return *rc::gen::element(Fusion::none, Fusion::typical, Fusion::max); }

RC_GTEST_PROP(LowerLaws, PrefillMultipliesEveryWeightOnceAToken, ()) {
  const Llm m = random_dense();
  const Workload w = prefill(*rc::gen::inRange(1, 9), *rc::gen::inRange(1, 3000), random_fusion());
  const LayerSpec& l = m.main().kinds.front();
  const double h = d(m.hidden), layers = d(static_cast<std::int64_t>(m.main().order.size()));
  const double expected = 2 * d(w.batch * w.prompt) * layers * active_matrices(l, h) + 2 * d(w.batch) * d(m.vocab) * h;
  const double found = tensor_flops(lower(m, w), is_weight_gemm);
  // Eager attention of one sequence and head is a plain GEMM: take it out.
  const auto& a = *l.mixer.as<AttentionSpec>();
  const bool single = w.fusion == Fusion::none && w.batch * a.q_heads == 1;
  const double attention = single ? layers * 4 * d(w.prompt) * d(w.prompt) * d(a.qk_dim) : 0;
  RC_ASSERT(std::abs(found - attention - expected) <= 1e-12 * expected);
}

RC_GTEST_PROP(LowerLaws, FusionOnlyRemoves, ()) {
  const Llm m = random_dense();
  const auto batch = *rc::gen::inRange(1, 9), length = *rc::gen::inRange(1, 3000);
  const int phase = *rc::gen::inRange(0, 3);
  const auto at = [&](Fusion f) {
    return lower(m, phase == 0   ? prefill(batch, length, f)
                    : phase == 1 ? decode(batch, length, f)
                                 : train(batch, length, f));
  };
  const Graph none = at(Fusion::none), typical = at(Fusion::typical), max = at(Fusion::max);
  RC_ASSERT(total_bytes(none) >= total_bytes(typical));
  RC_ASSERT(total_bytes(typical) >= total_bytes(max));
  RC_ASSERT(launches(none) >= launches(typical));
  RC_ASSERT(launches(typical) >= launches(max));
}

RC_GTEST_PROP(LowerLaws, BackwardGemmsAreTwiceForward, ()) {
  const Graph g = lower(random_dense(), train(*rc::gen::inRange(1, 5), *rc::gen::inRange(1, 2000), random_fusion()));
  const auto gemms = [&](Pass pass) {
    return tensor_flops(g, [&](const Node& n) { return n.pass == pass && is_gemm(n); });
  };
  RC_ASSERT(std::abs(gemms(Pass::backward) / gemms(Pass::forward) - 2) < 1e-12);
}

RC_GTEST_PROP(LowerLaws, MoreTokensNeverMeanLess, ()) {
  const Llm m = random_dense();
  const auto batch = *rc::gen::inRange(1, 9), context = *rc::gen::inRange(0, 5000);
  const Fusion f = random_fusion();
  const Graph a = lower(m, decode(batch, context, f)), b = lower(m, decode(batch, context + 1, f));
  RC_ASSERT(tensor_flops(b) >= tensor_flops(a));
  RC_ASSERT(total_bytes(b) >= total_bytes(a));
  RC_ASSERT(b.memory.total() >= a.memory.total());
  RC_ASSERT(a.nodes.size() == b.nodes.size());
}

}  // namespace
}  // namespace plumbline::testing_support::lower_property_test
