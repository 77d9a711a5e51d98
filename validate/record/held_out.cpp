#include "validate/record/held_out.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arch/error.hpp"
#include "model/words.hpp"
#include "ops/table/text.hpp"
#include "validate/record/measurer.hpp"
#include "validate/record/step.hpp"

namespace plumbline {

namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320U;
constexpr std::uint32_t kOneSizeIn = 5, kOneModelIn = 10, kOneRunIn = 2;

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest & 1U) != 0 ? kPolynomial ^ (rest >> 1U) : rest >> 1U;
    table[byte] = rest;
  }
  return table;
}

constexpr std::array<std::string_view, 3> kNoGeometry{"append", "kv", "page"};

/// The keys of an operator that name the model a shape comes from: weight size, head layout, expert layout.
struct ModelKeys {
  std::string_view op;
  std::array<std::string_view, 5> keys;  // empty ones at the end
};
constexpr std::array<ModelKeys, 21> kModelKeys{{
    {"gemm", {"N", "K", "batch"}},
    {"grouped_gemm", {"E", "N", "K"}},
    {"attention_prefill", {"Hq", "Hkv", "D", "Dv", "window"}},
    {"attention_fwd_bwd", {"Hq", "Hkv", "D"}},
    {"attention_decode", {"Hq", "Hkv", "D", "window"}},
    {"mla_decode", {"H"}},
    {"moe", {"H", "I", "E", "topk"}},
    {"add", {"cols"}},
    {"scale", {"cols"}},
    {"gelu", {"cols"}},
    {"relu", {"cols"}},
    {"layernorm", {"cols"}},
    {"rmsnorm", {"cols"}},
    {"softmax", {"cols"}},
    {"swiglu", {"cols"}},
    {"rope", {"cols"}},
    {"embedding", {"cols"}},
    {"quantize", {"cols"}},
    {"quantize_dynamic", {"cols"}},
    {"moe_dispatch", {"cols", "topk", "experts"}},
    {"moe_combine", {"cols", "topk", "experts"}},
}};
constexpr std::array<std::string_view, 4> kCollectives{"all_reduce", "all_gather", "reduce_scatter", "all_to_all"};

using Geometry = std::vector<std::pair<std::string_view, std::string_view>>;  // key, value

template <class Range>
bool contains(const Range& range, std::string_view word) {
  return std::find(range.begin(), range.end(), word) != range.end();
}

/// Sorted by key, without what is no geometry.
Geometry geometry_of(std::string_view shape) {
  Geometry geometry;
  while (!shape.empty()) {
    const std::string_view pair = shape.substr(0, shape.find(';'));
    shape.remove_prefix(std::min(shape.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || contains(kNoGeometry, pair.substr(0, equals))) continue;
    geometry.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  std::sort(geometry.begin(), geometry.end());
  return geometry;
}

std::string_view value_of(const Geometry& geometry, std::string_view key) {
  for (const auto& [name, value] : geometry) {
    if (name == key) return value;
  }
  return {};
}

void append_pair(std::string& text, std::string_view key, std::string_view value) {
  if (text.back() != '|') text += ';';
  text.append(key).append("=").append(value);
}

bool divides(std::uint32_t one_in, const std::string& text) { return crc32(text) % one_in == 0; }

/// Rows of a model that is held out, all batch sizes and lengths together.
bool of_held_out_model(std::string_view op, const Geometry& geometry) {
  const auto model = std::find_if(kModelKeys.begin(), kModelKeys.end(), [&](const ModelKeys& m) { return m.op == op; });
  if (model == kModelKeys.end()) return false;
  std::string group = std::string(op) + "|group|";
  for (const std::string_view key : model->keys) {
    const std::string_view value = key.empty() ? key : value_of(geometry, key);
    if (!value.empty()) append_pair(group, key, value);
  }
  return divides(kOneModelIn, group);
}

}  // namespace

std::uint32_t crc32(std::string_view text) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t rest = 0xFFFFFFFFU;
  for (const char c : text) rest = kTable[(rest ^ static_cast<unsigned char>(c)) & 0xFFU] ^ (rest >> 8U);
  return rest ^ 0xFFFFFFFFU;
}

std::string_view name(HeldOut side) {
  switch (side) {
    case HeldOut::no: break;
    case HeldOut::by_flag: return "flag";
    case HeldOut::by_size: return "size";
    case HeldOut::by_model: return "model";
    case HeldOut::by_gpus: return "gpus";
    case HeldOut::by_run: return "run";
  }
  return "";
}

std::string_view rule_of(HeldOut side) {
  switch (side) {
    case HeldOut::no: break;
    case HeldOut::by_flag: return "its list says held_out";
    case HeldOut::by_size: return "CRC32 of its shape is a multiple of 5";
    case HeldOut::by_model: return "CRC32 of its model's dimensions is a multiple of 10";
    case HeldOut::by_gpus: return "a collective over 4 GPUs";
    case HeldOut::by_run: return "CRC32 of model|phase|gpus|batch|prompt|context|output is even";
  }
  return "a training row";
}

HeldOut held_out(std::string_view op, std::string_view shape) {
  const Geometry geometry = geometry_of(shape);
  std::string size = std::string(op) + "|";
  for (const auto& [key, value] : geometry) append_pair(size, key, value);
  if (divides(kOneSizeIn, size)) return HeldOut::by_size;
  if (contains(kCollectives, op)) return value_of(geometry, "gpus") == "4" ? HeldOut::by_gpus : HeldOut::no;
  return of_held_out_model(op, geometry) ? HeldOut::by_model : HeldOut::no;
}

HeldOut held_out(const ModelRun& run) {
  std::string text = std::string(run.model) + "|" + std::string(run.phase);
  for (const std::int64_t number : {run.gpus, run.batch, run.prompt, run.context, run.output}) {
    text += "|" + std::to_string(number);
  }
  return divides(kOneRunIn, text) ? HeldOut::by_run : HeldOut::no;
}

HeldOut held_out(const StudyCase& what) {
  return what.held_out ? HeldOut::by_flag : held_out(op_name(what.op), what.shape);
}

HeldOut held_out(const StepCase& what) {
  if (what.held_out) return HeldOut::by_flag;
  const Workload& w = what.workload;
  const bool decode = w.phase == Phase::decode;
  ModelRun run;
  run.model = what.model;
  run.phase = word_of(kPhaseWords, w.phase);
  run.gpus = w.parallel.ranks();
  run.batch = w.batch;
  run.prompt = decode ? 0 : w.prompt;
  run.context = decode ? w.context : 0;
  return held_out(run);
}

bool read_held_out_flag(std::string_view text, const std::string& place) {
  if (text.empty() || text == "no") return false;
  if (text == "yes") return true;
  throw BadInput(place + ": expected yes, no or nothing, found '" + std::string(text) + "'");
}

}  // namespace plumbline
