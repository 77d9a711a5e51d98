// What must hold of every lowered graph, whatever the model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/ops/lower/lower_models.hpp"

namespace plumbline::testing_support {

inline std::vector<Workload> workloads(const Llm& m) {
  std::vector<Workload> all;
  for (const Fusion f : {Fusion::none, Fusion::typical, Fusion::max}) {
    all.push_back(prefill(2, 700, f));
    all.push_back(train(2, 300, f));
    if (is_decoder(m)) all.push_back(decode(5, 3000, f));
  }
  return all;
}

struct Sizes {
  double least = 1e300;
  void see(std::int64_t n) { least = std::min(least, static_cast<double>(n)); }
};

/// The smallest dimension of an operator: a zero would be a hole in the lowering.
inline double least_dimension(const Op& op) {
  Sizes s;
  if (const auto* g = std::get_if<Gemm>(&op)) s.see(std::min({g->m, g->n, g->k, g->batch}));
  if (const auto* g = std::get_if<GroupedGemm>(&op)) s.see(std::min({g->experts, g->topk, g->tokens, g->n, g->k}));
  if (const auto* r = std::get_if<Rowwise>(&op)) s.see(std::min(r->rows, r->cols));
  if (const auto* r = std::get_if<Rope>(&op)) s.see(std::min({r->tokens, r->heads, r->head_dim}));
  if (const auto* a = std::get_if<AttentionPrefill>(&op)) {
    s.see(std::min({a->batch, a->q_heads, a->kv_heads, a->qk_dim, a->v_dim, a->q_len, a->kv_len}));
  }
  if (const auto* a = std::get_if<AttentionDecode>(&op))
    s.see(std::min({a->batch, a->q_heads, a->kv_heads, a->context}));
  if (const auto* a = std::get_if<MlaDecode>(&op)) s.see(std::min({a->batch, a->heads, a->context, a->latent}));
  if (const auto* t = std::get_if<TopK>(&op)) s.see(std::min({t->rows, t->cols, t->k, t->cols - t->k + 1}));
  if (const auto* r = std::get_if<Recurrence>(&op))
    s.see(std::min({r->batch, r->seq, r->heads, r->head_dim, r->state}));
  if (const auto* c = std::get_if<CausalConv>(&op)) s.see(std::min({c->batch, c->seq, c->channels, c->width}));
  if (const auto* p = std::get_if<MoePermute>(&op)) s.see(std::min({p->tokens, p->topk, p->cols}));
  if (const auto* e = std::get_if<Embedding>(&op)) s.see(std::min(e->rows, e->cols));
  return s.least;
}

inline void check_graph(const Llm& m, const Graph& g) {
  int next = 0;
  for (std::size_t i = 0; i < g.segments.size(); ++i) {
    const Segment& s = g.segments[i];
    ASSERT_EQ(s.first, next) << m.name;
    ASSERT_GT(s.size, 0) << m.name;
    for (int n = s.first; n < s.first + s.size; ++n) {
      const Node& node = g.nodes[static_cast<std::size_t>(n)];
      EXPECT_EQ(node.segment, static_cast<int>(i)) << m.name << ' ' << node.name;
      EXPECT_EQ(node.count, s.repeat) << m.name << ' ' << node.name;
      EXPECT_EQ(node.depends[0] < 0, n == 0) << m.name << ' ' << node.name;
      EXPECT_LT(node.depends[0], n);
      EXPECT_LT(node.depends[1], n);
      EXPECT_GE(least_dimension(node.op), 1) << m.name << ' ' << node.name;
      EXPECT_STRNE(node.name, "");
    }
    next = s.first + s.size;
  }
  EXPECT_EQ(next, static_cast<int>(g.nodes.size()));
}

}  // namespace plumbline::testing_support
