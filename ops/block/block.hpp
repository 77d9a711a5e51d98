// A part of a layer as files write it: operators whose shapes are arithmetic over the step's numbers and parameters.
//
// It is a mixer like those of ops/mixer: parameters, cache, memory and sharding follow from its operators, where the file
// does not say them.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/block/scope.hpp"
#include "ops/mixer/mixer.hpp"
#include "ops/rewrite/expression.hpp"
#include "ops/step/step.hpp"
#include "ops/table/table.hpp"

namespace plumbline {

/// Formats of an operator by the words that files have for them. A type from 0 on is that DType.
inline constexpr int kBaseType = -1;   ///< activations
inline constexpr int kCacheType = -2;  ///< keys and values: the cache's format, where there is one
enum class WeightsIn : std::uint8_t { plain, linear, experts };

/// What of an operator's shape its weights follow from.
enum class WeightsOf : std::uint8_t { nothing, linear, experts, norm, norm_and_bias, convolution, product, other };

/// One line of a block's operators. Numbers are places among the block's expressions; -1: none.
struct BlockLine {
  enum class Kind : std::uint8_t { op, linear, quantize, sum_over_ranks, gather_context, merge_context, part };
  struct KeyValue {
    const Key* key = nullptr;
    int value = -1;        ///< expression
    int type = kBaseType;  ///< of a key that is a type
  };

  Kind kind = Kind::op;
  const lowering::NodeName* name = nullptr;
  const lowering::NodeName* other = nullptr;  ///< of a linear its quantization, of a sum its reduce-scatter
  NodeRole role = NodeRole::plain;
  int stream = 0, when = -1;
  std::vector<int> after;  ///< lines that it waits for, -1 the block's input; empty: the one before it
  const Operator* op = nullptr;
  int type = kBaseType;
  WeightsIn weights_in = WeightsIn::plain;
  std::optional<Precision> precision;
  std::vector<KeyValue> keys;
  std::vector<const Key*> absent;
  /// linear: rows, in, out, copies, bias. quantize and sums: rows, cols. Contexts: heads, width.
  std::array<int, 5> sizes{-1, -1, -1, -1, -1};
  WeightsOf weights_of = WeightsOf::nothing;
  int weights = -1;  ///< elements of its weights, where they do not follow from the shape
  LayerMixer part;
};

/// What one sequence keeps, elements.
struct BlockCache {
  int elements = -1;
  int type = kCacheType;
};

/// A block as it was read. Copies of its mixer share it.
struct BlockText {
  std::string name, segment, kind;
  std::vector<std::pair<std::string, double>> given;  ///< of a block under data/blocks, what its parameters are here
  Scope scope;                                        ///< parameters with their values
  std::vector<Expression> expressions;
  std::vector<BlockLine> lines;
  std::vector<std::size_t> parts, decode_attention;  ///< lines that are
  std::vector<BlockCache> cache;
  std::int64_t heads = 0;
  bool shared_by_ranks = false;  ///< it says how tensor ranks share it
  bool splits_context = false;
  int matrices = -1, vectors = -1, live = -1, stored = -1;
};

struct BlockSpec final : MixerOf<BlockSpec> {
  std::shared_ptr<const BlockText> text;

  BlockSpec() = default;
  explicit BlockSpec(std::shared_ptr<const BlockText> read) : text(std::move(read)) {}
  bool operator==(const BlockSpec& other) const = default;
  std::string_view block() const override { return text ? std::string_view(text->name) : std::string_view(); }
  std::string kind() const override { return text ? (text->kind.empty() ? text->name : text->kind) : ""; }
  ParamCount params(std::int64_t hidden) const override;
  double idle_params(std::int64_t hidden) const override;
  double expert_params(std::int64_t hidden) const override;
  double whole_params(std::int64_t hidden) const override;
  double kv_elements() const override;
  Bytes cache(const CacheQuery& query) const override;
  double stored(const MixerLoad& load) const override;
  double live(const MixerLoad& load) const override;
  Bytes partials(double sequences, std::int64_t tensor) const override;
  SegmentNames segment() const override;
  std::int64_t split_heads() const override { return text->heads; }
  bool splits_ranks() const override { return text->shared_by_ranks; }
  bool splits_context() const override { return text->splits_context; }
  void lower(lowering::Step& step) const override;
};

/// A name of nodes, and of their gradients, that lives as long as the program.
const lowering::NodeName* kept_node_name(const std::string& name);

}  // namespace plumbline
