#include "model/report/graph/graph_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "ops/as_double.hpp"
#include "ops/block/block.hpp"
#include "ops/llm/ffn_words.hpp"
#include "ops/llm/graph_reader.hpp"
#include "ops/llm/layer_kinds.hpp"
#include "ops/mixer/table.hpp"

namespace plumbline {
namespace {

using GraphJson = nlohmann::ordered_json;

GraphJson number_json(double value) {
  constexpr double kWhole = 9007199254740992.0;  // 2^53
  const auto whole = static_cast<std::int64_t>(std::clamp(value, -kWhole, kWhole));
  return static_cast<double>(whole) == value ? GraphJson(whole) : GraphJson(value);
}

GraphJson mixer_json(const Mixer& mixer);

/// Sizes that are not those that the block begins with.
class SizesToJson final : public MixerSizes {
 public:
  using MixerSizes::whole;
  explicit SizesToJson(GraphJson& to) : to_(to) {}
  void whole(const char* name, std::int64_t& value) override { to_[name] = value; }
  void flag(const char* name, bool& value) override { to_[name] = value; }
  void type(const char* name, DType& value) override { to_[name] = std::string(plumbline::name(value)); }
  void part(const char* name, LayerMixer& value) override {
    if (value) to_[name] = mixer_json(*value);
  }

 private:
  GraphJson& to_;
};

/// Whether data/blocks has it written out.
bool is_written_out(const std::string& block) {
  const std::vector<std::string> shipped = json_file_names(data_folder() + "/blocks");
  return std::find(shipped.begin(), shipped.end(), block) != shipped.end();
}

GraphJson mixer_json(const Mixer& mixer) {
  if (const auto* block = dynamic_cast<const BlockSpec*>(&mixer); block != nullptr && !block->text->given.empty()) {
    GraphJson out{{"use", block->text->name}};
    for (const auto& [key, value] : block->text->given) out[key] = number_json(value);
    return out;
  }
  if (mixer.block().empty() || !fresh_mixer(mixer.block())) {
    throw NotModelled("--format graph: a part of the model has no name in graph files: '" + std::string(mixer.block()) +
                      "'");
  }
  GraphJson all = GraphJson::object(), usual = GraphJson::object(), out = GraphJson::object();
  SizesToJson to_all(all), to_usual(usual);
  mixer.copy()->sizes(to_all);
  mixer.fresh()->sizes(to_usual);
  out["use"] = std::string(mixer.block());
  for (const auto& [key, value] : all.items()) {
    if (!usual.contains(key) || usual[key] != value) out[key] = value;
  }
  return out;
}

GraphJson ffn_json(const FfnSpec& ffn) {
  FfnSpec usual;
  usual.gated = ffn.is_moe() || ffn.gated;
  GraphJson out = GraphJson::object();
  out["use"] = std::string(ffn_word(ffn));
  GraphJson all = GraphJson::object(), same = GraphJson::object();
  each_ffn_size(ffn, [&](const char* key, const auto& member) { all[key] = member; });
  each_ffn_size(usual, [&](const char* key, const auto& member) { same[key] = member; });
  for (const auto& [key, value] : all.items()) {
    if (same[key] != value) out[key] = value;
  }
  if (!ffn.is_moe()) out.erase("gated");
  if (ffn.activation != Activation::silu) {
    out["activation"] = std::string(kActivationWords.at(static_cast<std::size_t>(ffn.activation)));
  }
  return out;
}

GraphJson layer_json(const LayerSpec& l) {
  GraphJson out = GraphJson::object();
  const auto put = [&](const char* key, const auto& value, const auto& usual) {
    if (value != usual) out[key] = value;
  };
  if (l.mixer) {
    out["mixer"] = mixer_json(*l.mixer);
    const SegmentNames names = l.mixer->segment();
    const bool own = names.dense != std::string_view(SegmentNames{}.dense);
    const bool experts = l.ffn && l.ffn->is_moe();
    if (l.mixer->kind() != l.mixer->block() && is_written_out(std::string(l.mixer->block()))) {
      out["mixer"]["kind"] = l.mixer->kind();
    }
    if (own && is_written_out(std::string(l.mixer->block())))
      out["mixer"]["segment"] = experts ? names.experts : names.dense;
  }
  if (l.cross) out["cross"] = mixer_json(*l.cross);
  if (l.ffn) out["ffn"] = ffn_json(*l.ffn);
  if (l.feed || l.written_out) {
    throw NotModelled("--format graph: the model is a graph file already, in which a layer is written out");
  }
  const int parts = (l.mixer ? 1 : 0) + (l.cross ? 1 : 0) + (l.ffn ? 1 : 0);
  if (l.norm == NormKind::layer) out["norm"] = "layer";
  put("norms", l.norms, parts);
  put("norm_vectors", l.norm_vectors, l.norm == NormKind::rms ? 1 : 2);
  put("parallel", l.parallel_block, false);
  put("drops", l.drops, false);
  put("keeps_all", l.keeps_all, false);
  put("drops_scores", l.drops_scores, false);
  put("drops_inner", l.drops_inner, false);
  put("modulation_width", l.modulation_width, std::int64_t{0});
  put("double_stream", l.double_stream, false);
  put("second_stream_ends", l.second_stream_ends, false);
  if (l.beside == BesideSpec{}) return out;
  GraphJson& beside = out["beside"] = GraphJson::object();
  for (const BesideSpec::Matrix& m : l.beside.matrices) {
    beside["matrices"].push_back(GraphJson{{"in", m.in}, {"out", m.out}});
  }
  if (l.beside.vectors != 0) beside["vectors"] = l.beside.vectors;
  if (l.beside.streams != 0) beside["streams"] = l.beside.streams;
  return out;
}

/// A word for what a kind of layer is: "attention_moe", "mamba2", with a number where there are more of it.
std::string layer_name(const LayerSpec& l, std::set<std::string>& taken) {
  std::string name = l.mixer ? std::string(l.mixer->block()) : "ffn";
  if (l.mixer && l.mixer->segment().dense == std::string_view("window_layer")) name += "_window";
  if (l.ffn && l.ffn->is_moe()) name += "_moe";
  for (int i = 2; !taken.insert(name).second; ++i) {
    name.resize(name.find_last_not_of("0123456789_") + 1);
    name += "_" + std::to_string(i);
  }
  return name;
}

/// Neighbouring equal layers as one entry, and a pattern of them that comes again and again as one of those.
GraphJson order_json(const std::vector<int>& order, const std::vector<std::string>& names) {
  GraphJson runs = GraphJson::array();
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && order[end] == order[i]) ++end;
    const std::string& name = names[static_cast<std::size_t>(order[i])];
    if (end - i == 1) runs.push_back(name);
    else runs.push_back(GraphJson{{"layer", name}, {"repeat", end - i}});
    i = end;
  }
  for (std::size_t period = 2; period <= 8 && 2 * period <= runs.size(); ++period) {
    std::size_t same = 0;
    while (same + period < runs.size() && runs[same] == runs[same + period]) ++same;
    const std::size_t repeat = (same + period) / period;
    if (repeat < 2 || repeat * period < runs.size() / 2) continue;
    GraphJson of = GraphJson::array(), out = GraphJson::array();
    for (std::size_t i = 0; i < period; ++i) of.push_back(runs[i]);
    out.push_back(GraphJson{{"repeat", repeat}, {"of", of}});
    for (std::size_t i = repeat * period; i < runs.size(); ++i) out.push_back(runs[i]);
    return out;
  }
  return runs;
}

GraphJson stack_json(const StackSpec& stack, std::int64_t hidden) {
  GraphJson out = GraphJson::object();
  out["role"] = std::string(word_of(stack.role));
  if (stack.hidden > 0 && stack.hidden != hidden) out["hidden"] = stack.hidden;
  if (stack.passes != 1) out["passes"] = number_json(stack.passes);
  if (stack.shared_weights) out["shared_weights"] = true;
  if (stack.text_tokens != 0) out["text_tokens"] = stack.text_tokens;
  if (stack.cross_tokens != 0) out["cross_tokens"] = stack.cross_tokens;
  if (stack.fixed_tokens != 0) out["fixed_tokens"] = stack.fixed_tokens;
  std::set<std::string> taken;
  std::vector<std::string> names;
  for (const LayerSpec& kind : stack.kinds) {
    names.push_back(layer_name(kind, taken));
    out["layers"][names.back()] = layer_json(kind);
  }
  out["order"] = order_json(stack.order, names);
  out["other_params"] = number_json(stack.other_params);
  return out;
}

/// In one line, with blanks between members.
std::string in_a_line(const GraphJson& value) {
  if (!value.is_structured()) return value.dump();
  std::string out(1, value.is_object() ? '{' : '[');
  for (const auto& [key, member] : value.items()) {
    if (out.size() > 1) out += ", ";
    if (value.is_object()) out += GraphJson(key).dump() + ": ";
    out += in_a_line(member);
  }
  return out + (value.is_object() ? '}' : ']');
}

/// An object or a list in one line where it fits, else each member in its own.
void write(const GraphJson& value, std::size_t indent, std::size_t before, std::string& out) {
  constexpr std::size_t kWidth = 130;
  const std::string line = in_a_line(value);
  if (!value.is_structured() || value.empty() || indent + before + line.size() <= kWidth) {
    out += line;
    return;
  }
  out += value.is_object() ? "{" : "[";
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    out += first ? "\n" : ",\n";
    first = false;
    out.append(indent + 1, ' ');
    std::size_t head = 0;
    if (value.is_object()) {
      const std::string label = GraphJson(key).dump() + ": ";
      out += label;
      head = label.size();
    }
    write(member, indent + 1, head, out);
  }
  out += "\n" + std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

/// Definitions of the blocks that the layers use, as they lie under data/blocks.
void collect_blocks(const GraphJson& value, GraphJson& blocks) {
  if (!value.is_structured()) return;
  for (const auto& [key, member] : value.items()) {
    if (key == "use" && value.is_object()) {
      const std::string name = member.get<std::string>();
      if (blocks.contains(name) || !is_written_out(name)) continue;
      blocks[name] = GraphJson::parse(read_text_file(data_folder() + "/blocks/" + name + ".json"));
    } else {
      collect_blocks(member, blocks);
    }
  }
}

}  // namespace

std::string graph_form(const Llm& llm) {
  GraphJson out = GraphJson::object();
  out["schema"] = std::string(kGraphSchema);
  out["name"] = llm.name;
  out["model_type"] = llm.model_type;
  out["dtype"] = std::string(name(llm.dtype));
  const Quantization usual, &q = llm.quantization;
  if (q.method != usual.method || q.linear != usual.linear || q.experts != usual.experts || q.kv != usual.kv ||
      q.activation != usual.activation || q.block != usual.block) {
    out["quantization"] = GraphJson{{"method", q.method},
                                    {"linear", std::string(name(q.linear))},
                                    {"experts", std::string(name(q.experts))},
                                    {"activation", std::string(name(q.activation))},
                                    {"kv", std::string(name(q.kv))}};
    if (q.block != usual.block) out["quantization"]["block"] = q.block;
  }
  out["hidden"] = llm.hidden;
  if (llm.vocab > 0) out["vocab"] = llm.vocab;
  if (llm.max_context > 0) out["max_context"] = llm.max_context;
  if (llm.tied_embeddings) out["tied_embeddings"] = true;
  if (llm.has_head != (llm.vocab > 0)) out["head"] = llm.has_head;
  const double table = d(llm.vocab) * d(llm.hidden);
  if (llm.embedding_params != table) out["embedding_params"] = number_json(llm.embedding_params);
  const double extra = llm.head_params - (llm.has_head && !llm.tied_embeddings ? table : 0);
  if (extra != 0) out["head_extra_params"] = number_json(extra);
  if (llm.tower_params != 0) out["tower_params"] = number_json(llm.tower_params);
  if (llm.unfilled_params != 0) out["unfilled_params"] = number_json(llm.unfilled_params);
  if (llm.guessed) out["guessed"] = true;
  if (llm.mtp_params != 0) out["mtp_params"] = number_json(llm.mtp_params);
  out["stacks"] = GraphJson::array();
  for (const StackSpec& stack : llm.stacks) out["stacks"].push_back(stack_json(stack, llm.hidden));
  GraphJson blocks = GraphJson::object();
  collect_blocks(out["stacks"], blocks);
  if (!blocks.empty()) out["blocks"] = blocks;
  if (!llm.ignored_keys.empty()) out["ignored_keys"] = llm.ignored_keys;
  if (!llm.warnings.empty()) out["warnings"] = llm.warnings;
  if (!llm.assumptions.empty()) out["assumptions"] = llm.assumptions;
  std::string text;
  write(out, 0, 0, text);
  return text + "\n";
}

}  // namespace plumbline
