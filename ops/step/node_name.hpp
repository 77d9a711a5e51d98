// Names of nodes: a literal and the names of its gradients, made when the program is compiled.
//
//   s.linear("qkv_proj"_node, ...)                                    "qkv_proj", in training "qkv_proj.dx" and ".dw"
//   s.gemm("attn_scores"_node.as(NodeRole::scores), ...)              "attn_scores.dq" and ".dk"
//
// What a node is to its neighbours is its role; nothing reads a name.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "ops/facts/gradient.hpp"

namespace plumbline::lowering {

template <std::size_t N>
struct Literal {
  char text[N]{};
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is passed as it stands
  consteval Literal(const char (&from)[N]) { std::copy_n(from, N, text); }
};

template <Literal kName, Literal kEnd>
inline constexpr auto kJoined = [] {
  constexpr std::size_t kLength = sizeof kName.text - 1;
  std::array<char, kLength + sizeof kEnd.text> joined{};
  std::copy_n(kName.text, kLength, joined.begin());
  std::copy_n(kEnd.text, sizeof kEnd.text, joined.begin() + kLength);
  return joined;
}();

struct NodeName {
  const char* whole;
  const char *dx, *dw, *db, *dq, *dk, *dp, *dv, *recompute, *reverse;

  const char* of(GradientPart part) const {
    switch (part) {
      case GradientPart::whole: return whole;
      case GradientPart::dx: return dx;
      case GradientPart::dw: return dw;
      case GradientPart::db: return db;
      case GradientPart::dq: return dq;
      case GradientPart::dk: return dk;
      case GradientPart::dp: return dp;
      case GradientPart::dv: return dv;
      case GradientPart::recompute: return recompute;
      case GradientPart::reverse: return reverse;
    }
    return whole;
  }
};

template <Literal kName>
inline constexpr NodeName kNodeName{.whole = kJoined<kName, "">.data(),
                                    .dx = kJoined<kName, ".dx">.data(),
                                    .dw = kJoined<kName, ".dw">.data(),
                                    .db = kJoined<kName, ".db">.data(),
                                    .dq = kJoined<kName, ".dq">.data(),
                                    .dk = kJoined<kName, ".dk">.data(),
                                    .dp = kJoined<kName, ".dp">.data(),
                                    .dv = kJoined<kName, ".dv">.data(),
                                    .recompute = kJoined<kName, ".recompute">.data(),
                                    .reverse = kJoined<kName, ".reverse">.data()};

/// A name, and the role of the node that gets it.
struct NodeTag {
  const NodeName* name;
  NodeRole role = NodeRole::plain;
  constexpr NodeTag as(NodeRole other) const { return {name, other}; }
};

template <Literal kName>
constexpr NodeTag operator""_node() {
  return {&kNodeName<kName>};
}

}  // namespace plumbline::lowering
