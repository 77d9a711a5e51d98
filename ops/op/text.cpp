#include "ops/op/text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "arch/format.hpp"
#include "ops/op/keys.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kLargestDim = std::int64_t{1} << 40;
/// Elements of a tensor: 2^59, so that at 8 bytes each they stay below 2^62.
constexpr double kMostElements = 576460752303423488.0;
/// Multiply-adds, and pairs: below 2^62, so that int64 products of dims do not overflow.
constexpr double kMostProducts = 4611686018427387904.0;

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

std::vector<std::string> key_names(const OpSpec& spec) {
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

const OpSpec* find_spec(std::string_view op) {
  for (const OpSpec& spec : op_specs()) {
    if (spec.name == op) return &spec;
  }
  return nullptr;
}

const OpSpec& require_spec(std::string_view op) {
  const OpSpec* spec = find_spec(op);
  if (spec == nullptr) {
    throw BadInput("op " + quoted(op) + ": unknown operator" + did_you_mean(op, op_names()));
  }
  return *spec;
}

Precision read_precision(const OpSpec& spec, std::string_view dtype) {
  if (dtype.empty()) return Precision{};
  if (spec.precisions) {
    if (const auto precision = parse_precision(dtype)) return *precision;
  } else if (const auto type = parse_dtype(dtype)) {
    return Precision{*type, *type, *type, *type};
  }
  const auto names = dtype_names(spec.precisions);
  fail(spec.name, "unknown dtype " + quoted(dtype) + did_you_mean(dtype, names) + ", expected one of " + list(names));
}

// --- reading one value ---------------------------------------------------------------------------------------------

[[noreturn]] void bad_value(const OpSpec& spec, const Key& key, std::string_view value, const std::string& expected) {
  fail(spec.name, key_label(key.name) + ": expected " + expected + ", found " + quoted(value));
}

std::int64_t read_whole(const OpSpec& spec, const Key& key, std::string_view value) {
  std::int64_t number = 0;
  const char* end = value.data() + value.size();
  const auto [after, error] = std::from_chars(value.data(), end, number);
  const std::int64_t least = key.type == KeyType::size ? 1 : 0;
  const std::int64_t most = key.type == KeyType::flag ? 1 : kLargestDim;
  if (error == std::errc() && after == end && number >= least && number <= most) return number;
  if (key.type == KeyType::flag) bad_value(spec, key, value, "0 or 1");
  bad_value(spec, key, value, "a whole number from " + std::to_string(least) + " to 2^40");
}

double read_percent(const OpSpec& spec, const Key& key, std::string_view value) {
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [after, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || after != end || !(number >= 0 && number <= 100)) {
    bad_value(spec, key, value, "a number from 0 to 100");
  }
  return number;
}

std::int64_t read_name(const OpSpec& spec, const Key& key, std::string_view value) {
  std::vector<std::string> names;
  if (key.type == KeyType::dtype) {
    if (const auto type = parse_dtype(value)) return static_cast<std::int64_t>(*type);
    names = dtype_names();
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
std::size_t find_key(const OpSpec& spec, std::string_view key, std::size_t guess) {
  if (guess < spec.keys.size() && spec.keys[guess].name == key) return guess;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    if (spec.keys[i].name == key) return i;
  }
  const auto names = key_names(spec);
  fail(spec.name,
       "unknown key " + quoted(key) + did_you_mean(key, names) + ", expected " + std::string(op_usage(spec.name)));
}

void read_pair(const OpSpec& spec, std::string_view pair, KeyValues& values, unsigned& given, std::size_t& next) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) fail(spec.name, "expected key=value, found " + quoted(pair));
  const std::size_t i = find_key(spec, trimmed(pair.substr(0, equals)), next);
  const Key& key = spec.keys[i];
  if ((given >> i & 1u) != 0) fail(spec.name, key_label(key.name) + " is given twice");
  given |= 1u << i;
  next = i + 1;
  const std::string_view value = trimmed(pair.substr(equals + 1));
  switch (key.type) {
    case KeyType::percent: values.percent = read_percent(spec, key, value); break;
    case KeyType::dtype:
    case KeyType::recurrence: values.number[i] = read_name(spec, key, value); break;
    default: values.number[i] = read_whole(spec, key, value); break;
  }
}

KeyValues read_values(const OpSpec& spec, std::string_view shape) {
  KeyValues values;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) values.number[i] = spec.keys[i].fallback;
  unsigned given = 0;
  std::size_t next = 0;
  while (!shape.empty()) {
    std::size_t cut = 0;
    while (cut < shape.size() && shape[cut] != ';' && shape[cut] != ',') ++cut;
    const std::string_view pair = trimmed(shape.substr(0, cut));
    shape.remove_prefix(std::min(cut + 1, shape.size()));
    if (!pair.empty()) read_pair(spec, pair, values, given, next);
    else if (!shape.empty()) fail(spec.name, "expected key=value between two separators");
  }
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    if (!spec.keys[i].required || (given >> i & 1u) != 0) continue;
    fail(spec.name, "missing " + key_label(spec.keys[i].name) + ", expected " + std::string(op_usage(spec.name)));
  }
  return values;
}

// --- what must hold between keys -----------------------------------------------------------------------------------

double times(std::initializer_list<std::int64_t> dims) {
  double product = 1;
  for (std::int64_t dim : dims) product *= static_cast<double>(dim);
  return product;
}

/// Elements of the largest tensor; multiply-adds or pairs.
struct Volume {
  double elements = 0, products = 0;
};

Volume volume(const Gemm& s) {
  return {std::max({times({s.batch, s.m, s.n}), times({s.batch, s.m, s.k}), times({s.batch, s.n, s.k})}),
          times({s.batch, s.m, s.n, s.k})};
}
Volume volume(const GroupedGemm& s) {
  return {std::max(times({s.tokens, s.topk, std::max(s.n, s.k)}), times({s.experts, s.n, s.k})),
          times({s.tokens, s.topk, s.n, s.k})};
}
Volume volume(const GemmSparse24& s) {
  return {std::max({times({s.m, s.n}), times({s.m, s.k}), times({s.n, s.k})}), times({s.m, s.n, s.k})};
}
Volume volume(const AttentionPrefill& s) {
  return {times({s.batch, s.q_heads, s.kv_len, s.qk_dim + s.v_dim}),
          times({s.batch, s.q_heads, s.q_len, s.kv_len, s.qk_dim + s.v_dim})};
}
Volume volume(const AttentionDecode& s) { return {times({s.batch, s.q_heads, s.context, s.qk_dim + s.v_dim}), 0}; }
Volume volume(const MlaDecode& s) { return {times({s.batch, s.heads, s.context, 2 * s.latent + s.rope}), 0}; }
Volume volume(const Rowwise& s) { return {2 * times({s.rows, s.cols}), 0}; }
Volume volume(const Rope& s) { return {times({s.tokens, s.heads, s.head_dim}), 0}; }
Volume volume(const TopK& s) { return {times({s.rows, s.cols}), 0}; }
Volume volume(const SoftmaxTopK& s) { return {times({s.rows, s.cols}), 0}; }
Volume volume(const Embedding& s) { return {times({s.rows, s.cols}), 0}; }
Volume volume(const Recurrence& s) {
  const double per_head = times({s.batch, s.heads, s.head_dim, s.state});
  return {std::max(per_head, times({s.batch, s.seq, s.heads, s.head_dim + s.state})), per_head * times({s.seq})};
}
Volume volume(const CausalConv& s) {
  return {times({s.batch, s.seq + s.width, s.channels}), times({s.batch, s.seq, s.channels, s.width})};
}
Volume volume(const MoePermute& s) { return {times({s.tokens, s.topk, s.cols}), 0}; }
template <class Shape>
Volume volume(const Shape&) {
  return {};
}

void need(bool holds, std::string_view op, const char* what) {
  if (!holds) fail(op, what);
}

void check_relations(const Op& op) {
  const std::string_view n = op_name(op);
  if (const auto* grouped = std::get_if<GroupedGemm>(&op)) {
    need(grouped->topk <= grouped->experts, n, "key 'topk': expected at most E");
  } else if (const auto* sparse = std::get_if<GemmSparse24>(&op)) {
    need(sparse->k % 4 == 0, n, "key 'K': expected a multiple of 4 (two of each four weights are kept)");
  } else if (const auto* prefill = std::get_if<AttentionPrefill>(&op)) {
    need(prefill->q_heads % prefill->kv_heads == 0, n, "key 'Hq': expected a multiple of Hkv");
    need(prefill->kv_len >= prefill->q_len, n, "key 'Skv': expected at least S (it counts the new tokens too)");
    need(prefill->append != 1 || prefill->qk_dim % 2 == 0, n, "key 'D': expected an even number (it is rotated)");
  } else if (const auto* decode = std::get_if<AttentionDecode>(&op)) {
    need(decode->q_heads % decode->kv_heads == 0, n, "key 'Hq': expected a multiple of Hkv");
  } else if (const auto* rowwise = std::get_if<Rowwise>(&op)) {
    const bool norm = rowwise->kind == RowwiseKind::layernorm || rowwise->kind == RowwiseKind::rmsnorm;
    need(norm || !rowwise->residual, n, "key 'residual': only layernorm and rmsnorm take it");
  } else if (const auto* rope = std::get_if<Rope>(&op)) {
    need(rope->head_dim % 2 == 0, n, "key 'D': expected an even number");
  } else if (const auto* topk = std::get_if<TopK>(&op)) {
    need(topk->k <= topk->cols, n, "key 'k': expected at most cols");
  } else if (const auto* softmax = std::get_if<SoftmaxTopK>(&op)) {
    need(softmax->k <= softmax->cols, n, "key 'k': expected at most cols");
  } else if (const auto* spmv = std::get_if<Spmv>(&op)) {
    need(static_cast<double>(spmv->nnz) <= times({spmv->rows, spmv->cols}), n,
         "key 'nnz': expected at most rows x cols");
  } else if (const auto* recurrence = std::get_if<Recurrence>(&op)) {
    need(recurrence->heads % recurrence->groups == 0, n, "key 'H': expected a multiple of groups");
  }
}

void check(const Op& op) {
  const Volume size = std::visit([](const auto& shape) { return volume(shape); }, op);
  need(size.elements <= kMostElements, op_name(op), "shape too large, expected tensors below 2^59 elements");
  need(size.products < kMostProducts, op_name(op), "shape too large, expected below 2^62 multiply-adds");
  check_relations(op);
}

// --- writing -------------------------------------------------------------------------------------------------------

void append_value(std::string& out, const Key& key, const KeyValues& values, std::size_t i) {
  switch (key.type) {
    case KeyType::percent: out += format_exact(values.percent); return;
    case KeyType::dtype: out += name(static_cast<DType>(values[i])); return;
    case KeyType::recurrence: out += name(static_cast<RecurrentKind>(values[i])); return;
    default: break;
  }
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, values[i]).ptr;
  out.append(digits, static_cast<std::size_t>(end - digits));
}

std::string usage_line(const OpSpec& spec) {
  std::string line, more;
  for (const Key& key : spec.keys) {
    std::string& part = key.required ? line : more;
    part.append(part.empty() ? "" : ",").append(key.name);
    if (key.required && key.type == KeyType::flag) part += " (0/1)";
    if (key.type == KeyType::recurrence) part += " (mamba1|mamba2|gated_delta_net)";
  }
  if (!more.empty()) line.append(" [").append(more).append("]");
  return line;
}

}  // namespace

Op parse_op(std::string_view op, std::string_view dtype, std::string_view shape) {
  const OpSpec& spec = require_spec(trimmed(op));
  const Precision precision = read_precision(spec, trimmed(dtype));
  const Op result = spec.make(read_values(spec, shape), precision, spec.kind);
  check(result);
  return result;
}

std::string shape_text(const Op& op) {
  const OpSpec& spec = require_spec(op_name(op));
  KeyValues values;
  spec.take(op, values);
  std::string text;
  for (std::size_t i = 0; i < spec.keys.size(); ++i) {
    const Key& key = spec.keys[i];
    const bool usual = key.type == KeyType::percent ? values.percent == 0 : values[i] == key.fallback;
    if (!key.required && usual) continue;
    if (!text.empty()) text += ';';
    text.append(key.name).append("=");
    append_value(text, key, values, i);
  }
  return text;
}

std::string_view dtype_text(const Op& op) {
  if (const auto* gemm = std::get_if<Gemm>(&op)) return base_precision(gemm->precision);
  if (const auto* grouped = std::get_if<GroupedGemm>(&op)) return base_precision(grouped->precision);
  if (const auto* sparse = std::get_if<GemmSparse24>(&op)) return base_precision(sparse->precision);
  if (std::holds_alternative<Transfer>(op)) return "";  // bytes of any type
  return name(single_dtype(op));
}

const std::vector<std::string>& op_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const OpSpec& spec : op_specs()) all.emplace_back(spec.name);
    return all;
  }();
  return names;
}

std::string_view op_usage(std::string_view op) {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> all;
    for (const OpSpec& spec : op_specs()) all.push_back(usage_line(spec));
    return all;
  }();
  const OpSpec& spec = require_spec(op);
  return lines[static_cast<std::size_t>(&spec - op_specs().data())];
}

bool op_is_ours(std::string_view op) { return require_spec(op).ours; }

}  // namespace plumbline
