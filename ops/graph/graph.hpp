// Operators of one step on one rank, with counts, streams and dependencies. `lower` (ops/lower/lower.hpp) makes it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/facts/gradient.hpp"

namespace plumbline {

enum class Pass { forward, backward, update };

/// One operator of the step. Nodes of a segment run in order within one layer; the segment repeats.
struct Node {
  const char* name = "";  ///< "qkv_proj", "attention", ...: lives as long as the program; carries no meaning
  Op op;
  std::int64_t count = 1;  ///< executions a step, all repeats
  int segment = 0;
  int stream = 0;                      ///< 0 compute, 1 communication
  std::array<int, 2> depends{-1, -1};  ///< indices of nodes it waits for
  Pass pass = Pass::forward;
  NodeRole role = NodeRole::plain;
};

struct Segment {
  const char* name = "";  ///< "layer", "moe_layer", "embedding", "head", ...
  std::int64_t repeat = 1;
  int first = 0, size = 0;  ///< nodes [first, first + size)
};

/// Bytes this rank must hold; activations: the most that is alive at a time.
struct MemoryNeed {
  Bytes weights, kv_cache, activations, optimizer, workspace;
  Bytes total() const { return weights + kv_cache + activations + optimizer + workspace; }
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Segment> segments;
  MemoryNeed memory;
  double tokens = 0;  ///< tokens the step produces (decode) or consumes (prefill, train), all ranks
};

}  // namespace plumbline
