#include "ops/block/lines.hpp"

#include <algorithm>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "ops/table/text.hpp"

namespace plumbline::block {
namespace {

struct RoleWord {
  std::string_view word;
  NodeRole role;
};
constexpr std::array<RoleWord, 5> kRoles{{{"plain", NodeRole::plain},
                                          {"scores", NodeRole::scores},
                                          {"context", NodeRole::context},
                                          {"product", NodeRole::product},
                                          {"loss", NodeRole::loss}}};

/// What every line may have; the rest are its operator's keys.
constexpr std::array<std::string_view, 8> kCommon{"name", "op", "when", "role", "stream", "after", "type", "weights"};

bool is_common(std::string_view key) { return std::find(kCommon.begin(), kCommon.end(), key) != kCommon.end(); }

/// "qkv_quantize" of "qkv_proj".
std::string quantize_name(std::string name) {
  constexpr std::string_view kEnd = "_proj";
  if (name.size() > kEnd.size() && name.ends_with(kEnd)) name.resize(name.size() - kEnd.size());
  return name + "_quantize";
}

/// "attn_reduce_scatter" of "attn_all_reduce".
std::string scatter_name(std::string name) {
  constexpr std::string_view kEnd = "_all_reduce";
  if (name.size() > kEnd.size() && name.ends_with(kEnd)) name.resize(name.size() - kEnd.size());
  return name + "_reduce_scatter";
}

/// Has it a key of every line beside its name?
bool has_common(const std::vector<std::string>& keys) {
  return std::any_of(keys.begin(), keys.end(),
                     [](const std::string& key) { return key != "name" && key != "op" && is_common(key); });
}

void refuse_other_keys(const JsonValue& object, const std::vector<std::string>& keys,
                       std::initializer_list<std::string_view> known) {
  for (const std::string& key : keys) {
    if (is_common(key) || std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::vector<std::string> all(known.begin(), known.end());
    all.insert(all.end(), kCommon.begin(), kCommon.end());
    object.fail("unknown key '" + key.substr(0, 64) + "'" + did_you_mean(key, all));
  }
}

/// The number of a word that a key takes.
int value_of_word(const Key& key, const JsonValue& value) {
  const std::string word = value.as_string();
  if (key.type == KeyType::layout) {
    const auto* at = std::find(kWeightLayouts.begin(), kWeightLayouts.end(), word);
    if (at != kWeightLayouts.end()) return static_cast<int>(at - kWeightLayouts.begin());
    value.fail("expected nk, kn or km, found '" + word + "'");
  }
  if (key.type == KeyType::scaling) {
    const auto* at = std::find(kScalings.begin(), kScalings.end(), word);
    if (at != kScalings.end()) return static_cast<int>(at - kScalings.begin());
    value.fail("expected tensor, token or block, found '" + word + "'");
  }
  for (const RecurrentKind kind : {RecurrentKind::mamba1, RecurrentKind::mamba2, RecurrentKind::gated_delta_net}) {
    if (plumbline::name(kind) == word) return static_cast<int>(kind);
  }
  value.fail("expected mamba1, mamba2 or gated_delta_net, found '" + word + "'");
}

WeightsOf weights_of(const BlockLine& line) {
  if (line.kind == BlockLine::Kind::linear) return WeightsOf::linear;
  if (line.kind != BlockLine::Kind::op) return WeightsOf::nothing;
  const std::string_view op = line.op->name;
  if (op == "grouped_gemm") return WeightsOf::experts;
  if (op == "rmsnorm") return WeightsOf::norm;
  if (op == "layernorm") return WeightsOf::norm_and_bias;
  if (op == "causal_conv") return WeightsOf::convolution;
  if (line.weights < 0) return WeightsOf::nothing;
  return op == "gemm" ? WeightsOf::product : WeightsOf::other;
}

std::string texts_of(const JsonValue& value) {
  if (value.is_string()) return value.as_string();
  return format_exact(value.is_boolean() ? (value.as_bool() ? 1 : 0) : value.as_number());
}

}  // namespace

bool names(std::string_view text, std::string_view name) {
  const auto part = [&](std::size_t i) {
    const char c = i < text.size() ? text[i] : ' ';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (std::size_t i = text.find(name); i != std::string_view::npos; i = text.find(name, i + 1)) {
    if ((i == 0 || !part(i - 1)) && !part(i + name.size())) return true;
  }
  return false;
}

int LineReader::type_word(const JsonValue& value) const {
  const std::string word = value.as_string();
  if (word == "base") return kBaseType;
  if (word == "kv") return kCacheType;
  const std::vector<std::string>& known = text_.scope.names();
  if (const auto at = std::find(known.begin(), known.end(), word); at != known.end()) {
    const double number = text_.scope.values()[static_cast<std::size_t>(at - known.begin())];
    for (std::size_t i = 0; i < kDTypeCount; ++i) {
      if (static_cast<double>(i) == number) return static_cast<int>(i);
    }
  }
  if (const auto type = parse_dtype(word)) return static_cast<int>(*type);
  value.fail("expected base, kv or a data type, found '" + word + "'");
}

LineReader::LineReader(BlockText& text, Part part) : text_(text), part_(std::move(part)) {
  for (std::size_t i = 0; i < kStepNumbers; ++i) names_.emplace_back(plumbline::name(static_cast<StepNumber>(i)));
  names_.insert(names_.end(), text.scope.names().begin(), text.scope.names().end());
}

void LineReader::let(const JsonValue& object) {
  constexpr std::size_t kMost = 64;
  if (object.size() > kMost) object.fail("expected at most " + std::to_string(kMost) + " names");
  for (const std::string& key : object.keys()) {
    if (std::find(names_.begin(), names_.end(), key) != names_.end()) object.fail("'" + key + "' is a name already");
    let_names_.push_back(key);
    let_texts_.push_back(texts_of(object.at(key)));
  }
  let_views_.assign(let_names_.begin(), let_names_.end());
}

std::string LineReader::without_lets(std::string text, const JsonValue& value) const {
  constexpr int kDeepest = 8;
  for (int i = 0; i <= kDeepest; ++i) {
    std::string replaced = with_names_replaced(text, let_views_, let_texts_);
    if (replaced == text) return text;
    text = std::move(replaced);
    if (text.size() > 16 * Expression::kLongest) break;
  }
  value.fail("expected names of \"let\" that do not need one another in a circle");
}

int LineReader::expression(const std::string& written, const JsonValue& value) {
  const auto [at, is_new] = known_.try_emplace(written, static_cast<int>(text_.expressions.size()));
  if (!is_new) return at->second;
  const std::string text = let_views_.empty() ? written : without_lets(written, value);
  try {
    text_.expressions.emplace_back(text, names_);
  } catch (const BadInput& bad) {
    value.fail(bad.what());
  }
  if (names(text, "tp")) text_.shared_by_ranks = true;
  return at->second;
}

int LineReader::expression(const JsonValue& value) {
  if (value.is_string()) return expression(value.as_string(), value);
  const double number = value.is_boolean() ? (value.as_bool() ? 1 : 0) : value.as_number();
  const auto [at, is_new] = known_.try_emplace(format_exact(number), static_cast<int>(text_.expressions.size()));
  if (is_new) text_.expressions.emplace_back(number);
  return at->second;
}

std::vector<int> LineReader::waits(const JsonValue& value) const {
  std::vector<int> after;
  std::vector<JsonValue> all;
  if (value.is_array()) all = value.elements();
  else all.push_back(value);
  if (all.size() > 2 || all.empty()) value.fail("expected one or two names of operators before it, or \"input\"");
  for (const JsonValue& each : all) {
    const std::string name = each.as_string();
    const auto line = lines_.find(name);
    if (name == "input") after.push_back(-1);
    else if (line != lines_.end()) after.push_back(line->second);
    else each.fail("expected \"input\" or an operator before it, found '" + name.substr(0, 64) + "'");
  }
  return after;
}

void LineReader::formats(const JsonValue& object, BlockLine& line) const {
  const auto value = object.find("type");
  if (!value) return;
  const bool product = line.op == nullptr || line.op->precisions;
  if (!product) {
    line.type = type_word(*value);
    return;
  }
  const std::string word = value->as_string();
  if (word == "plain") line.weights_in = WeightsIn::plain;
  else if (word == "linear") line.weights_in = WeightsIn::linear;
  else if (word == "experts") line.weights_in = WeightsIn::experts;
  else if (const auto precision = parse_precision(word)) line.precision = *precision;
  else value->fail("expected plain, linear, experts or a precision, found '" + word + "'");
}

void LineReader::common(const JsonValue& object, BlockLine& line) {
  if (const auto when = object.find("when")) line.when = expression(*when);
  if (const auto after = object.find("after")) line.after = waits(*after);
  if (const auto stream = object.find("stream")) {
    const std::int64_t number = stream->as_integer();
    if (number != 0 && number != 1) stream->fail("expected 0 (compute) or 1 (communication)");
    line.stream = static_cast<int>(number);
  }
  if (const auto weights = object.find("weights")) line.weights = expression(*weights);
  const auto role = object.find_string("role");
  if (!role) return;
  const auto found =
      std::find_if(kRoles.begin(), kRoles.end(), [&](const RoleWord& each) { return each.word == *role; });
  if (found == kRoles.end()) object.at("role").fail("expected plain, scores, context, product or loss");
  line.role = found->role;
}

/// A product with weights: `rows` x `in` times `in` x `out`. "split" deals its columns ("out") or the sum over its inputs
/// ("in") to the tensor ranks.
void LineReader::linear(const JsonValue& object, const std::vector<std::string>& keys, BlockLine& line) {
  refuse_other_keys(object, keys, {"rows", "in", "out", "copies", "bias", "split", "quantize"});
  line.kind = BlockLine::Kind::linear;
  line.weights_in = WeightsIn::linear;
  const std::string split = object.find_string("split").value_or("none");
  if (split != "none" && split != "in" && split != "out") object.at("split").fail("expected in, out or none");
  if (split != "none") text_.shared_by_ranks = true;
  for (const char* side : {"in", "out"}) {
    const JsonValue value = object.at(side);
    const std::string text = texts_of(value);
    line.sizes.at(side == std::string_view("in") ? 1 : 2) =
        split == side ? expression("ceil((" + text + ")/tp)", value) : expression(value);
  }
  if (const auto rows = object.find("rows")) line.sizes[0] = expression(*rows);
  if (const auto copies = object.find("copies")) line.sizes[3] = expression(*copies);
  if (const auto bias = object.find("bias")) line.sizes[4] = expression(*bias);
  const auto quantize = object.find("quantize");
  if (quantize && quantize->is_boolean() && !quantize->as_bool()) return;
  const bool named = quantize && quantize->is_string();
  line.other = kept_node_name(named ? quantize->as_string() : quantize_name(line.name->whole));
}

/// Lines that are no operator of the table. False for those that are.
bool LineReader::special(const JsonValue& object, const std::vector<std::string>& keys, const std::string& op,
                         BlockLine& line) {
  if (op == "linear") {
    linear(object, keys, line);
    return true;
  }
  if (op == "quantize" && !object.has("out")) {
    refuse_other_keys(object, keys, {"rows", "cols"});
    line.kind = BlockLine::Kind::quantize;
    line.weights_in = WeightsIn::linear;
    line.sizes[1] = expression(object.at("cols"));
  } else if (op == "sum_over_ranks") {
    refuse_other_keys(object, keys, {"rows"});
    line.kind = BlockLine::Kind::sum_over_ranks;
    line.other = kept_node_name(scatter_name(line.name->whole));
    text_.shared_by_ranks = true;
  } else if (op == "gather_context" || op == "merge_context") {
    refuse_other_keys(object, keys, {"width", "heads"});
    const bool merge = op == "merge_context";
    line.kind = merge ? BlockLine::Kind::merge_context : BlockLine::Kind::gather_context;
    line.sizes[1] = expression(object.at("width"));
    if (merge) line.sizes[2] = expression(object.at("heads"));
    text_.splits_context = true;
  } else {
    return false;
  }
  if (const auto rows = object.find("rows")) line.sizes[0] = expression(*rows);
  return true;
}

void LineReader::table_op(const JsonValue& object, const std::vector<std::string>& keys, BlockLine& line) {
  const Operator& op = *line.op;
  if (op.name == "grouped_gemm") line.weights_in = WeightsIn::experts;
  std::uint64_t given = 0;
  for (const std::string& key : keys) {
    if (is_common(key)) continue;
    const auto found = std::find_if(op.keys.begin(), op.keys.end(), [&](const Key& each) { return each.name == key; });
    if (found == op.keys.end()) {
      object.fail("operator '" + std::string(op.name) + "': unknown key '" + key.substr(0, 64) + "', expected " +
                  std::string(op_usage(op.name)));
    }
    given |= std::uint64_t{1} << (found - op.keys.begin());
    const JsonValue value = object.at(key);
    BlockLine::KeyValue each{&*found, -1, kBaseType};
    if (found->type == KeyType::dtype) {
      each.type = type_word(value);
    } else if (found->type == KeyType::recurrence || found->type == KeyType::layout ||
               found->type == KeyType::scaling) {
      each.type = value_of_word(*found, value);
    } else {
      each.value = expression(value);
    }
    line.keys.push_back(each);
  }
  for (std::size_t i = 0; i < op.keys.size(); ++i) {
    if ((given >> i & 1u) != 0) continue;
    const Key& key = op.keys[i];
    if (key.required) {
      object.fail("operator '" + std::string(op.name) + "': missing key '" + std::string(key.name) + "', expected " +
                  std::string(op_usage(op.name)));
    }
    if (key.type != KeyType::dtype) line.absent.push_back(&key);
  }
}

const Operator* LineReader::operator_of(const std::string& name) {
  const auto [at, is_new] = operators_.try_emplace(name, nullptr);
  if (is_new) at->second = find_operator(name);
  return at->second;
}

void LineReader::line(const JsonValue& object) {
  if (!object.is_object()) object.fail("expected an operator: an object with \"op\" or \"use\"");
  BlockLine line;
  const std::vector<std::string> keys = object.keys();
  if (std::find(keys.begin(), keys.end(), "use") != keys.end() && object.has("use")) {
    line.kind = BlockLine::Kind::part;
    line.name = kept_node_name(object.find_string("use").value_or(""));
    line.part = part_(object);
    text_.shared_by_ranks = text_.shared_by_ranks || line.part->splits_ranks();
    text_.parts.push_back(text_.lines.size());
    text_.lines.push_back(std::move(line));
    return;
  }
  const std::string op = object.at("op").as_string();
  const std::string name = object.find_string("name").value_or(op);
  if (name.empty() || name.size() > 64) object.at("name").fail("expected a name of 1 to 64 characters");
  line.name = kept_node_name(name);
  if (!special(object, keys, op, line)) {
    line.op = operator_of(op);
    if (line.op == nullptr) {
      std::vector<std::string> known = op_names();
      for (const char* own : {"linear", "sum_over_ranks", "gather_context", "merge_context"}) known.emplace_back(own);
      object.at("op").fail("unknown operator '" + op.substr(0, 64) + "'" + did_you_mean(op, known));
    }
    table_op(object, keys, line);
  }
  if (has_common(keys)) {
    formats(object, line);
    common(object, line);
  }
  line.weights_of = weights_of(line);
  if (op == "attention_decode" || op == "mla_decode") text_.decode_attention.push_back(text_.lines.size());
  lines_.insert_or_assign(name, static_cast<int>(text_.lines.size()));
  text_.lines.push_back(std::move(line));
}

}  // namespace plumbline::block
