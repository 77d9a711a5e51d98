// Blocks of graph files: read, and found by name.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "ops/block/block.hpp"

namespace plumbline {

/// The blocks that a graph file may name with "use": those of its own "blocks", then those under data/blocks, then the
/// mixers of the library (ops/mixer).
class BlockLibrary {
 public:
  /// Blocks inside blocks, and operators of a file in all.
  static constexpr int kDeepest = 8;
  static constexpr std::size_t kMostLines = 100'000;

  explicit BlockLibrary(std::optional<JsonValue> own = std::nullopt) : own_(std::move(own)) {}

  /// What stands for a mixer: {"use": "gqa", "q_heads": 32, ...}, or {"ops": [...], "cache": [...]}. `scope` has the
  /// numbers that its values may name. Throws BadInput at what is not understood.
  LayerMixer read(const JsonValue& part, const Scope& scope, const std::string& name);
  /// The library's own of that name, where a block is written out as well.
  LayerMixer library_mixer(const JsonValue& use, const Scope& scope);
  /// Whether there is a block of that name that is written out.
  bool defines(const std::string& name) { return definition_of(name).has_value(); }
  /// Names that `use` takes.
  std::vector<std::string> names() const;

 private:
  LayerMixer used(const JsonValue& use, const Scope& scope);
  /// What reports call a part and its segment of a step, where a file says it at the use.
  struct Words {
    std::string segment, kind;
    bool shipped = false;  ///< the block lies under data/blocks
  };
  LayerMixer written(const JsonValue& definition, Scope scope, const std::string& name, const Words& words);
  std::optional<JsonValue> definition_of(const std::string& name);

  std::optional<JsonValue> own_;
  std::map<std::string, JsonDocument> shipped_;
  int depth_ = 0;
  std::size_t lines_ = 0;
};

}  // namespace plumbline
