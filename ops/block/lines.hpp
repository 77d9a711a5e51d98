// Inside of blocks: their lines, as they stand in a file.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ops/block/block.hpp"

namespace plumbline::block {

/// Whether a name stands alone in an expression.
bool names(std::string_view text, std::string_view name);

/// Reads what a block's object holds into its text.
class LineReader {
 public:
  /// Reads what stands for a part: a block inside the block.
  using Part = std::function<LayerMixer(const JsonValue& use)>;

  LineReader(BlockText& text, Part part);
  /// Names for arithmetic over the step's numbers; what names them has it in their place.
  void let(const JsonValue& object);
  /// kBaseType, kCacheType or a DType by its word, or by a parameter that is one. Throws BadInput at the value.
  int type_word(const JsonValue& value) const;
  void line(const JsonValue& object);
  /// The place of an expression among the block's; the same text has the same place.
  int expression(const JsonValue& value);

 private:
  int expression(const std::string& text, const JsonValue& value);
  std::string without_lets(std::string text, const JsonValue& value) const;
  void common(const JsonValue& object, BlockLine& line);
  void table_op(const JsonValue& object, const std::vector<std::string>& keys, BlockLine& line);
  bool special(const JsonValue& object, const std::vector<std::string>& keys, const std::string& op, BlockLine& line);
  void linear(const JsonValue& object, const std::vector<std::string>& keys, BlockLine& line);
  void formats(const JsonValue& object, BlockLine& line) const;
  const Operator* operator_of(const std::string& name);
  std::vector<int> waits(const JsonValue& value) const;

  BlockText& text_;
  Part part_;
  std::vector<std::string> names_, let_names_, let_texts_;
  std::vector<std::string_view> let_views_;
  std::unordered_map<std::string, int> known_;
  std::unordered_map<std::string, int> lines_;
  std::unordered_map<std::string, const Operator*> operators_;  ///< as they were found
};

}  // namespace plumbline::block
