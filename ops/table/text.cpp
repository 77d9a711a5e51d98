#include "ops/table/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "ops/facts/precision.hpp"
#include "ops/table/table.hpp"
#include "ops/whole_number.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kLargestDim = std::int64_t{1} << 40, kLargestAmount = std::int64_t{1} << 53;
/// Elements of a tensor: 2^59, so that at 8 bytes each they stay below 2^62.
constexpr double kMostElements = 576460752303423488.0;
/// Multiply-adds, and pairs: below 2^62, so that int64 products of dims do not overflow.
constexpr double kMostProducts = 4611686018427387904.0;

/// `quantize` is a row's scale or a given one; with `scaling` it is the operator that finds scales in one of three
/// ways.
constexpr std::string_view kQuantize = "quantize", kScaling = "scaling", kDynamic = "quantize_dynamic";
constexpr std::string_view kScalingWords = " (tensor|token|block)";

/// User text inside a one-line message.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text.substr(0, 60)) out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  if (text.size() > 60) out += "...";
  out += '\'';
  return out;
}

[[noreturn]] void fail(std::string_view op, const std::string& what) {
  std::string message = "op '";
  message.append(op).append("': ").append(what);
  throw BadInput(message);
}

std::string key_label(std::string_view key) {
  std::string label = "key '";
  label.append(key).append("'");
  return label;
}

std::vector<std::string> key_names(const Operator& spec) {
  std::vector<std::string> names;
  for (const Key& key : spec.keys) names.emplace_back(key.name);
  return names;
}

constexpr std::array<RecurrentKind, 3> kRecurrent{RecurrentKind::mamba1, RecurrentKind::mamba2,
                                                  RecurrentKind::gated_delta_net};

std::vector<std::string> dtype_names(bool precisions = false) {
  std::vector<std::string> names;
  if (precisions) return {precision_names().begin(), precision_names().end()};
  for (std::size_t i = 0; i < kDTypeCount; ++i) names.emplace_back(name(static_cast<DType>(i)));
  return names;
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& each : names) text.append(text.empty() ? "" : ", ").append(each);
  return text;
}

bool same_but_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

/// What an operator is called elsewhere, and here.
constexpr auto kOtherNames = std::to_array<std::array<std::string_view, 2>>({{"matmul", "gemm"},
                                                                             {"mm", "gemm"},
                                                                             {"bmm", "gemm"},
                                                                             {"linear", "gemm"},
                                                                             {"dense", "gemm"},
                                                                             {"gemv", "gemm"},
                                                                             {"fused_moe", "moe"},
                                                                             {"experts", "moe"},
                                                                             {"attention", "attention_prefill"},
                                                                             {"sdpa", "attention_prefill"},
                                                                             {"mha", "attention_prefill"},
                                                                             {"flash_attention", "attention_prefill"},
                                                                             {"fmha", "attention_prefill"},
                                                                             {"prefill", "attention_prefill"},
                                                                             {"mla_prefill", "attention_prefill"},
                                                                             {"context_mla", "attention_prefill"},
                                                                             {"decode", "attention_decode"},
                                                                             {"paged_attention", "attention_decode"},
                                                                             {"mla", "mla_decode"},
                                                                             {"generation_mla", "mla_decode"},
                                                                             {"mamba", "recurrence"},
                                                                             {"mamba1", "recurrence"},
                                                                             {"mamba2", "recurrence"},
                                                                             {"gated_delta_net", "recurrence"},
                                                                             {"conv1d", "causal_conv"},
                                                                             {"norm", "rmsnorm"},
                                                                             {"layer_norm", "layernorm"},
                                                                             {"rms_norm", "rmsnorm"},
                                                                             {"rotary", "rope"},
                                                                             {"rotary_embedding", "rope"},
                                                                             {"silu_and_mul", "swiglu"},
                                                                             {"transpose", "transpose_copy"},
                                                                             {"memcpy", "d2d"},
                                                                             {"allreduce", "all_reduce"},
                                                                             {"allgather", "all_gather"},
                                                                             {"alltoall", "all_to_all"},
                                                                             {"reducescatter", "reduce_scatter"}});

std::string meant_operator(std::string_view op) {
  for (const auto& [other, ours] : kOtherNames) {
    if (same_but_case(op, other) && find_operator(ours) != nullptr) {
      return std::string(" (did you mean '").append(ours).append("'?)");
    }
  }
  return did_you_mean(op, op_names());
}

const Operator& require_operator(std::string_view op) {
  const Operator* spec = find_operator(op);
  if (spec != nullptr) return *spec;
  if (op.find('=') != op.npos)
    throw BadInput("op " + quoted(op) + ": expected an operator before its keys, such as gemm");
  throw BadInput("op " + quoted(op) + ": unknown operator" + meant_operator(op));
}

Precision read_precision(const Operator& spec, std::string_view dtype) {
  if (dtype.empty()) return Precision{};
  if (spec.precisions) {
    if (const auto precision = parse_precision(dtype)) return *precision;
  } else if (const auto type = parse_dtype(dtype)) {
    return Precision{*type, *type, *type, *type};
  }
  const auto names = dtype_names(spec.precisions);
  const std::string meant = spec.precisions ? meant_precision(dtype, names, true) : did_you_mean(dtype, names);
  fail(spec.name, "unknown dtype " + quoted(dtype) + meant + ", expected one of " + list(names));
}

// --- reading one value ---------------------------------------------------------------------------------------------

[[noreturn]] void bad_value(const Operator& spec, const Key& key, std::string_view value, const std::string& expected) {
  fail(spec.name, key_label(key.name) + ": expected " + expected + ", found " + quoted(value));
}

struct Limits {
  std::int64_t least = 0, most = 1;
};

Limits limits_of(KeyType type) {
  switch (type) {
    case KeyType::size: return {1, kLargestDim};
    case KeyType::count: return {0, kLargestDim};
    case KeyType::amount: return {0, kLargestAmount};
    case KeyType::percent: return {0, 100};
    case KeyType::dtype: return {0, kDTypeCount - 1};
    case KeyType::recurrence: return {0, kRecurrent.size() - 1};
    case KeyType::layout: return {0, kWeightLayouts.size() - 1};
    case KeyType::scaling: return {0, kScalings.size() - 1};
    default: return {};  // one of two
  }
}

std::int64_t read_whole(const Operator& spec, const Key& key, std::string_view value) {
  const std::optional<std::int64_t> number = parse_whole(value);
  const auto [least, most] = limits_of(key.type);
  if (number && *number >= least && *number <= most) return *number;
  if (key.type == KeyType::flag) bad_value(spec, key, value, "0 or 1");
  bad_value(spec, key, value,
            "a whole number from " + std::to_string(least) + (key.type == KeyType::amount ? " to 2^53" : " to 2^40"));
}

double read_percent(const Operator& spec, const Key& key, std::string_view value) {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [after, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || after != end || !(number >= 0 && number <= 100)) {
    bad_value(spec, key, value, "a number from 0 to 100");
  }
  return number;
}

std::int64_t read_name(const Operator& spec, const Key& key, std::string_view value) {
  std::vector<std::string> names;
  if (key.type == KeyType::dtype) {
    if (const auto type = parse_dtype(value)) return static_cast<std::int64_t>(*type);
    names = dtype_names();
  } else if (key.type == KeyType::layout) {
    const auto at = std::find(kWeightLayouts.begin(), kWeightLayouts.end(), value);
    if (at != kWeightLayouts.end()) return at - kWeightLayouts.begin();
    names.assign(kWeightLayouts.begin(), kWeightLayouts.end());
  } else if (key.type == KeyType::scaling) {
    const auto at = std::find(kScalings.begin(), kScalings.end(), value);
    if (at != kScalings.end()) return at - kScalings.begin();
    names.assign(kScalings.begin(), kScalings.end());
  } else {
    for (RecurrentKind kind : kRecurrent) {
      if (name(kind) == value) return static_cast<std::int64_t>(kind);
    }
    for (RecurrentKind kind : kRecurrent) names.emplace_back(name(kind));
  }
  bad_value(spec, key, value, "one of " + list(names) + did_you_mean(value, names));
}

// --- reading a shape -----------------------------------------------------------------------------------------------

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// The key's number in the table; `guess` is where it is when keys come in the table's order.
std::size_t find_key(const Operator& spec, std::string_view key, std::size_t guess) {
  if (guess < spec.keys.size() && spec.keys[guess].name == key) return guess;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    if (spec.keys[i].name == key) return i;
  }
  const auto names = key_names(spec);
  for (const std::string& known : names) {
    if (same_but_case(key, known)) fail(spec.name, "unknown key " + quoted(key) + " (did you mean '" + known + "'?)");
  }
  fail(spec.name,
       "unknown key " + quoted(key) + did_you_mean(key, names) + ", expected " + std::string(op_usage(spec.name)));
}

/// Which keys of an operator's table a text gave, and what it said.
struct Given {
  unsigned keys = 0;
  std::array<double, 32> values{};
  bool has(std::size_t i) const { return (keys >> i & 1u) != 0; }
};

void read_pair(const Operator& spec, std::string_view pair, void* shape, Given& given, std::size_t& next) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) fail(spec.name, "expected key=value, found " + quoted(pair));
  const std::size_t i = find_key(spec, trimmed(pair.substr(0, equals)), next);
  const Key& key = spec.keys[i];
  if (given.has(i)) fail(spec.name, key_label(key.name) + " is given twice");
  given.keys |= 1u << i;
  next = i + 1;
  const std::string_view value = trimmed(pair.substr(equals + 1));
  double& read = given.values.at(i);
  switch (key.type) {
    case KeyType::percent: read = read_percent(spec, key, value); break;
    case KeyType::dtype:
    case KeyType::layout:
    case KeyType::scaling:
    case KeyType::recurrence: read = static_cast<double>(read_name(spec, key, value)); break;
    default: read = static_cast<double>(read_whole(spec, key, value)); break;
  }
  key.set(shape, read);
}

/// Keys that were not given take their usual value once the others are known; types come from the operator's dtype.
void fill_absent(const Operator& spec, void* shape, const Given& given) {
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    const Key& key = spec.keys[i];
    if (given.has(i)) continue;
    if (key.required) {
      fail(spec.name, "missing " + key_label(key.name) + ", expected " + std::string(op_usage(spec.name)));
    }
    if (key.type != KeyType::dtype) key.set(shape, key.usual(shape));
  }
}

/// Two keys may stand for one member (`mats` and `gated`): the one that is given holds, and two must say the same.
void settle_pairs(const Operator& spec, void* shape, const Given& given) {
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    if (given.has(i)) spec.keys[i].set(shape, given.values.at(i));
  }
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    if (given.has(i) && spec.keys[i].get(shape) != given.values.at(i))
      fail(spec.name, key_label(spec.keys[i].name) + ": another key says otherwise");
  }
}

void read_keys(const Operator& spec, std::string_view text, void* shape) {
  Given given;
  std::size_t next = 0;
  while (!text.empty()) {
    std::size_t cut = 0;
    while (cut < text.size() && text[cut] != ';' && text[cut] != ',') ++cut;
    const std::string_view pair = trimmed(text.substr(0, cut));
    text.remove_prefix(std::min(cut + 1, text.size()));
    if (!pair.empty()) read_pair(spec, pair, shape, given, next);
    else if (!text.empty()) fail(spec.name, "expected key=value between two separators");
  }
  fill_absent(spec, shape, given);
  settle_pairs(spec, shape, given);
}

/// Whether a key of the text has that name.
bool names_key(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
    const std::string_view before = trimmed(text.substr(0, at)), after = trimmed(text.substr(at + key.size()));
    const bool begins = before.empty() || before.back() == ';' || before.back() == ',';
    if (begins && !after.empty() && after.front() == '=') return true;
  }
  return false;
}

// --- writing -------------------------------------------------------------------------------------------------------

void append_value(std::string& out, const Key& key, double value) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (key.type) {
    case KeyType::percent: out += format_exact(value); return;
    case KeyType::dtype: out += name(static_cast<DType>(whole)); return;
    case KeyType::recurrence: out += name(static_cast<RecurrentKind>(whole)); return;
    case KeyType::layout: out += kWeightLayouts.at(static_cast<std::size_t>(whole)); return;
    case KeyType::scaling: out += kScalings.at(static_cast<std::size_t>(whole)); return;
    default: break;
  }
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, whole).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

std::string usage_line(const Operator& spec) {
  std::string line, more;
  for (const Key& key : spec.keys) {
    std::string& part = key.required ? line : more;
    part.append(part.empty() ? "" : ",").append(key.name);
    if (key.required && key.type == KeyType::flag) part += " (0/1)";
    if (key.type == KeyType::recurrence) part += " (mamba1|mamba2|gated_delta_net)";
    if (key.type == KeyType::layout) part += " (nk|kn|km)";
    if (key.type == KeyType::scaling) part += kScalingWords;
  }
  if (spec.name == kQuantize) more.append(",").append(kScaling).append(kScalingWords);
  if (!more.empty()) line.append(" [").append(more).append("]");
  return line;
}

}  // namespace

Op parse_op(std::string_view op, std::string_view dtype, std::string_view shape) {
  const Operator& named = require_operator(trimmed(op));
  const Operator& spec = named.name == kQuantize && names_key(shape, kScaling) ? *find_operator(kDynamic) : named;
  const Precision precision = read_precision(spec, trimmed(dtype));
  Op result = spec.make(spec.kind, precision);
  read_keys(spec, shape, shape_address(result));
  check_relations(result);
  return result;
}

const char* too_large(const Op& op) {
  const Volume size = volume_of(op);
  if (size.elements > kMostElements) return "shape too large, expected tensors below 2^59 elements";
  return size.products >= kMostProducts ? "shape too large, expected below 2^62 multiply-adds" : nullptr;
}

void check_relations(const Op& op) {
  if (const char* complaint = too_large(op)) fail(op_name(op), complaint);
  if (const char* complaint = broken_relation(op)) fail(op_name(op), complaint);
}

void check_key(const Op& op, const Key& key) {
  const void* shape = shape_address(op);
  const double value = key.get(shape);
  const auto [least, most] = limits_of(key.type);
  if (value >= static_cast<double>(least) && value <= static_cast<double>(most)) return;
  if (!key.required && value == key.usual(shape)) return;
  fail(op_name(op), key_label(key.name) + ": expected a number from " + std::to_string(least) + " to " +
                        std::to_string(most) + ", found " + format_exact(value));
}

void check(const Op& op) {
  for (const Key& key : keys_of(op)) check_key(op, key);
  check_relations(op);
}

std::string shape_text(const Op& op) {
  const void* shape = shape_address(op);
  std::string text;
  for (const Key& key : keys_of(op)) {
    const double value = key.get(shape);
    if (!key.required && value == key.usual(shape)) continue;
    if (!text.empty()) text += ';';
    text.append(key.name).append("=");
    append_value(text, key, value);
  }
  return text;
}

std::string_view dtype_text(const Op& op) {
  return std::visit(
      [&](const auto& s) -> std::string_view {
        if constexpr (requires { s.precision; }) return base_precision(s.precision);
        else if constexpr (
            requires { s.dtype; } || requires { s.input; })
          return name(single_dtype(op));
        else return "";  // bytes of any type
      },
      op);
}

const std::vector<std::string>& op_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Operator& each : operators()) all.emplace_back(each.name);
    return all;
  }();
  return names;
}

std::string_view op_usage(std::string_view op) {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> all;
    for (const Operator& each : operators()) all.push_back(usage_line(each));
    return all;
  }();
  const Operator& spec = require_operator(op);
  return lines[static_cast<std::size_t>(&spec - operators().data())];
}

bool takes_key(const Operator& spec, std::string_view key) {
  if (spec.name == kQuantize && key == kScaling) return true;
  return std::any_of(spec.keys.begin(), spec.keys.end(), [&](const Key& each) { return each.name == key; });
}

bool op_is_ours(std::string_view op) { return require_operator(op).ours; }

}  // namespace plumbline
