// An entry has sizes as those of towers have (ops/family/table_sizes.hpp), and one of
//
//   graph    a graph file without its parameters (docs/graphs.md): layers may be repeated 0 times
//   encoder  a stack of layers that are alike, of attention and a feed-forward part, by expressions of their sizes;
//            `encoders`: several, the one that runs first
//
// `params`: parameters in all, where the layers are not all of them: what is left stands outside the layers. `only`: words
// of the file that are understood. `must`: sizes that others make. `says`: sentences of the report. `unread`: keys that change nothing. `same_as`: another
// entry's, but for what this one has.
#include "ops/llm/family_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "ops/family/table_sizes.hpp"
#include "ops/llm/graph_reader.hpp"
#include "ops/llm/params.hpp"
#include "ops/llm/parts.hpp"

namespace plumbline {
namespace {

std::optional<JsonValue> entry_of(const std::string& type) {
  if (const auto entry = family_table("graphs.json").at("models").find(type)) return entry;
  const auto tower = family_table("towers.json").at("towers").find(type);
  return tower && tower->has("encoder") ? tower : std::nullopt;
}

/// With what the entry has that it is the same as.
JsonDocument whole_entry(const std::string& type) {
  const JsonValue entry = entry_of(type).value();
  JsonDocument whole = JsonDocument::parse(entry.dump(), "data/families: " + type);
  const auto same = entry.find_string("same_as");
  if (!same) return whole;
  return JsonDocument::parse(entry_of(*same).value().dump(), "data/families: " + *same).merged_with(whole);
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string number_text(double number) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", number);
  return text.data();
}

/// `"key": number` of an encoder's expression, or of the one that is usual.
std::string field(const JsonValue& encoder, const Sizes& sizes, const char* name, const char* key,
                  const std::string& usual) {
  return quoted(name) + ":" + number_text(sizes.of(encoder.find_string(key).value_or(usual)));
}

/// A stack of an `encoder`, its expressions worked out.
std::string stack_text(const JsonValue& encoder, const Sizes& sizes) {
  const auto of = [&](const char* name, const char* key, const std::string& usual) {
    return field(encoder, sizes, name, key, usual);
  };
  const auto value = [&](const char* key, const char* usual) { return encoder.find_string(key).value_or(usual); };
  const std::string heads = value("heads", "heads");
  const std::string width =
      encoder.find_string("head_dim").value_or("floor((" + value("hidden", "w") + ")/(" + heads + "))");
  const auto attention = [&](const std::string& kind, const char* causal) {
    return "{\"use\":" + quoted(kind) + "," + of("q_heads", "heads", "heads") + "," +
           of("kv_heads", "kv_heads", heads) + "," + of("qk_dim", "head_dim", width) + "," +
           of("v_dim", "head_dim", width) + "," + of("causal", causal, "0") + "," + of("rope", "rope", "0") + "," +
           of("qkv_bias", "qkv_bias", "1") + "," + of("key_bias", "key_bias", "1") + "," +
           of("out_bias", "out_bias", "1") + "}";
  };
  const std::string ffn = R"({"use":"gated_ffn","activation":")" + value("activation", "gelu") + "\"," +
                          of("gated", "gated", "0") + "," + of("width", "ffn", "f") + "," +
                          of("bias", "ffn_bias", "1") + "}";
  const bool rms = sizes.of(value("rms", "0")) != 0;
  const std::string cross =
      sizes.of(value("cross", "0")) != 0 ? R"("cross":)" + attention("cross_attention", "never") + "," : "";
  const std::string layer = R"({"mixer":)" + attention("gqa", "causal") + "," + cross + R"("ffn":)" + ffn +
                            R"(,"norm":")" + (rms ? "rms" : "layer") + "\"}";
  return R"({"role":")" + value("role", "vision") + "\"," + of("hidden", "hidden", "w") + R"(,"other_params":0,)" +
         of("fixed_tokens", "tokens", "0") + R"(,"layers":{"layer":)" + layer + R"(},"order":[{"layer":"layer",)" +
         of("repeat", "layers", "layers") + "}]}";
}

/// The graph of an entry's `encoder`, or of several, of which the first is the one that runs.
std::string encoders_text(const JsonValue& entry, const Sizes& sizes) {
  const auto list = entry.find_list("encoders");
  const std::vector<JsonValue> all = list ? list->elements() : std::vector<JsonValue>{entry.at("encoder")};
  std::string stacks;
  for (const JsonValue& one : all) stacks += (stacks.empty() ? "" : ",") + stack_text(one, sizes);
  const JsonValue& main = all.front();
  return "{" + field(main, sizes, "hidden", "hidden", "w") + "," + field(main, sizes, "vocab", "vocab", "0") + "," +
         field(main, sizes, "head", "head", "0") + "," + field(main, sizes, "tied_embeddings", "tied", "1") +
         ",\"stacks\":[" + stacks + "]}";
}

std::string parameters_text(const Sizes& sizes) {
  std::string text = "{";
  for (std::size_t i = 0; i < sizes.names().size(); ++i) {
    text += (i > 0 ? "," : "") + quoted(sizes.names()[i]) + ":" + number_text(sizes.values()[i]);
  }
  return text + "}";
}

/// Words of the file that the entry understands, the first of which stands for a missing one.
void check_words(const JsonValue& entry, const JsonValue& object) {
  const auto only = entry.find("only");
  if (!only) return;
  for (const std::string& key : only->keys()) {
    const auto found = value_at(object, key);
    if (!found || found->is_null()) continue;
    std::string known;
    bool met = false;
    for (const JsonValue& one : only->at(key).elements()) {
      met = met || found->dump() == one.dump();
      known += (known.empty() ? "" : " or ") + one.dump();
    }
    if (!met) found->fail(known.empty() ? "expected none" : "expected " + known + ", which are understood");
  }
}

Sizes sizes_of(const JsonValue& entry, const JsonValue& object) {
  Sizes sizes;
  read_keys(entry, "keys", object, "", sizes);
  read_keys(entry, "lists", object, "", sizes);
  read_keys(entry, "counts", object, "", sizes);
  read_keys(entry, "members", object, "", sizes);
  read_words(entry, object, sizes);
  read_lets(entry, sizes);
  for (std::size_t i = 0; i < sizes.values().size(); ++i) {
    if (!std::isfinite(sizes.values()[i])) object.fail("its sizes make no number of '" + sizes.names()[i] + "'");
  }
  return sizes;
}

/// Sizes that the class can only run with where they are what others make: "must" has the arithmetic by key.
void check_sizes(const JsonValue& entry, const Sizes& sizes, const JsonValue& object) {
  const auto must = entry.find("must");
  if (!must) return;
  for (const std::string& key : must->keys()) {
    const auto found = object.find(key);
    const double wanted = sizes.of(must->at(key));
    if (found && found->is_number() && found->as_number() != wanted) {
      found->fail("expected " + number_text(wanted) + ", which the other sizes make");
    }
  }
}

/// What the layers do not hold stands outside them.
void settle(const JsonValue& entry, const Sizes& sizes, const JsonValue& object, Llm& llm) {
  const auto total = entry.find("params");
  if (!total) return;
  const double table = static_cast<double>(llm.vocab) * static_cast<double>(llm.hidden);
  double counted = (llm.embedding_params == 0 ? table : llm.embedding_params) + llm.head_params;
  if (llm.has_head && !llm.tied_embeddings) counted += table;
  for (const StackSpec& stack : llm.stacks) counted += stack_layer_params(stack) + stack.other_params;
  const double rest = sizes.of(*total) - counted;
  if (!(rest >= -0.5)) object.fail("its sizes make layers of more parameters than the model has");
  llm.stacks.front().other_params += rest;
}

bool is_main_size(const std::string& key) {
  constexpr auto kMain = std::to_array<std::string_view>({"hidden_size", "num_hidden_layers", "num_attention_heads",
                                                          "num_layers", "attention_head_dim", "d_model", "dim",
                                                          "n_layers", "vocab_size", "depth", "encoder_layers"});
  const std::string path = key.substr(0, key.find(' '));
  return std::find(kMain.begin(), kMain.end(), path.substr(path.rfind('/') + 1)) != kMain.end();
}

/// Defaults of the class that stand for what the file leaves out are said, of main sizes above the numbers.
void say_defaults(const JsonValue& entry, const JsonValue& object, const std::string& type, const LlmConfig& config,
                  Llm& llm) {
  std::string all, main;
  for (const std::string& key : missing_keys(entry, object)) {
    all += (all.empty() ? "" : ", ") + key;
    if (is_main_size(key)) main += (main.empty() ? "" : ", ") + key;
  }
  if (!all.empty()) config.assume("keys that the config leaves out, as the class of '" + type + "' has them: " + all);
  if (!main.empty()) {
    llm.warnings.push_back("the file does not say its main sizes: " + main + " are the defaults of the class of '" +
                           type + "'");
  }
}

}  // namespace

bool has_family_graph(const std::string& type) { return !type.empty() && entry_of(type).has_value(); }

void build_family_graph(const LlmConfig& config, const std::string& type, Llm& llm) {
  const JsonDocument document = whole_entry(type);
  const JsonValue entry = document.root(), object = config.inner();
  for (const std::string& key : asked_keys(entry)) config.find({key});
  check_words(entry, object);
  const Sizes sizes = sizes_of(entry, object);
  check_sizes(entry, sizes, object);
  const auto written = entry.find("graph");
  const std::string text = written ? written->dump() : encoders_text(entry, sizes);
  const std::string parameters = written ? "{\"parameters\":" + parameters_text(sizes) + "}" : "{}";
  const JsonDocument graph =
      JsonDocument::parse(text, object.place()).merged_with(JsonDocument::parse(parameters, object.place()));
  const std::string kind = llm.model_type;
  llm = read_family_graph(graph.root());
  llm.model_type = kind;
  read_dtype(config, llm);
  settle(entry, sizes, object, llm);
  say_defaults(entry, object, type, config, llm);
  const auto says = entry.find_list("says");
  if (!says) return;
  for (const JsonValue& sentence : says->elements()) config.assume(sentence.as_string());
}

}  // namespace plumbline
